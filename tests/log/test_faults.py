"""What reliability.md promises of the log, fault by fault (kills are in test_kills.py)."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from riverrun import failpoints
from riverrun.errors import (
    Busy,
    Corrupt,
    DiskFull,
    Fenced,
    Invalid,
    NewerFormat,
    NotFound,
    OlderFormat,
    OutOfRange,
    Transient,
    Unavailable,
)
from riverrun.log import frame as frames
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.settings import Settings

AT = datetime(2026, 1, 1, tzinfo=UTC)


def row(n: int, key: str = "a") -> dict:
    return {"k": key, "n": n, "at": AT}


def numbers(topic) -> list[int]:
    return topic.read()["n"].to_pylist()


def last_frame(topic) -> tuple[str, int, int]:
    """The journal's path, and where its last frame begins and ends."""
    ends = topic.backend.journal.board.written()
    path = f"{topic.backend.directory}/{ends.segment:020d}.journal"
    *_, (begin, header) = frames.scan(memoryview(Path(path).read_bytes()))
    return path, begin, begin + header.frame_bytes


@pytest.fixture
def saved(open_topic, tmp_path):
    """A topic with three appends, closed, and a function that puts a fresh copy of it in place."""
    topic = open_topic(partitions=1)
    for n in range(3):
        topic.append(row(n))
    path, begin, end = last_frame(topic)
    topic.close()
    shutil.copytree(topic.backend.directory, tmp_path / "saved")

    def restore(board: bool) -> None:
        for path in (tmp_path / "saved").iterdir():
            if path.is_file():  # in place: a board in another file is not believed
                Path(topic.backend.directory, path.name).write_bytes(path.read_bytes())
        if not board:
            os.unlink(f"{topic.backend.directory}/state")

    return path, begin, end, restore


@pytest.mark.parametrize("board", [True, False], ids=["with board", "without board"])
def test_tail_cut_at_every_byte_of_the_last_frame(board, saved, open_topic, caplog):
    path, begin, end, restore = saved
    for size in range(begin, end):
        restore(board)
        os.truncate(path, size)
        caplog.clear()
        topic = open_topic()
        assert numbers(topic) == [0, 1], size
        assert len(caplog.records) == (1 if size > begin else 0), size
        topic.append(row(7))
        assert numbers(topic) == [0, 1, 7], size
        topic.close()


@pytest.mark.parametrize("board", [True, False], ids=["with board", "without board"])
def test_tail_garbled_at_every_byte_of_the_last_frame(board, saved, open_topic, caplog):
    path, begin, end, restore = saved
    for at in range(begin, end):
        restore(board)
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x55]))
        caplog.clear()
        topic = open_topic()
        assert numbers(topic) == [0, 1], at
        assert [record.levelno for record in caplog.records] == [logging.WARNING], at
        topic.append(row(7))
        assert numbers(topic) == [0, 1, 7], at
        topic.close()


def test_damage_in_the_middle_is_named_and_never_skipped(saved, open_topic):
    path, begin, _, restore = saved
    for board in (True, False):
        restore(board)
        with open(path, "r+b") as file:
            file.seek(begin - 20)  # in the body of the second row's frame
            file.write(b"\xff" * 4)
        with pytest.raises(Corrupt, match=rf"{path} is damaged at byte \d+"):
            topic = open_topic()
            topic.read()


def test_missing_derived_files_are_made_again(saved, open_topic):
    _, _, _, restore = saved
    restore(board=True)
    topic = open_topic()
    directory = topic.backend.directory
    topic.close()
    for name in ("state", "wake", "lock", "sync"):
        os.unlink(f"{directory}/{name}")
    again = open_topic()
    again.append(row(3))
    assert numbers(again) == [0, 1, 2, 3]


def test_missing_journal_is_refused_and_no_empty_log_takes_its_place(saved, open_topic):
    path, _, _, restore = saved
    for board in (True, False):
        restore(board)
        os.unlink(path)
        with pytest.raises(Corrupt, match=r"is missing|has no journal"):
            open_topic()


def test_disk_full_is_transient_and_reads_go_on(open_topic):
    topic = open_topic()
    topic.append(row(0))
    failpoints.arm("append.begin=enospc")
    with pytest.raises(DiskFull, match="no room") as caught:
        topic.append(row(1))
    assert isinstance(caught.value, Transient)
    assert numbers(topic) == [0]
    topic.append(row(2))
    assert numbers(topic) == [0, 2]


