"""Queues: every message is dealt with, by one worker at a time; what fails comes again, or ends as a dead letter."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from riverrun.errors import Closed, Fenced, Invalid, OutOfRange
from riverrun.river import River

SCHEMA = "k string, n bigint"


@pytest.fixture
def river(tmp_path):
    with River(tmp_path / "river") as river:
        yield river


@pytest.fixture
def topic(river):
    return river.topic("t", SCHEMA, key="k", fsync="os")


def rows(first, last):
    return [{"k": f"key{n % 16}", "n": n} for n in range(first, last)]


def line(program):
    text = program.stdout.readline()
    assert text, program.stderr.read()
    return text.strip()


def take_all(queue):
    return list(iter(lambda: queue.receive(0), None))


def left_over(river, group):
    with river._coordination.reading() as db:
        return db.execute("select count(*) from messages where grp = ?", (group,)).fetchone()[0]


def test_a_message_has_its_row_key_attempt_and_position(topic):
    topic.append({"k": "a", "n": 7})
    with topic.queue("q") as queue:
        message = queue.receive(timeout=0)
        assert message.row == {"k": "a", "n": 7}
        assert (message.key, message.attempt) == ("a", 1)
        assert topic.read(start=message.position).column("n").to_pylist() == [7]
        message.ack()
        message.ack()  # once more has no effect
        assert queue.receive(timeout=0) is None


def test_acknowledged_messages_do_not_come_again(river, topic):
    topic.append(rows(0, 1000))
    with topic.queue("q") as queue:
        for message in iter(lambda: queue.receive(0), None):
            message.ack()
    with topic.queue("q") as queue:
        assert queue.receive(0) is None
    assert left_over(river, "q") == 0
    assert river.lag("q")["rows"] == 0


def test_every_group_gets_every_message(topic):
    topic.append(rows(0, 10))
    with topic.queue("one") as one, topic.queue("other") as other:
        assert len(take_all(one)) == len(take_all(other)) == 10


def test_a_message_is_with_one_worker_at_a_time(topic):
    topic.append(rows(0, 10))
    with topic.queue("q") as one, topic.queue("q") as other:
        mine, theirs = [one.receive(0).row["n"] for _ in range(5)], [m.row["n"] for m in take_all(other)]
        assert sorted(mine + theirs) == list(range(10))
        assert one.receive(0) is None


def test_given_back_it_comes_again_at_once_or_after_a_delay(topic):
    topic.append(rows(0, 1))
    with topic.queue("q") as queue:
        queue.receive(0).nack("busy")
        message = queue.receive(0)
        assert message.attempt == 2
        message.nack(delay="200 ms")
        assert queue.receive(0) is None
        begin = time.monotonic()
        assert queue.receive(30).attempt == 3
        assert 0.1 < time.monotonic() - begin < 5


def test_a_lease_that_runs_out_brings_it_to_another_and_the_first_is_refused(topic):
    topic.append(rows(0, 1))
    with topic.queue("q", lease="200 ms") as one, topic.queue("q", lease="200 ms") as other:
        late = one.receive(0)
        assert other.receive(0) is None
        again = other.receive(30)  # woken when the lease has run out
        assert (again.row, again.attempt) == (late.row, 2)
        with pytest.raises(Fenced, match=r"worker .* has it, in attempt 2"):
            late.ack()
        with pytest.raises(Fenced):
            late.nack()
        again.ack()
        with pytest.raises(Fenced, match="it is done"):
            late.ack()


def test_late_but_nobody_took_it_is_in_time(topic):
    topic.append(rows(0, 1))
    with topic.queue("q", lease="50 ms") as queue:
        message = queue.receive(0)
        time.sleep(0.1)
        message.ack()
        assert queue.receive(0) is None


def test_extend_keeps_it(topic):
    topic.append(rows(0, 1))
    with topic.queue("q", lease="300 ms") as queue:
        message = queue.receive(0)
        for _ in range(4):
            time.sleep(0.1)
            message.extend()
        message.extend("1 hour")
        assert queue.receive(0.4) is None
        message.ack()
        with pytest.raises(Fenced, match="acknowledged already"):
            message.extend()


def test_a_waiting_worker_is_woken_by_a_message_and_by_one_given_back(topic):
    with topic.queue("q") as one, topic.queue("q") as other:
        threading.Timer(0.1, topic.append, [rows(0, 1)]).start()
        begin = time.monotonic()
        message = one.receive(30)
        threading.Timer(0.1, message.nack).start()
        assert other.receive(30).attempt == 2
        assert time.monotonic() - begin < 5


def test_closing_gives_back_what_was_not_acknowledged(topic):
    topic.append(rows(0, 2))
    with topic.queue("q") as queue:
        message = queue.receive(0)
        queue.receive(0).ack()
    with pytest.raises(Closed):
        queue.receive(0)
    with topic.queue("q") as queue:
        again = queue.receive(0)
        assert (again.row, again.attempt) == (message.row, 2)


def test_closing_ends_a_receive_that_waits(topic):
    queue = topic.queue("q")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(queue.receive(30)))
    thread.start()
    time.sleep(0.1)
    queue.close()
    thread.join(5)
    assert answers == [None]


def test_tombstones_and_promises_are_no_messages(river, topic):
    topic.delete("key0")
    topic.append(rows(0, 1))
    topic.delete("key0")
    topic.advance(0, datetime.now(UTC))
    with topic.queue("q") as queue:
        assert [message.row["n"] for message in take_all(queue)] == [0]
    with topic.queue("r") as queue:
        queue.receive(0).ack()
        assert queue.receive(0) is None
        assert river.lag("r")["rows"] == 0


def test_threads_share_a_queue(topic):
    topic.append(rows(0, 300))
    seen, lock = Counter(), threading.Lock()
    with topic.queue("q") as queue:

        def work():
            while message := queue.receive(0.2):
                with lock:
                    seen[message.row["n"]] += 1
                message.ack()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == Counter(range(300))


def test_a_forked_worker_goes_on_with_messages_of_its_own(topic):
    topic.append(rows(0, 2))
    with topic.queue("q") as queue:
        mine = queue.receive(0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                theirs = queue.receive(0)
                if theirs.row != mine.row:
                    theirs.ack()
                    queue.close()  # not the parent's message
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        mine.ack()
        assert queue.receive(0) is None


@pytest.mark.parametrize("options", [{"attempts": 0}, {"attempts": True}, {"lease": 0}, {"lease": "soon"}])
def test_options_are_checked(topic, options):
    with pytest.raises(Invalid):
        topic.queue("q", **options)


def test_a_group_name_too_long_for_its_dead_letters_is_refused(topic):
    with pytest.raises(Invalid, match="1 to 200"):
        topic.queue("q" * 199)


# Dead letters.


def test_after_the_last_attempt_it_is_a_dead_letter(river, topic):
    topic.append(rows(0, 2))
    with topic.queue("q", attempts=3) as queue:
        good = queue.receive(0)
        for attempt in (1, 2, 3):
            bad = queue.receive(0)
            assert bad.attempt == attempt
            bad.nack(f"failed {attempt}")
        assert queue.receive(0) is None
        good.ack()
    assert queue.dead_letters == "t.dead.q"
    (letter,) = river.topic("t.dead.q").read().to_pylist()
    assert {name: letter[name] for name in ("k", "n", "_key")} == {**bad.row, "_key": bad.row["k"]}
    assert letter["dead_reason"] == "failed 3"
    assert letter["dead_attempts"] == 3
    assert letter["dead_position"] == str(bad.position)
    assert letter["dead_at"] is not None
    assert left_over(river, "q") == 0
    assert river.lag("q")["rows"] == 0


def test_leases_that_run_out_count_as_attempts(river, topic):
    topic.append(rows(0, 1))
    with topic.queue("q", lease="50 ms", attempts=2) as queue:
        queue.receive(0)
        late = queue.receive(5)
        assert late.attempt == 2
        assert queue.receive(0.5) is None
        with pytest.raises(Fenced, match="it is done"):
            late.ack()
    assert river.topic("t.dead.q").read().column("dead_reason").to_pylist() == ["not acknowledged within 50 ms"]


def test_dead_letters_can_be_taken_as_a_queue_themselves(river, topic):
    topic.append(rows(0, 1))
    with topic.queue("q", attempts=1) as queue:
        queue.receive(0).nack("bad")
    with river.topic("t.dead.q").queue("again", attempts=1) as queue:
        message = queue.receive(0)
        assert message.row["dead_reason"] == "bad"
        message.nack("worse")
    (letter,) = river.topic("t.dead.q.dead.again").read().to_pylist()
    assert (letter["n"], letter["dead_reason"]) == (0, "worse")


def test_dead_letters_of_a_topic_that_grew(river, topic):
    topic.append(rows(0, 1))
    with topic.queue("q", attempts=1) as queue:
        queue.receive(0).nack("one")
    grown = river.topic("t", SCHEMA + ", extra string")
    grown.append({"k": "a", "n": 1, "extra": "more"})
    with grown.queue("q", attempts=1) as queue:
        queue.receive(0).nack("two")
    found = river.topic("t.dead.q").read().to_pylist()
    assert [(row["n"], row["dead_reason"], row.get("extra")) for row in found] == [(0, "one", None), (1, "two", "more")]


def test_a_topic_made_again_goes_on_filling_its_dead_letters(river, topic):
    for _ in range(2):
        topic.append(rows(0, 1))
        with topic.queue("q", attempts=1) as queue:
            queue.receive(0).nack("bad")
        river.drop_topic("t")
        topic = river.topic("t", SCHEMA, key="k", fsync="os")
    assert river.topic("t.dead.q").read().num_rows == 2


def test_a_message_that_retention_removed_is_reported_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RIVERRUN_SEGMENT_BYTES", "4096")
    with River(tmp_path / "river") as river:
        topic = river.topic("t", SCHEMA, partitions=1, fsync="os")
        topic.append(rows(0, 2))
        last_try = topic.queue("r", attempts=1)
        last_try.receive(0).ack()
        two = last_try.receive(0)
        with topic.queue("q") as queue:
            one = queue.receive(0)
            for first in range(2, 200, 10):
                topic.append(rows(first, first + 10))
            for message in iter(lambda: queue.receive(0), None):
                message.ack()
            os.unlink(topic.backend.journal.segments.entries(topic.backend.journal.ends().segment)[0].path)
            with topic.queue("q") as fresh:  # one that does not have the row in memory
                one.nack()
                with pytest.raises(OutOfRange, match="t@0:0 was to be delivered again, but retention removed it"):
                    fresh.receive(0)
                assert fresh.receive(0) is None
        with pytest.raises(OutOfRange, match=r"t@0:1 failed 1 times .bad., and retention removed it"):
            two.nack("bad")
        assert left_over(river, "q") == left_over(river, "r") == 0


# Workers that die.


def test_what_a_killed_worker_had_comes_again_without_waiting_for_its_lease(river, topic, program):
    topic.append(rows(0, 1))
    worker = program("work.py", river.path, "q", "hold", "1 hour")
    assert line(worker) == "0 1"
    with topic.queue("q") as queue:
        assert queue.receive(0) is None
        worker.kill()
        worker.wait()
        begin = time.monotonic()
        assert queue.receive(30).attempt == 2
        assert time.monotonic() - begin < 5


def test_a_stopped_worker_that_wakes_up_cannot_acknowledge(river, topic, program):
    topic.append(rows(0, 1))
    worker = program("work.py", river.path, "q", "ack", "500 ms", failpoints="queue.ack.begin=stop")
    assert line(worker) == "0 1"
    with topic.queue("q") as queue:
        message = queue.receive(30)
        assert message.attempt == 2
        os.kill(worker.pid, signal.SIGCONT)
        assert line(worker).startswith("fenced queue q: message t@")
        message.ack()


@pytest.mark.parametrize("place", ["queue.ack.begin:5", "queue.ack.written:5"])
def test_killed_in_an_ack_it_was_not_acknowledged(river, topic, program, place):
    topic.append(rows(0, 20))
    worker = program("work.py", river.path, "q", "ack", failpoints=f"{place}=kill")
    out, _ = worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    acked = {int(text.split()[1]) for text in out.splitlines() if text.startswith("acked")}
    with topic.queue("q") as queue:
        again = Counter(message.row["n"] for message in take_all(queue))
    assert again == Counter(set(range(20)) - acked)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("place", ["begin", "appended", "removed"])
def test_killed_on_the_way_to_the_dead_letters_each_arrives_once(river, topic, program, place, nth):
    topic.append(rows(0, 5))
    worker = program("work.py", river.path, "q", "nack", "30 s", 2, failpoints=f"queue.dead.{place}:{nth}=kill")
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    with topic.queue("q", attempts=2) as queue:
        for message in iter(lambda: queue.receive(0), None):
            message.nack()
    found = river.topic("t.dead.q").read()
    assert sorted(found.column("n").to_pylist()) == list(range(5))
    assert set(found.column("dead_attempts").to_pylist()) == {2}
    assert left_over(river, "q") == 0


def test_workers_in_many_processes_with_one_killed(river, topic, program):
    topic.append(rows(0, 400))
    victim = program("work.py", river.path, "q", "ack", failpoints="queue.ack.written:30=kill")
    assert line(victim)
    workers = [program("work.py", river.path, "q", "ack") for _ in range(2)]
    outs = [worker.stdout.read() for worker in (victim, *workers)]
    assert victim.wait() == -signal.SIGKILL
    acked = Counter(int(text.split()[1]) for out in outs for text in out.splitlines() if text.startswith("acked"))
    assert acked == Counter(range(400))
    assert not any("fenced" in out for out in outs)
    assert river.lag("q")["rows"] == 0


def test_thousands_of_messages_a_second(topic):
    topic.append(rows(0, 4000))
    with topic.queue("q") as queue:
        begin = time.perf_counter()
        for message in iter(lambda: queue.receive(0), None):
            message.ack()
        rate = 4000 / (time.perf_counter() - begin)
    assert rate > 500, f"{rate:.0f}/s; about 10 000 on a core that is free"
