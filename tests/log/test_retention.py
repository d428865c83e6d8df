"""Retention: whole segments go, oldest first; readers notice; the archive can be read."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from riverrun import failpoints
from riverrun.errors import Busy, Conflict, Corrupt, DiskFull, OutOfRange
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.segment import list_segments
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.settings import Settings

OPEN = Callable[..., Topic]
START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = Settings(segment_bytes=16 << 10)


def fill(topic: Topic, first: int, last: int) -> None:
    for i in range(first, last):
        topic.append([{"k": f"key{j}", "n": i * 20 + j, "at": START} for j in range(20)])


def numbers(topic: Topic) -> list[int]:
    return sorted(topic.read()["n"].to_pylist())


def test_keeps_what_fits_and_removes_the_oldest_segments(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL, partitions=2, retention_bytes=50_000)
    topic.backend.upkeep.stop()
    fill(topic, 0, 100)
    before = topic.describe()
    removed = topic.enforce_retention()
    after = topic.describe()
    assert after["bytes"] <= 50_000 < before["bytes"]
    assert removed["segments"] == before["segments"] - after["segments"] > 0
    assert removed["offsets"] == sum(topic.begins().values()) == 2000 - len(numbers(topic))
    assert numbers(topic) == list(range(removed["offsets"], 2000))
    assert topic.enforce_retention() == {"segments": 0, "bytes": 0, "offsets": 0}
    with pytest.raises(OutOfRange, match=r"offset 0 is no longer kept, only \d+ to 1000"):
        topic.read(start={"t": {0: 0}})


def test_it_happens_by_itself_when_segments_roll(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL, retention_bytes=50_000)
    fill(topic, 0, 100)
    topic.backend.upkeep.wait()
    assert sum(topic.begins().values()) > 0


def test_an_idle_topic_empties(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL, retention="200 ms")
    fill(topic, 0, 30)
    end = topic.latest
    topic.enforce_retention()
    assert len(numbers(topic)) > 0  # the active segment is too young
    time.sleep(0.25)
    topic.enforce_retention()
    assert numbers(topic) == []
    assert topic.earliest == topic.latest == end
    assert len(list_segments(topic.backend.directory)) == 1
    fill(topic, 30, 31)
    assert numbers(topic) == list(range(600, 620))


def test_without_limits_everything_stays(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL, retention=None)
    fill(topic, 0, 50)
    assert topic.enforce_retention()["segments"] == 0
    assert numbers(topic) == list(range(1000))


def test_an_archive_is_read_like_the_topic_itself(open_topic: OPEN, tmp_path: Path) -> None:
    topic = open_topic(settings=SMALL, partitions=2, retention_bytes=20_000, archive=f"{tmp_path}/archive")
    topic.backend.upkeep.stop()
    fill(topic, 0, 100)
    before = topic.read().sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    moment = topic.offsets_at(START)
    removed = topic.enforce_retention()
    assert len(list_segments(topic.backend.directory)) < 4 <= removed["segments"]
    assert list_segments(f"{tmp_path}/archive/t")
    for opened in (topic, open_topic()):
        assert opened.begins() == {0: 0, 1: 0}
        after = opened.read().sort_by([("_partition", "ascending"), ("_offset", "ascending")])
        assert after.equals(before)
        assert opened.offsets_at(START) == moment
    assert topic.read(start={"t": {0: 3, 1: 4}}, end={"t": {0: 5, 1: 5}}).num_rows == 3


def test_an_archive_belongs_to_one_topic(open_topic: OPEN, tmp_path: Path) -> None:
    open_topic(archive=f"{tmp_path}/archive")
    coordination = Coordination(f"{tmp_path}/other.db", create=True)
    other = Catalogue(f"{tmp_path}/other", SMALL, coordination)
    with pytest.raises(Conflict, match=f"archive/t belongs to {tmp_path}/topics/t"):
        other.open(TopicSpec("t", "n bigint", archive=f"{tmp_path}/archive"))
    coordination.close()


def test_a_dropped_topic_takes_its_archive_with_it(tmp_path: Path) -> None:
    with River(tmp_path / "river", settings=SMALL) as river:
        for n in (1, 2):
            topic = river.topic("t", "n bigint", retention_bytes=20_000, archive=f"{tmp_path}/archive", fsync="os")
            topic.append([{"n": n}] * 5000)
            topic.append([{"n": n}] * 5000)
            topic.enforce_retention()
            assert list_segments(f"{tmp_path}/archive/t")
            assert set(topic.read()["n"].to_pylist()) == {n}
            river.drop_topic("t")
            assert not os.path.exists(f"{tmp_path}/archive/t")


def test_a_hole_in_the_archive_is_noticed(open_topic: OPEN, tmp_path: Path) -> None:
    topic = open_topic(settings=SMALL, retention_bytes=20_000, archive=f"{tmp_path}/archive")
    fill(topic, 0, 100)
    topic.enforce_retention()
    *_, last = list_segments(f"{tmp_path}/archive/t")
    os.unlink(f"{tmp_path}/archive/t/{last:020d}.journal")
    with pytest.raises(Corrupt, match="is missing"):
        open_topic().read()


def test_a_running_reader_is_told(open_topic: OPEN) -> None:
    """It has begun in a segment that is gone now: what it has open it may finish, then it is told."""
    topic = open_topic(settings=SMALL, partitions=1, retention_bytes=20_000)
    topic.backend.upkeep.stop()
    fill(topic, 0, 100)
    reading = topic.batches({0: 0}, topic.ends(), ["n"])
    seen = next(reading).column(0).to_pylist()
    open_topic().enforce_retention()
    with pytest.raises(OutOfRange, match="no longer kept"):
        for batch in reading:
            seen += batch.column(0).to_pylist()
    assert seen == list(range(len(seen)))


def test_a_running_reader_goes_on_in_the_archive(open_topic: OPEN, tmp_path: Path) -> None:
    topic = open_topic(settings=SMALL, partitions=1, retention_bytes=20_000, archive=f"{tmp_path}/archive")
    topic.backend.upkeep.stop()
    fill(topic, 0, 100)
    reading = topic.batches({0: 0}, topic.ends(), ["n"])
    seen = next(reading).column(0).to_pylist()
    open_topic().enforce_retention()
    for batch in reading:
        seen += batch.column(0).to_pylist()
    assert seen == list(range(2000))


def test_a_full_archive_loses_nothing(open_topic: OPEN, tmp_path: Path) -> None:
    topic = open_topic(settings=SMALL, retention_bytes=20_000, archive=f"{tmp_path}/archive")
    topic.backend.upkeep.stop()
    fill(topic, 0, 100)
    failpoints.arm("retention.copied:2=enospc")
    with pytest.raises(DiskFull):
        topic.enforce_retention()
    assert numbers(topic) == list(range(2000))
    failpoints.arm("")
    topic.enforce_retention()
    assert numbers(topic) == list(range(2000))


def test_upkeep_by_another_process_is_named(open_topic: OPEN) -> None:
    topic = open_topic(settings=Settings(lock_timeout=50_000))
    with (
        open_topic().backend.upkeep.alone(),
        pytest.raises(Busy, match=f"process {os.getpid()} has been at its upkeep"),
    ):
        topic.enforce_retention()


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize(
    "place", ["retention.rolled", "retention.copied:2", "retention.unlinked", "retention.unlinked:2"]
)
def test_a_kill_at_any_step_leaves_a_contiguous_end(open_topic, program, tmp_path, archive, place) -> None:
    if place == "retention.copied:2" and not archive:
        pytest.skip("nothing is copied")
    options = {"archive": f"{tmp_path}/archive"} if archive else {}
    topic = open_topic(settings=SMALL, partitions=2, retention="1 ms", **options)
    topic.backend.upkeep.stop()
    fill(topic, 0, 60)
    time.sleep(0.01)
    killed = program("upkeep.py", tmp_path, "retain", failpoints=f"{place}=kill")
    assert killed.wait(60) == -9, killed.communicate()

    def check(opened: Topic, complete: bool) -> None:
        first, rows = opened.begins(), opened.read()
        for p, end in opened.ends().items():
            offsets = rows.filter(rows["_partition"].to_numpy() == p)["_offset"].to_pylist()
            assert sorted(offsets) == list(range(first[p], end))
        if complete:
            assert numbers(opened) == list(range(1200))

    check(topic, archive)
    topic.close()
    os.unlink(f"{topic.backend.directory}/state")
    again = open_topic()
    check(again, archive)
    again.enforce_retention()
    check(again, archive)
    assert len(list_segments(again.backend.directory)) == 1
    assert archive or numbers(again) == []


def test_another_process_reads_on_while_segments_are_removed(open_topic: OPEN, program, tmp_path) -> None:
    topic = open_topic(settings=Settings(segment_bytes=8 << 10), partitions=1, retention_bytes=40_000)
    reader = program("follow.py", tmp_path)
    assert reader.stdout.readline() == "ready\n"
    for i in range(1500):
        topic.append({"k": "a", "n": i, "at": START})
        if i % 50 == 0:
            topic.enforce_retention()
    topic.append({"k": "a", "n": -1, "at": START})
    lines = reader.communicate(timeout=60)[0].splitlines()
    assert lines[-1] == "end"
    expected: int | None = 0
    for line in lines[:-1]:
        if line == "reset":
            expected = None
            continue
        _, offset, n = map(int, line.split())
        assert n in (offset, -1)
        assert expected is None or offset == expected  # a jump only after it was told
        expected = offset + 1
    assert expected == 1501


def test_leftovers_of_an_interrupted_archive_are_cleared(open_topic: OPEN, tmp_path: Path) -> None:
    topic = open_topic(settings=SMALL, retention_bytes=20_000, archive=f"{tmp_path}/archive")
    fill(topic, 0, 100)
    topic.enforce_retention()
    first = list_segments(f"{tmp_path}/archive/t")[0]
    for kind in ("journal", "index"):
        shutil.copy(f"{tmp_path}/archive/t/{first:020d}.{kind}", topic.backend.directory)
    assert numbers(open_topic()) == list(range(2000))
    topic.enforce_retention()
    assert first not in list_segments(topic.backend.directory)
    assert numbers(topic) == list(range(2000))