def test_really_full_disk(tmp_path):
    """A small file system of its own, filled until an append fails half-way."""
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(mount)], capture_output=True).returncode:
        pytest.skip("mounting is not possible here")
    try:
        with River(mount / "river", settings=Settings(segment_bytes=64 << 10)) as river:
            topic = river.topic("t", "k string, n bigint", key="k", fsync="os")
            topic.backend.upkeep.stop()  # merging small frames would make room
            acknowledged = []
            with pytest.raises(DiskFull):
                for n in range(100_000):
                    topic.append([{"k": f"key{i}", "n": n} for i in range(50)])
                    acknowledged.append(n)
            assert sorted(set(numbers(topic))) == acknowledged
            with pytest.raises(DiskFull):
                topic.append([{"k": "x" * 1000, "n": -1}] * 50)
            river.drop_topic("t")
            again = river.topic("t", "k string, n bigint", key="k", fsync="os")
            again.append({"k": "a", "n": 1})
            assert numbers(again) == [1]
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_failed_fsync_stops_the_topic_until_it_is_repaired(open_topic):
    topic = open_topic(fsync="batch")
    topic.append(row(0))
    failpoints.arm("sync.begin=eio")
    with pytest.raises(Unavailable, match="disk refused"):
        topic.append(row(1))
    with pytest.raises(Unavailable, match="riverrun topic repair t"):
        topic.append(row(2))
    assert numbers(topic) == [0]
    other = open_topic(fsync="batch")
    with pytest.raises(Unavailable, match="accepts no writes"):
        other.append(row(3))
    topic.backend.journal.repair()
    other.append(row(4))
    assert 0 in numbers(topic)
    assert numbers(topic)[-1] == 4


def stopped(process: subprocess.Popen[str]) -> bool:
    with open(f"/proc/{process.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def wait_until(condition, timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_holder_stopped_inside_the_lock_is_named(program, open_topic, tmp_path):
    topic = open_topic(settings=Settings(lock_timeout=200_000))
    holder = program("append.py", tmp_path, 0, 2, "os", 65536, failpoints="append.written:1=stop")
    wait_until(lambda: stopped(holder))
    with pytest.raises(Busy, match=rf"process {holder.pid} .*kill -CONT {holder.pid}"):
        topic.append(row(0))
    assert numbers(topic) == []  # readers take no lock
    holder.send_signal(signal.SIGCONT)
    _, err = holder.communicate()
    assert holder.returncode == 0, err
    topic.append(row(9))
    assert sorted(set(numbers(topic))) == [0, 1, 9]


def test_zombie_with_an_older_fence_can_write_nothing(program, open_topic, tmp_path):
    zombie = program("append.py", tmp_path, 0, 50, "batch", 65536, 1, failpoints="sync.done:3=stop")
    wait_until(lambda: stopped(zombie))
    topic = open_topic(fsync="batch", settings=Settings(lock_timeout=200_000))
    topic.raise_fence("writer", 2)
    zombie.send_signal(signal.SIGCONT)
    _, err = zombie.communicate()
    assert zombie.returncode != 0
    assert "superseded by fence 2" in err
    with pytest.raises(Fenced):
        topic.append(row(100), producer="writer", sequence=100, fence=1)
    topic.append(row(100), producer="writer", sequence=100, fence=2)
    assert sorted(set(numbers(topic))) == [0, 1, 2, 100]


def test_read_only_directory_is_refused(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint").append({"n": 1})
    mounted = ["mount", "--bind", "-o", "ro", str(tmp_path / "river"), str(tmp_path / "river")]
    if subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("mounting is not possible here")
    try:
        with pytest.raises(Unavailable):
            with River(tmp_path / "river") as river:
                river.topic("t")
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "river")], check=True)


