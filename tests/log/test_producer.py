"""The producer: what it promises when there is room, when there is none, when appends fail, and when processes end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from riverrun import failpoints
from riverrun.errors import Busy, Closed, Conflict, Corrupt, DiskFull, Fenced, Invalid, TimedOut, Unavailable
from riverrun.log.memory import MemoryLog
from riverrun.log.producer import Producer
from riverrun.log.producers import Claim
from riverrun.log.topic import Topic
from riverrun.settings import Settings

SCHEMA = "k string, n bigint"
LONG = "1 hour"  # a linger that never passes in a test
SMALL = Settings.load(environ={}, producer_memory=1000, spill_bytes=4000)


class Obstacle(Topic):
    """A topic whose appends wait for `go`, and fail with what `error` holds."""

    def __init__(self, log: MemoryLog) -> None:
        topic = log.topic("t", SCHEMA, partitions=1)
        super().__init__(topic.backend, log.coordination, SMALL, log.topic)
        self.go = threading.Event()
        self.error: Exception | None = None
        self.tried = 0
        self._append = topic.backend.append
        topic.backend.append = self.append_if_possible  # type: ignore[method-assign]

    def append_if_possible(self, batch: pa.RecordBatch, claim: Claim | None) -> dict[int, int]:
        self.tried += 1
        self.go.wait(20)
        if self.error is not None:
            raise self.error
        return self._append(batch, claim)


@pytest.fixture
def obstacle() -> Iterator[Obstacle]:
    log = MemoryLog(SMALL)
    topic = Obstacle(log)
    yield topic
    topic.error = None
    topic.go.set()
    topic.close()
    log.close()


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def numbers(topic: Any) -> list[int]:
    return topic.read(columns=["n"]).column("n").to_pylist()


def row(n: int, size: int = 1) -> dict[str, Any]:
    return {"k": "x" * size, "n": n}


@pytest.fixture
def topic(open_topic: Callable[..., Topic]) -> Topic:
    return open_topic(schema=SCHEMA, partitions=1, fsync="os")


class TestSending:
    def test_rows_arrive_in_order_and_close_waits_for_them(self, topic: Topic) -> None:
        with topic.producer() as producer:
            for n in range(1000):
                producer.send(row(n))
        assert numbers(topic) == list(range(1000))
        stats = producer.stats
        assert (stats.sent, stats.appended, stats.pending_rows, stats.pending_bytes) == (1000, 1000, 0, 0)
        assert (stats.dropped, stats.spilled, stats.errors, stats.last_error) == (0, 0, 0, None)

    def test_rows_of_a_short_time_become_one_batch(self, topic: Topic) -> None:
        with topic.producer(linger=LONG) as producer:
            for n in range(100):
                producer.send(row(n))
            producer.flush()
            assert producer.stats.batches == 1

    def test_linger_is_about_how_long_a_row_waits(self, topic: Topic) -> None:
        with topic.producer(linger="1 ms") as producer:
            producer.send(row(1))
            assert topic.wait(topic.earliest, "20 seconds")

    def test_without_linger_a_row_is_sent_at_once(self, topic: Topic) -> None:
        with topic.producer(linger=0) as producer:
            producer.send(row(1))
            assert topic.wait(topic.earliest, "20 seconds")

    def test_enough_rows_do_not_wait_for_the_linger(self, topic: Topic) -> None:
        with topic.producer(linger=LONG) as producer:
            for n in range(10_000):
                producer.send(row(n))
            assert topic.wait(topic.earliest, "20 seconds")

    def test_flush_is_about_rows_sent_before(self, topic: Topic) -> None:
        with topic.producer(linger=LONG) as producer:
            for n in range(3):
                producer.send(row(n))
                producer.flush()
                assert numbers(topic) == list(range(n + 1))
            producer.flush()

    def test_a_row_may_be_changed_after_it_was_sent(self, open_topic: Callable[..., Topic]) -> None:
        topic = open_topic(schema="n bigint, tags array<string>", partitions=1, fsync="os")
        row: dict[str, Any] = {"n": 0, "tags": []}
        with topic.producer(linger=LONG) as producer:
            for n in range(3):
                row["n"] = n
                row["tags"].append("x")
                producer.send(row)
        assert topic.read().select(["n", "tags"]).to_pylist() == [{"n": n, "tags": ["x"] * (n + 1)} for n in range(3)]

    def test_a_bad_row_is_refused_at_once_and_does_not_stop_others(self, topic: Topic) -> None:
        with topic.producer() as producer:
            producer.send(row(1))
            with pytest.raises(Invalid, match="column 'n'"):
                producer.send({"k": "a", "n": "two"})
            with pytest.raises(Invalid, match="A row is a dict"):
                producer.send([row(2)])  # type: ignore[arg-type]
            producer.send(row(3))
        assert numbers(topic) == [1, 3]

    def test_tombstones_can_be_sent(self, open_topic: Callable[..., Topic]) -> None:
        topic = open_topic(key="k", time="at", partitions=1)
        with topic.producer() as producer:
            producer.send({"k": "a", "_deleted": True})
            with pytest.raises(Invalid, match="column 'k': a value is required"):
                producer.send({"n": 1, "_deleted": True})
        (found,) = topic.read().to_pylist()
        assert (found["k"], found["_deleted"]) == ("a", True)

    def test_threads_may_share_it(self, topic: Topic) -> None:
        with topic.producer() as producer:

            def work(base: int) -> None:
                for n in range(2000):
                    producer.send(row(base + n))

            threads = [threading.Thread(target=work, args=(base,)) for base in (0, 10_000, 20_000)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        found = numbers(topic)
        assert sorted(found) == [base + n for base in (0, 10_000, 20_000) for n in range(2000)]
        for base in (0, 10_000, 20_000):
            mine = [n for n in found if base <= n < base + 2000]
            assert mine == sorted(mine)
        assert producer.stats.pending_bytes == 0

    def test_threads_that_wait_for_room_on_disk_lose_no_row(self, open_topic: Callable[..., Topic]) -> None:
        """What one of them puts on disk is no answer to another one that waits."""
        topic = open_topic(schema=SCHEMA, partitions=1, fsync="os", settings=SMALL)
        threads = [
            threading.Thread(target=lambda t=t: [producer.send(row(1000 * t + n, 200)) for n in range(100)])
            for t in range(6)
        ]
        with topic.producer(on_full="spill") as producer:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert producer.stats.spilled
        assert sorted(numbers(topic)) == [1000 * t + n for t in range(6) for n in range(100)]

    def test_use_after_close(self, topic: Topic) -> None:
        producer = topic.producer()
        producer.close()
        producer.close()
        with pytest.raises(Closed):
            producer.send(row(1))

    def test_arguments(self, topic: Topic) -> None:
        with pytest.raises(Invalid, match=r"on_full cannot be 'spil'\. Did you mean 'spill'\?"):
            topic.producer(on_full="spil")
        with pytest.raises(Invalid, match="not a duration"):
            topic.producer(linger="soon")

    def test_closing_the_topic_sends_what_its_producers_hold(self, open_topic: Callable[..., Topic]) -> None:
        topic = open_topic(schema=SCHEMA, partitions=1, fsync="os")
        topic.producer(linger=LONG).send(row(1))
        topic.close()
        assert numbers(open_topic(schema=SCHEMA)) == [1]


class TestFull:
    def test_block_waits_for_room(self, obstacle: Obstacle) -> None:
        producer = obstacle.producer(linger=0)
        sender = threading.Thread(target=lambda: [producer.send(row(n, 100)) for n in range(100)])
        sender.start()
        eventually(lambda: obstacle.tried and producer.stats.sent >= 5)
        assert producer.stats.pending_bytes <= SMALL.producer_memory
        assert sender.is_alive()
        obstacle.go.set()
        sender.join(20)
        producer.close()
        assert numbers(obstacle) == list(range(100))

    def test_block_waits_at_most_as_long_as_it_is_told(self, obstacle: Obstacle) -> None:
        producer = obstacle.producer()
        with pytest.raises(TimedOut, match="memory was full for 10 ms"):
            for n in range(100):
                producer.send(row(n, 100), timeout="10 ms")
        sent = producer.stats.sent
        obstacle.go.set()
        producer.close()
        assert numbers(obstacle) == list(range(sent))

    def test_a_row_larger_than_the_memory_is_sent_alone(self, obstacle: Obstacle) -> None:
        obstacle.go.set()
        for policy in ("block", "drop", "spill"):
            with obstacle.producer(on_full=policy) as producer:
                producer.send(row(1, 5000), timeout="20 seconds")
            assert producer.stats.appended == 1

    def test_a_sender_that_waits_is_told_when_it_is_closed(self, obstacle: Obstacle) -> None:
        producer = obstacle.producer(linger=0)
        errors: list[Exception] = []

        def work() -> None:
            try:
                for n in range(100):
                    producer.send(row(n, 100))
            except Closed as error:
                errors.append(error)

        sender = threading.Thread(target=work)
        sender.start()
        eventually(lambda: producer.stats.pending_bytes + 150 > SMALL.producer_memory)
        closer = threading.Thread(target=producer.close)
        closer.start()
        sender.join(20)
        assert len(errors) == 1
        obstacle.go.set()
        closer.join(20)
        assert producer.stats.appended == producer.stats.sent == len(numbers(obstacle))

    def test_drop_counts_and_warns_once(self, obstacle: Obstacle, caplog: pytest.LogCaptureFixture) -> None:
        producer = obstacle.producer(on_full="drop")
        with caplog.at_level(logging.WARNING):
            for n in range(100):
                producer.send(row(n, 100))
        obstacle.go.set()
        producer.close()
        stats = producer.stats
        assert stats.sent == 100
        assert 0 < stats.dropped < 100
        assert stats.appended == 100 - stats.dropped == len(numbers(obstacle))
        assert [r.getMessage() for r in caplog.records] == ["topic t: a producer's memory is full, rows are dropped"]

    def test_spill_keeps_all_in_order(self, obstacle: Obstacle) -> None:
        producer = obstacle.producer(on_full="spill")
        for n in range(30):
            producer.send(row(n, 100))
        assert 0 < producer.stats.spilled < 30
        assert producer.stats.pending_rows == 30
        (file,) = os.listdir(obstacle.backend.spill_directory)
        obstacle.go.set()
        producer.flush()
        assert numbers(obstacle) == list(range(30))
        assert not os.path.exists(f"{obstacle.backend.spill_directory}/{file}")
        producer.send(row(30))  # memory again
        producer.close()
        assert numbers(obstacle) == list(range(31))
        assert producer.stats.appended == producer.stats.sent == 31

    def test_spill_is_bounded_and_blocks_then(self, obstacle: Obstacle) -> None:
        producer = obstacle.producer(on_full="spill")
        with pytest.raises(TimedOut):
            for n in range(1000):
                producer.send(row(n, 100), timeout="20 ms")
        (file,) = os.scandir(obstacle.backend.spill_directory)
        assert file.stat().st_size <= SMALL.spill_bytes
        sent = producer.stats.sent
        waiting = threading.Thread(target=producer.send, args=(row(sent),))
        waiting.start()
        obstacle.go.set()
        waiting.join(20)
        producer.close()
        assert numbers(obstacle) == list(range(sent + 1))


class TestErrors:
    @pytest.mark.parametrize("error", [DiskFull("no room"), Busy("held")])
    def test_errors_that_pass_are_tried_again(self, obstacle: Obstacle, error: Exception) -> None:
        obstacle.go.set()
        obstacle.error = error
        producer = obstacle.producer(linger=0)
        producer.send(row(1))
        eventually(lambda: producer.stats.retries >= 2)
        producer.send(row(2))
        with pytest.raises(TimedOut, match=f"2 rows are not appended yet.*{error}"):
            producer.flush(timeout=0)
        assert producer.stats.last_error == str(error)
        obstacle.error = None
        producer.close()
        assert numbers(obstacle) == [1, 2]

    @pytest.mark.parametrize("policy", ["block", "drop", "spill"])
    def test_the_policy_decides_while_the_disk_is_full(self, obstacle: Obstacle, policy: str) -> None:
        obstacle.go.set()
        obstacle.error = DiskFull("no room")
        producer = obstacle.producer(on_full=policy)
        try:
            for n in range(20):
                producer.send(row(n, 100), timeout="10 ms")
        except TimedOut:
            assert policy == "block"
        obstacle.error = None
        producer.close()
        stats = producer.stats
        assert stats.appended + stats.dropped == stats.sent
        assert numbers(obstacle) == list(range(stats.appended))

    def test_other_errors_are_raised_by_every_call_that_follows(self, obstacle: Obstacle) -> None:
        obstacle.go.set()
        obstacle.error = Unavailable("the disk is gone")
        producer = obstacle.producer(linger=0)
        producer.send(row(1))
        told = "the disk is gone; 1 rows that were sent are not in the topic"
        with pytest.raises(Unavailable, match=told):
            producer.flush()
        with pytest.raises(Unavailable, match=told):
            producer.send(row(2))
        with pytest.raises(Unavailable, match=told):
            producer.close()
        assert producer.stats.pending_rows == 1
        assert producer.stats.errors == 1

    def test_close_gives_up_when_its_time_is_up_and_says_what_is_lost(self, obstacle: Obstacle) -> None:
        obstacle.go.set()
        obstacle.error = DiskFull("no room")
        producer = obstacle.producer()
        producer.send(row(1))
        with pytest.raises(TimedOut, match=r"1 rows are not appended yet.*no room"):
            producer.close(timeout="30 ms")

    def test_a_full_disk_for_real(self, open_topic: Callable[..., Topic]) -> None:
        topic = open_topic(schema=SCHEMA, partitions=1, fsync="os")
        failpoints.arm("append.begin:1=enospc")
        with topic.producer(linger=0) as producer:
            producer.send(row(1))
        assert numbers(topic) == [1]
        assert producer.stats.retries == 1


class TestNames:
    def test_a_newer_producer_of_the_name_shuts_out_the_older(self, topic: Topic) -> None:
        old = topic.producer(name="app", linger=0)
        old.send(row(1))
        old.flush()
        with topic.producer(name="app") as new:
            new.send(row(2))
        with pytest.raises(Fenced, match=r"'app'.*superseded"):
            old.send(row(3))
            old.flush()
        with pytest.raises(Fenced, match="1 rows that were sent are not in the topic"):
            old.close()
        assert numbers(topic) == [1, 2]

    def test_sequences_rise_over_restarts(self, open_topic: Callable[..., Topic]) -> None:
        last = -1
        for n in range(4):
            topic = open_topic(schema=SCHEMA, partitions=1, fsync="os")
            with topic.producer(name="app") as producer:
                producer.send(row(n))
            sequence = topic.last_sequence("app")
            assert sequence is not None
            assert sequence > last
            last = sequence
            topic.close()
        assert numbers(open_topic(schema=SCHEMA)) == [0, 1, 2, 3]

    def test_a_name_with_sequences_of_its_own_is_refused(self, topic: Topic) -> None:
        topic.append(row(1), producer="app", sequence=1 << 61, fence=1)
        with pytest.raises(Conflict, match="sequences of its own"):
            topic.producer(name="app")

    def test_sequences_from_before_the_first_fence_do_no_harm(self, topic: Topic) -> None:
        topic.append(row(1), producer="app", sequence=1 << 61)
        with topic.producer(name="app") as producer:
            producer.send(row(2))
        assert numbers(topic) == [1, 2]

    def test_small_sequences_of_its_own_do_no_harm(self, topic: Topic) -> None:
        topic.append(row(1), producer="app", sequence=1000)
        with topic.producer(name="app") as producer:
            producer.send(row(2))
        assert numbers(topic) == [1, 2]


def crash(producer: Producer) -> None:
    """Let go of what a dead process lets go of: its locks, and nothing else."""
    assert producer._outbox.disk is not None
    assert producer._thread is not None
    with producer._lock:
        producer._abandoned = producer._closing = True
    producer._thread.join()
    producer._outbox.disk.let_go()
    del producer.topic.backend.append  # there is room again


class TestLeftovers:
    @pytest.fixture
    def small(self, open_topic: Callable[..., Topic]) -> Topic:
        return open_topic(schema=SCHEMA, partitions=1, fsync="os", settings=SMALL)

    def spilling(self, topic: Topic, name: str | None, rows: range) -> Producer:
        """A producer for whose appends there was no room, so that most of its rows are on disk."""

        def no_room(*_: object) -> dict[int, int]:
            raise DiskFull("no room")

        producer = topic.producer(on_full="spill", name=name)
        topic.backend.append = no_room  # type: ignore[method-assign]
        for n in rows:
            producer.send(row(n, 100))
        eventually(lambda: producer.stats.retries)
        return producer

    @pytest.mark.parametrize("name", ["app", None])
    def test_rows_on_disk_are_sent_by_the_next_one(self, small: Topic, name: str | None) -> None:
        dead = self.spilling(small, name, range(20))
        held = 20 - dead.stats.spilled
        crash(dead)
        with small.producer(on_full="spill", name=name) as producer:
            producer.send(row(20))
        assert numbers(small)[-1] == 20
        assert numbers(small)[-1 - dead.stats.spilled : -1] == list(range(held, 20))
        assert producer.stats.recovered == dead.stats.spilled
        assert os.listdir(small.backend.spill_directory) == []

    @pytest.mark.parametrize("name", ["app", None])
    def test_rows_that_were_appended_before_the_crash_are_not_sent_again(self, small: Topic, name: str | None) -> None:
        dead = self.spilling(small, name, range(20))
        assert dead._outbox.disk is not None
        with open(dead._outbox.disk.path, "rb") as file:
            content = file.read()
        path = dead._outbox.disk.path
        del small.backend.append  # there is room again
        dead.close()
        assert numbers(small) == list(range(20))
        with open(path, "wb") as file:  # as if it had died before it emptied the file
            file.write(content)
        with small.producer(on_full="spill", name=name) as producer:
            producer.send(row(20))
        assert numbers(small) == list(range(21))
        assert producer.stats.recovered == 0

    def test_a_torn_row_at_the_end_is_left_out(self, small: Topic, caplog: pytest.LogCaptureFixture) -> None:
        dead = self.spilling(small, "app", range(20))
        assert dead._outbox.disk is not None
        path, spilled = dead._outbox.disk.path, dead.stats.spilled
        crash(dead)
        os.truncate(path, os.path.getsize(path) - 3)
        with small.producer(name="app") as producer:
            producer.send(row(20))
        assert producer.stats.recovered == spilled - 1
        assert numbers(small)[-2:] == [18, 20]
        assert "a row that was not finished" in caplog.text

    def test_damage_is_named_and_nothing_is_skipped(self, small: Topic) -> None:
        dead = self.spilling(small, "app", range(20))
        assert dead._outbox.disk is not None
        path = dead._outbox.disk.path
        crash(dead)
        with open(path, "r+b") as file:
            file.seek(40)
            file.write(b"\xff\xff")
        producer = small.producer(name="app")
        with pytest.raises(Corrupt, match=f"{path} is damaged at byte"):
            producer.flush()
        with pytest.raises(Corrupt):
            producer.close()
        assert os.path.exists(path)

    def test_a_live_owners_file_is_left_alone(self, small: Topic, open_topic: Callable[..., Topic]) -> None:
        alive = self.spilling(small, None, range(20))
        with open_topic(schema=SCHEMA).producer(on_full="spill") as other:
            other.send(row(100))
        assert other.stats.recovered == 0
        del small.backend.append  # there is room again
        alive.close()
        assert sorted(numbers(small)) == [*range(20), 100]

    def test_rows_of_one_that_was_superseded_while_it_ran_are_set_aside(
        self,
        small: Topic,
        open_topic: Callable[..., Topic],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        old = self.spilling(small, "app", range(20))
        with open_topic(schema=SCHEMA).producer(name="app") as new:
            new.send(row(100))
        crash(old)
        with small.producer(name="app") as third:
            third.send(row(101))
        assert numbers(small)[-2:] == [100, 101]
        assert "superseded while it ran" in caplog.text
        (left,) = os.listdir(small.backend.spill_directory)
        assert left.endswith(".refused")


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    source = f"import sys\nfrom programs.topics import open_topic\ntopic = open_topic(sys.argv[1])\n{program}"
    tests = Path(__file__).parent.parent
    path = os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )


class TestProcesses:
    def found(self, path: Path) -> list[int]:
        from programs.topics import open_topic

        with open_topic(str(path)) as topic:
            return numbers(topic)

    def test_rows_are_sent_when_the_program_ends(self, tmp_path: Path) -> None:
        run('topic.producer(linger="1 hour").send({"k": "a", "n": 7})', tmp_path)
        assert self.found(tmp_path) == [7]

    def test_rows_that_cannot_be_sent_at_the_end_are_reported(self, tmp_path: Path) -> None:
        done = run(
            "from riverrun.errors import Unavailable\n"
            "def fail(*_): raise Unavailable('the disk is gone')\n"
            "producer = topic.producer(linger='1 hour')\n"
            "producer.send({'k': 'a', 'n': 7})\n"
            "topic.backend.append = fail",
            tmp_path,
        )
        assert "the disk is gone; 1 rows that were sent are not in the topic" in done.stderr

    def test_a_forked_child_begins_with_nothing_and_the_parents_rows_are_sent_once(self, tmp_path: Path) -> None:
        run(
            "import os\n"
            "producer = topic.producer(linger='1 hour')\n"
            "producer.send({'k': 'a', 'n': 1})\n"
            "pid = os.fork()\n"
            "producer.send({'k': 'a', 'n': 2 if pid else 3})\n"
            "assert producer.stats.sent == (2 if pid else 1)\n"
            "producer.close()\n"
            "if pid == 0: os._exit(0)\n"
            "assert os.waitpid(pid, 0)[1] == 0",
            tmp_path,
        )
        assert sorted(self.found(tmp_path)) == [1, 2, 3]

    def test_a_name_stays_with_the_process_that_made_it(self, tmp_path: Path) -> None:
        run(
            "import os\n"
            "from riverrun.errors import Closed\n"
            "producer = topic.producer(name='app')\n"
            "producer.send({'k': 'a', 'n': 1})\n"
            "if (pid := os.fork()) == 0:\n"
            "    try: producer.send({'k': 'a', 'n': 2})\n"
            "    except Closed: os._exit(0)\n"
            "    os._exit(1)\n"
            "assert os.waitpid(pid, 0)[1] == 0\n"
            "producer.send({'k': 'a', 'n': 3})\n"
            "producer.close()",
            tmp_path,
        )
        assert self.found(tmp_path) == [1, 3]

    def test_children_of_multiprocessing_send_what_they_hold(self, tmp_path: Path) -> None:
        run(
            "import multiprocessing\n"
            "producer = topic.producer(linger='1 hour')\n"
            "def work(n): producer.send({'k': 'a', 'n': n})\n"
            "fork = multiprocessing.get_context('fork')\n"
            "children = [fork.Process(target=work, args=(n,)) for n in (1, 2)]\n"
            "for child in children: child.start()\n"
            "for child in children: child.join()",
            tmp_path,
        )
        assert sorted(self.found(tmp_path)) == [1, 2]

    def test_what_was_spilled_survives_a_kill(self, tmp_path: Path) -> None:
        program = (
            "import os, signal\n"
            "producer = topic.producer(name='app', on_full='spill')\n"
            "for n in range(300):\n"
            "    before = producer.stats.spilled\n"
            "    producer.send({'k': 'x' * 100, 'n': n})\n"
            "    if producer.stats.spilled > before: print(n, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        with pytest.raises(subprocess.CalledProcessError) as killed:
            run(program, tmp_path)
        spilled = {int(line) for line in killed.value.stdout.split()}
        run("topic.producer(name='app').close()", tmp_path)
        found = self.found(tmp_path)
        assert spilled
        assert spilled <= set(found)
        assert found == sorted(set(found))
