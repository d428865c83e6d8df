"""Groups: members that die, stop and come back; lag, reset, drop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from riverrun import failpoints
from riverrun.errors import Busy, Conflict, Fenced, NotFound, OutOfRange
from riverrun.log import process
from riverrun.position import Position
from riverrun.river import River

SCHEMA = "k string, n bigint"


@pytest.fixture
def river(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", SCHEMA, key="k", fsync="os")
        yield river


@pytest.fixture
def topic(river):
    return river.topic("t")


@pytest.fixture
def short_lease(monkeypatch):
    """For this process and the programs it starts."""
    monkeypatch.setenv("RIVERRUN_MEMBER_LEASE", "600 ms")


def rows(first, last):
    return [{"k": f"key{n % 16}", "n": n} for n in range(first, last)]


def drain(consumer, timeout=0):
    found = []
    while (batch := consumer.poll(timeout)) is not None:
        found += batch.column("n").to_pylist()
    return found


def line(program):
    text = program.stdout.readline()
    assert text, program.stderr.read()
    return text.strip()


def numbers(text):
    return [int(n) for n in text.split()]


# Members that go.


def test_a_killed_member_is_replaced_at_once_and_what_it_did_not_commit_comes_again(river, topic, program):
    topic.append(rows(0, 100))
    member = program("consume.py", river.path, "g", failpoints="group.commit.begin=kill")
    assert line(member) == "joined"
    seen = numbers(line(member))
    member.wait()
    begin = time.monotonic()
    with topic.consumer("g") as consumer:  # the system knows that the process is gone; no lease has to run out
        assert sorted(drain(consumer)) == list(range(100)) == sorted(seen)
    assert time.monotonic() - begin < 4


def test_a_killed_member_is_noticed_by_one_that_waits(river, topic, program, short_lease):
    other = River(river.path)
    with other, other.topic("t").consumer("g") as consumer:
        member = program("consume.py", river.path, "g")
        assert line(member) == "joined"
        while len(consumer.assignment["t"]) == 4:
            consumer.poll(0.01)
        member.kill()
        member.wait()
        begin = time.monotonic()
        while len(consumer.assignment["t"]) < 4:
            consumer.poll(0.01)
        assert time.monotonic() - begin < 5


def test_a_stopped_member_is_replaced_within_ten_seconds_and_its_commit_is_refused(river, topic, program):
    topic.append(rows(0, 100))
    member = program("consume.py", river.path, "g", failpoints="group.commit.begin=stop")
    assert line(member) == "joined"
    assert sorted(numbers(line(member))) == list(range(100))
    begin = time.monotonic()
    with topic.consumer("g") as consumer:
        seen = []
        while len(seen) < 100:
            seen += drain(consumer, 0.1)
            assert time.monotonic() - begin < 10
        consumer.commit()
        os.kill(member.pid, signal.SIGCONT)
        answer = line(member)
        assert answer.startswith("fenced group g: topic t, partition 0 now belongs to member")
        assert f"process {os.getpid()}" in answer
        assert river.lag("g")["rows"] == 0, "what the zombie wanted to commit has changed nothing"
        # It joins again, as anybody may, and what it then commits counts.
        while len(consumer.assignment["t"]) == 4:
            consumer.poll(0.05)
        topic.append(rows(100, 200))
        mine = drain(consumer, 0.1)
        consumer.commit()
        theirs = numbers(line(member))
        assert line(member) == "committed"
    assert sorted(mine + theirs) == list(range(100, 200))


@pytest.mark.parametrize("place", ["begin", "written", "done"])
def test_a_member_killed_in_a_commit_has_committed_all_or_nothing(river, topic, program, place):
    topic.append(rows(0, 50))
    member = program("consume.py", river.path, "g", failpoints=f"group.commit.{place}=kill")
    out, err = member.communicate()
    assert member.returncode == -signal.SIGKILL, err
    assert "committed" not in out
    assert river.lag("g")["rows"] == (0 if place == "done" else 50)
    with topic.consumer("g") as consumer:
        assert sorted(drain(consumer)) == ([] if place == "done" else list(range(50)))


def test_members_in_many_processes_share_the_rows(river, topic, program):
    members = [program("consume.py", river.path, "g", 0) for _ in range(3)]
    assert [line(member) for member in members] == ["joined"] * 3
    deadline = time.monotonic() + 20
    while sorted(len(m["partitions"].get("t", [])) for m in river.groups.describe("g")["members"]) != [1, 1, 2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for first in range(0, 200, 20):
        topic.append(rows(first, first + 20))
    while river.lag("g")["rows"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    seen = []
    for member in members:
        member.kill()
        out = member.stdout.read().splitlines()
        assert not [text for text in out if text.startswith("fenced")]
        seen += [numbers(text) for text in out if text[0].isdigit()]
    assert all(seen)
    assert sorted(n for part in seen for n in part) == list(range(200)), "each row once, in a group at rest"


def test_a_member_that_does_not_poll_loses_its_partitions(tmp_path, monkeypatch):
    monkeypatch.setenv("RIVERRUN_MEMBER_LEASE", "600 ms")
    monkeypatch.setenv("RIVERRUN_POLL_LIMIT", "300 ms")
    with River(tmp_path / "river") as river:
        topic = river.topic("t", SCHEMA, key="k")
        topic.append(rows(0, 10))
        with topic.consumer("g") as stuck:
            assert len(drain(stuck)) == 10
            with topic.consumer("g") as other:
                seen, deadline = [], time.monotonic() + 20
                while len(seen) < 10:
                    assert time.monotonic() < deadline
                    seen += drain(other, 0.1)
                assert sorted(seen) == list(range(10))
                other.commit()
                with pytest.raises(Fenced):
                    stuck.commit()
                assert drain(stuck) == []  # and is a member again
                assert len(river.groups.describe("g")["members"]) == 2


def test_members_of_an_earlier_boot_count_as_gone(river, topic):
    with river._coordination.transaction() as db:
        yesterday = "/".join(["beef", *process.identity().split("/")[1:]])
        db.execute("insert into groups values ('g', 7)")
        db.execute("insert into members values ('g', 'ghost', ?, ?, 0, '{\"t\": 4}')", (yesterday, 1 << 62))
        db.executemany("insert into owners values ('g', 't', ?, 'ghost', 'ghost', 7)", [(p,) for p in range(4)])
    topic.append(rows(0, 10))
    assert river.groups.list() == [{"group": "g", "kind": "consumer", "topics": ["t"], "members": 0}]
    with topic.consumer("g") as consumer:
        assert len(drain(consumer)) == 10


def test_a_process_of_the_same_id_that_started_later_is_another_one():
    boot, namespace, pid, started = process.identity().split("/")
    assert not process.is_gone(process.identity())
    assert process.is_gone(f"{boot}/{namespace}/{pid}/{int(started) - 1}")
    assert not process.is_gone(f"{boot}/elsewhere/{pid}/1"), "in another container nobody here can say"
    child = subprocess.Popen([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n"
                              "from riverrun.log import process; print(process.identity())"],
                             stdout=subprocess.PIPE, text=True)  # fmt: skip
    name = child.stdout.read().strip()  # it has ended, and is not reaped yet
    deadline = time.monotonic() + 10
    while not process.is_gone(name):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.communicate()
    assert process.is_gone(name)


def test_rows_are_neither_lost_nor_repeated_while_members_come_and_go(river, topic):
    """Threads join, read, commit and leave while rows arrive. Nobody dies, so every row comes once."""
    seen, lock, done = [], threading.Lock(), threading.Event()

    def member():
        own = River(river.path)
        with own:
            while not done.is_set():
                with own.topic("t").consumer("g") as consumer:
                    for _ in range(6):
                        batch = consumer.poll(0.02)
                        if batch is not None:
                            with lock:
                                seen.extend(batch.column("n").to_pylist())
                            consumer.commit()

    threads = [threading.Thread(target=member) for _ in range(3)]
    for thread in threads:
        thread.start()
    for first in range(0, 600, 10):
        topic.append(rows(first, first + 10))
        time.sleep(0.005)
    deadline = time.monotonic() + 20
    while river.lag("g")["rows"] and time.monotonic() < deadline:
        time.sleep(0.02)
    done.set()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(600))


# Lag.


def test_lag_counts_rows_and_the_age_of_the_oldest(river, topic):
    topic.append(rows(0, 40))
    with topic.consumer("g") as consumer:
        lag = river.lag("g")
        assert (lag["group"], lag["rows"]) == ("g", 40), "without a commit it counts from the earliest"
        assert 0 <= lag["seconds"] < 30
        drain(consumer)
        consumer.commit()
        assert river.lag("g")["rows"] == 0
        assert river.lag("g")["seconds"] == 0
        time.sleep(0.05)
        middle = topic.append({"k": "a", "n": 1})
        time.sleep(0.1)
        topic.append({"k": "a", "n": 2})
    lag = river.lag("g")
    (partition,) = [p for p, found in lag["topics"]["t"]["partitions"].items() if found["rows"]]
    found = lag["topics"]["t"]["partitions"][partition]
    assert found["committed"] == middle["t"][partition] - 1
    assert found["latest"] == topic.ends()[partition]
    assert found["rows"] == lag["rows"] == lag["topics"]["t"]["rows"] == 2
    assert 0.1 <= found["seconds"] == lag["seconds"] < 30


def test_lag_reads_no_rows(river, topic, monkeypatch):
    topic.append(rows(0, 10))
    topic.consumer("g").close()
    monkeypatch.setattr(type(topic), "batches", None)
    assert river.lag("g")["rows"] == 10


def test_lag_of_a_queue_counts_what_is_not_done(river, topic):
    topic.append(rows(0, 10))
    with topic.queue("q") as queue:
        messages = [queue.receive(0) for _ in range(4)]
        messages[1].ack()
        assert river.lag("q")["rows"] == 9
        assert sum(p["unfinished"] for p in river.lag("q")["topics"]["t"]["partitions"].values()) == 3
        assert river.groups.list() == [{"group": "q", "kind": "queue", "topics": ["t"], "members": 1}]


def test_an_unknown_group_is_named(river, topic):
    topic.consumer("billing").close()
    with pytest.raises(NotFound, match="Did you mean 'billing'"):
        river.lag("biling")


def test_lag_of_a_group_whose_topic_was_dropped(river, topic):
    other = river.topic("u", SCHEMA)
    with river.consumer("g", ["t", "u"]) as consumer:
        consumer.commit()
    assert set(river.lag("g")["topics"]) == {"t", "u"}
    other.close()
    river.drop_topic("u")
    assert set(river.lag("g")["topics"]) == {"t"}


def test_describe_names_members_with_their_partitions(river, topic):
    with topic.consumer("g"):
        described = river.groups.describe("g")
    (member,) = described["members"]
    assert member["process"] == os.getpid()
    assert member["partitions"] == {"t": [0, 1, 2, 3]}
    assert described["kind"] == "consumer"
    assert described["rows"] == 0


# Moving a group.


def test_reset_is_refused_while_members_are_alive(river, topic):
    topic.append(rows(0, 10))
    with topic.consumer("g") as consumer:
        drain(consumer)
        consumer.commit()
        with pytest.raises(Busy, match=f"in use by process {os.getpid()}"):
            river.groups.reset("g", "t")
    assert river.groups.reset("g", "t") == topic.begins()
    with topic.consumer("g") as consumer:
        assert len(drain(consumer)) == 10


def test_a_forced_reset_moves_live_members_and_refuses_their_commit(river, topic):
    middle = topic.append(rows(0, 10))
    topic.append(rows(10, 20))
    with topic.consumer("g") as consumer:
        assert len(drain(consumer)) == 20
        river.groups.reset("g", "t", middle, force=True)
        with pytest.raises(Fenced, match="taken from this member and given back"):
            consumer.commit()
        assert sorted(drain(consumer)) == list(range(10, 20))
        consumer.commit()
        river.groups.reset("g", "t", "latest", force=True)
        assert drain(consumer) == []


def test_reset_to_what_is_not_there(river, topic):
    with pytest.raises(OutOfRange):
        river.groups.reset("g", "t", Position({"t": {0: 5}}))
    with pytest.raises(NotFound):
        river.groups.reset("g", "nothing")


def test_reset_of_a_queue_begins_again(river, topic):
    topic.append(rows(0, 10))
    with topic.queue("q") as queue:
        message = queue.receive(0)
        with pytest.raises(Busy):
            river.groups.reset("q", "t")
        river.groups.reset("q", "t", force=True)
        with pytest.raises(Fenced):
            message.ack()
        assert len(list(iter(lambda: queue.receive(0), None))) == 10


def test_behind_retention_is_an_error_until_it_is_reset(tmp_path, monkeypatch):
    monkeypatch.setenv("RIVERRUN_SEGMENT_BYTES", "4096")
    with River(tmp_path / "river") as river:
        topic = river.topic("t", SCHEMA, partitions=1, fsync="os")
        topic.append(rows(0, 1))
        with topic.consumer("g") as consumer:
            drain(consumer)
            consumer.commit()
        for first in range(1, 200, 10):
            topic.append(rows(first, first + 10))
        first = forget_oldest_segment(topic)
        assert first > 1
        with topic.consumer("g") as consumer:
            for _ in range(2):
                with pytest.raises(OutOfRange, match=f"offset 1 is no longer kept.* {first} to {topic.ends()[0]}"):
                    consumer.poll(0)
        lag = river.lag("g")["topics"]["t"]["partitions"][0]
        assert (lag["committed"], lag["lost"], lag["rows"]) == (1, first - 1, topic.ends()[0] - first)
        river.groups.reset("g", "t", "earliest")
        with topic.consumer("g") as consumer:
            assert drain(consumer)[0] == first


def forget_oldest_segment(topic):
    """What retention does in the end; the first offset that is left."""
    entries = topic.backend.journal.segments.entries(topic.backend.journal.ends().segment)
    os.unlink(entries[0].path)
    return topic.begins()[0]


def test_drop_forgets_the_group(river, topic):
    topic.append(rows(0, 10))
    with topic.consumer("g") as consumer:
        drain(consumer)
        consumer.commit()
        with pytest.raises(Busy):
            river.groups.drop("g")
    river.groups.drop("g")
    assert river.groups.list() == []
    with pytest.raises(NotFound):
        river.groups.drop("g")
    with topic.consumer("g") as consumer:
        assert len(drain(consumer)) == 10


def test_a_commit_that_does_not_fit_the_disk_changes_nothing(river, topic):
    topic.append(rows(0, 10))
    with topic.consumer("g") as consumer:
        drain(consumer)
        failpoints.arm("group.commit.written=enospc")
        with pytest.raises(OSError, match="No space"):
            consumer.commit()
        assert river.lag("g")["rows"] == 10
        consumer.commit()
        assert river.lag("g")["rows"] == 0


def test_one_group_may_take_one_topic_as_a_queue_and_another_with_consumers(river, topic):
    other = river.topic("u", SCHEMA)
    with topic.queue("g"), other.consumer("g"):
        assert set(river.lag("g")["topics"]) == {"t", "u"}
        with pytest.raises(Conflict):
            river.consumer("g", "*")