def test_topic_whose_files_are_missing_is_refused(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint").append({"n": 1})
    shutil.rmtree(tmp_path / "river/topics/t")
    with River(tmp_path / "river") as river:
        with pytest.raises(Corrupt, match="files are missing"):
            river.topic("t", "n bigint")
        river.drop_topic("t")
        assert numbers(river.topic("t", "n bigint")) == []


def test_newer_formats_are_refused(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint")
    for path in (tmp_path / "river/topics/t/topic.json", tmp_path / "river/river.json"):
        saved = path.read_text()
        path.write_text(json.dumps({**json.loads(saved), "format": 99}))
        with pytest.raises(NewerFormat, match="newer Riverrun"):
            with River(tmp_path / "river") as river:
                river.topic("t")
        path.write_text(saved)


def test_a_topic_of_an_older_riverrun_is_read_and_named_where_it_does_not_fit(tmp_path):
    """Options that came later are missing in it, so a flow wants something else than what is there."""
    with River(tmp_path / "river") as river:
        river.topic("t", "k string", key="k").append({"k": "a"})
    path = tmp_path / "river/topics/t/topic.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 1}))
    with River(tmp_path / "river") as river:
        wanted = TopicSpec("t", "k string", key="k", null_keys=True)
        with pytest.raises(OlderFormat, match="null_keys=False, not True; it was made by an older Riverrun. If a flow"):
            river.topic(wanted)
        assert river.topic("t", "k string", key="k").read().num_rows == 1


def test_a_directory_with_other_things_is_no_river(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(NotFound, match="is not a river"):
        River(tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_lost_coordination_database_is_refused(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint")
    os.unlink(tmp_path / "river/coordination.db")
    with pytest.raises(Corrupt, match="coordination.db is missing"):
        River(tmp_path / "river")


def test_an_emptied_coordination_database_is_refused(tmp_path):
    """It was taken for a new one, and groups began from the beginning without a word."""
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint")
    os.truncate(tmp_path / "river/coordination.db", 0)
    with pytest.raises(Corrupt, match="coordination.db is empty"):
        River(tmp_path / "river")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\0b", "x" * 201, "naïve", "a b", "a\n", "-\u202e", "C:\\x"]
)
def test_hostile_topic_names(name, tmp_path):
    with River(tmp_path / "river") as river:
        with pytest.raises(Invalid, match="cannot be the name of a topic"):
            river.topic(name, "n bigint")
        with pytest.raises(Invalid, match="cannot be the name of a topic"):
            river.drop_topic(name)
    assert not (tmp_path / "x").exists()


def test_a_link_out_of_the_river_is_refused(tmp_path):
    with River(tmp_path / "one") as one, River(tmp_path / "two") as two:
        one.topic("t", "n bigint")
        os.makedirs(tmp_path / "two/topics", exist_ok=True)
        os.symlink(tmp_path / "one/topics/t", tmp_path / "two/topics/t")
        with pytest.raises(Unavailable, match="leads out"):
            two.topic("t", "n bigint")


def test_positions_beyond_the_end_are_an_error(open_topic):
    topic = open_topic(partitions=1)
    topic.append(row(0))
    with pytest.raises(OutOfRange, match="offset 5 is beyond the end, which is 1"):
        topic.read(start={"t": {0: 5}})


def test_clock_going_back_changes_no_order(open_topic, monkeypatch):
    topic = open_topic(partitions=1)
    now = time.time_ns()
    for n, moment in enumerate([now, now - 10**15, now + 10**9, now - 10**12]):
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        topic.append(row(n))
    assert numbers(topic) == [0, 1, 2, 3]
    received = topic.read()["_received"].to_pylist()
    assert received == sorted(received)


def test_receive_times_ahead_of_the_clock_are_told_once(open_topic, monkeypatch, caplog):
    """One append while the clock is wrong is felt for as long as it was ahead."""
    topic = open_topic(partitions=1)
    now = time.time_ns()
    for days in (10, 0, 0):
        monkeypatch.setattr(time, "time_ns", lambda ahead=days: now + ahead * 86_400 * 10**9)
        topic.append(row(days))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert told[0].startswith("topic t: its newest row was received at 20")
    assert "10 d ahead of the clock" in told[0]
    assert len(set(topic.read()["_received"].to_pylist())) == 1


def test_forked_child_appends_beside_its_parent(open_topic):
    topic = open_topic()
    topic.append(row(0))
    child = os.fork()
    if child == 0:
        try:
            for n in range(1, 50):
                topic.append(row(n))
            os._exit(0)
        except BaseException:
            os._exit(1)
    for n in range(100, 150):
        topic.append(row(n))
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(numbers(topic)) == [0, *range(1, 50), *range(100, 150)]


FORKING = """
import os, sys, threading
from riverrun.river import River

with River(sys.argv[1]) as river:
    topic = river.topic("t", "k string", fsync="os")
    first = threading.Thread(target=topic.append, args=({"k": "a"},))
    first.start()
    while not os.path.exists(sys.argv[2]):
        pass
    child = os.fork()
    if child == 0:
        topic.append({"k": "b"})
        os._exit(0)
    first.join()
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(topic.read()["k"].to_pylist()) == ["a", "b"]
"""
SLOW_PANDAS = """
import time
open({mark!r}, "w").close()
time.sleep(1)
raise ImportError("there is none")
"""


def test_a_child_that_is_forked_while_another_thread_imports_pandas(tmp_path):
    """pyarrow does, with the first rows: the child waited for ever for the lock of that import."""
    (tmp_path / "pandas").mkdir()
    mark = tmp_path / "is being imported"
    (tmp_path / "pandas/__init__.py").write_text(SLOW_PANDAS.format(mark=str(mark)))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "river"), str(mark)]
    subprocess.run(command, check=True, timeout=60, env={**os.environ, "PYTHONPATH": path})


FORKING_AT_ONCE = """
import os, sys, threading
from riverrun.river import River

with River(sys.argv[1]) as river:
    topic = river.topic("t", "k string", fsync="os")
    first = threading.Thread(target=topic.append, args=({"k": "a"},))
    first.start()
    while "pandas" not in sys.modules:
        pass
    child = os.fork()
    if child == 0:
        topic.append({"k": "b"})
        os._exit(0)
    first.join()
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(topic.read()["k"].to_pylist()) == ["a", "b"]
"""


def test_a_child_that_is_forked_during_the_first_append_of_another_thread(tmp_path):
    """With the real pandas: after its import, pyarrow goes on looking things up in it."""
    command = [sys.executable, "-W", "error", "-c", FORKING_AT_ONCE, str(tmp_path / "river")]
    ran = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert ran.stderr == ""


@pytest.mark.parametrize("put_back", [True, False])
def test_a_river_that_is_replaced_under_a_process_takes_no_more_of_its_rows(tmp_path, put_back):
    """They were acknowledged, and went into files that nobody can reach."""
    path = tmp_path / "river"
    with River(path) as river:
        topic = river.topic("t", "n bigint")
        topic.append({"n": 1})
        shutil.copytree(path, tmp_path / "copy")
        os.rename(path, tmp_path / "broken")
        if put_back:
            os.rename(tmp_path / "copy", path)
        with pytest.raises(Unavailable, match="moved, removed or replaced"):
            topic.append({"n": 2})
        if put_back:
            os.rename(path, tmp_path / "copy")
        os.rename(tmp_path / "broken", path)
        topic.append({"n": 3})
        assert numbers(topic) == [1, 3]


def test_recoveries_count_what_went_wrong_and_not_the_first_opening(open_topic, tmp_path, program):
    topic = open_topic()
    assert topic.describe()["recoveries"] == 0
    program("append.py", tmp_path, 0, 2, "os", 65536, failpoints="append.written:1=kill").wait()
    topic.append(row(1))
    assert topic.describe()["recoveries"] == 1


def test_a_topic_whose_description_is_damaged_can_be_dropped(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint").append({"n": 1})
    (tmp_path / "river/topics/t/topic.json").write_text("{")
    with River(tmp_path / "river") as river:
        with pytest.raises(Corrupt, match="cannot be read"):
            river.topic("t")
        river.drop_topic("t")
        assert numbers(river.topic("t", "n bigint")) == []


def test_two_may_finish_the_same_drop(tmp_path, monkeypatch):
    """Somebody opens a topic while it is being dropped, and is faster; the name is used again before the other goes on."""
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint", fsync="os").append({"n": 1})
        other = River(tmp_path / "river")
        unlink = os.unlink

        def slow(entry, **more):
            monkeypatch.undo()
            other.topic("t", "n bigint", fsync="os").append({"n": 2})
            unlink(entry, **more)

        monkeypatch.setattr("riverrun.log.catalogue.os.unlink", slow)
        river.drop_topic("t")
        assert other.topics() == ["t"]
        assert river.topic("t").read().column("n").to_pylist() == [2]
        other.close()


def test_a_topic_without_its_schema_is_damaged(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint", fsync="os")
    (tmp_path / "river/topics/t/schema/1").unlink()
    with River(tmp_path / "river") as river, pytest.raises(Corrupt, match=r"topic\.json cannot be read"):
        river.topic("t")
