"""Sealing: small frames become few, and nothing that a reader can see changes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from riverrun import failpoints
from riverrun.errors import Corrupt, DiskFull
from riverrun.log.sealing import seal
from riverrun.log.segment import Segment, list_segments
from riverrun.log.topic import Topic
from riverrun.settings import Settings

OPEN = Callable[..., Topic]
START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = Settings(segment_bytes=32 << 10, tombstone_grace=0)


def moment(i: int) -> datetime:
    return START + timedelta(seconds=i)


def fill(topic: Topic, first: int, last: int) -> None:
    for i in range(first, last):
        topic.append({"k": f"key{i % 37}", "n": i, "at": moment(i * 7 % 100)})
        if i % 10 == 9:
            topic.delete(f"key{i % 37}")


def ordered(table: pa.Table) -> pa.Table:
    """Frames of different partitions change places when they are merged; within a partition nothing may move."""
    offsets = {}
    for partition, offset in zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True):
        assert offset > offsets.get(partition, -1)
        offsets[partition] = offset
    return table.sort_by([("_partition", "ascending"), ("_offset", "ascending")]).combine_chunks()


def sealed_now(topic: Topic) -> int:
    topic.backend.upkeep.wait()
    topic.backend.journal.roll()
    with topic.backend.upkeep.alone():
        return seal(topic.backend)


def frames_of(topic: Topic) -> int:
    segments = [Segment(topic.backend.directory, first) for first in list_segments(topic.backend.directory)]
    return sum(len(segment.index(segment.size)) for segment in segments)


def crash(topic: Topic) -> None:
    """As after a power cut: the board is of no use."""
    topic.close()
    os.unlink(f"{topic.backend.directory}/state")


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_rows_are_the_same_before_and_after(open_topic: OPEN, compression: str | None) -> None:
    topic = open_topic(compression=compression)
    fill(topic, 0, 700)
    before, frames = ordered(topic.read()), frames_of(topic)
    assert sealed_now(topic) == 1
    assert frames_of(topic) < frames / 50
    assert ordered(topic.read()).equals(before)
    again = open_topic()
    assert ordered(again.read()).equals(before)
    crash(again)
    assert ordered(open_topic().read()).equals(before)


def test_a_position_inside_a_merged_frame_keeps_its_meaning(open_topic: OPEN) -> None:
    topic = open_topic(partitions=1)
    fill(topic, 0, 300)
    sealed_now(topic)
    found = topic.read(start={"t": {0: 123}}, end={"t": {0: 130}})
    assert found["_offset"].to_pylist() == list(range(123, 130))


def test_explicit_times_and_receive_times_stay(open_topic: OPEN) -> None:
    topic = open_topic(schema="k string, n bigint", key="k", fsync="os")
    for i in range(200):
        topic.append({"k": f"k{i}", "n": i, **({"_time": moment(i)} if i % 3 == 0 else {})})
    before = ordered(topic.read())
    moments = [topic.offsets_at(moment(i)) for i in (0, 50, 199)]
    sealed_now(topic)
    assert ordered(topic.read()).equals(before)
    assert [topic.offsets_at(moment(i)) for i in (0, 50, 199)] == moments


def test_rows_of_an_older_schema_are_merged_with_newer_ones(open_topic: OPEN) -> None:
    old = open_topic(schema="k string, n bigint", key="k", fsync="os", partitions=2)
    new = open_topic(schema="k string, n bigint, note string")
    for i in range(150):
        old.append({"k": f"k{i}", "n": i})
        new.append({"k": f"k{i}", "n": i, "note": f"note {i}"})
    before, as_before = ordered(new.read()), ordered(old.read())
    sealed_now(old)
    assert frames_of(old) == 3
    assert ordered(new.read()).equals(before)
    assert ordered(old.read()).equals(as_before)


@pytest.mark.parametrize("time", ["at", None])
def test_promises_and_maxima_of_producers_stay(open_topic: OPEN, time: str | None) -> None:
    topic = open_topic(
        schema="k string, n bigint, at timestamp, device int", key="k", time=time, producers="device", fsync="os"
    )

    def largest() -> dict[tuple[int, str], int]:
        found: dict[tuple[int, str], int] = {}
        for summary in topic.summaries(topic.begins(), topic.ends()):
            for producer, reached in summary.maxima.items():
                reached = max(reached, summary.received) if reached < 0 else reached
                key = (summary.partition, producer)
                found[key] = max(found.get(key, reached), reached)
        return found

    def promises() -> list[tuple[int, int, dict[str, int]]]:
        summaries = topic.summaries(topic.begins(), topic.ends())
        return [(s.partition, s.offset, dict(s.maxima)) for s in summaries if not s.rows]

    for i in range(300):
        topic.append({"k": f"k{i}", "n": i, "at": moment(i * 31 % 200), "device": i % 5})
        if i % 20 == 0:
            topic.advance(str(i % 5), moment(1000 + i))
    before, said = largest(), promises()
    rows = ordered(topic.read())
    sealed_now(topic)
    assert frames_of(topic) < 50
    assert largest() == before
    assert promises() == said
    assert ordered(topic.read()).equals(rows)


def test_sequences_and_fences_survive_although_merged_frames_have_none(open_topic: OPEN) -> None:
    topic = open_topic()
    positions = [topic.append({"k": "a", "n": i, "at": START}, producer="p", sequence=i, fence=3) for i in range(100)]
    sealed_now(topic)
    for opened in (topic, open_topic()):
        assert opened.append({"k": "a", "n": 99, "at": START}, producer="p", sequence=99, fence=3) == positions[99]
    crash(topic)
    again = open_topic()
    assert again.append({"k": "a", "n": 99, "at": START}, producer="p", sequence=99, fence=3) == positions[99]
    assert again.read().num_rows == 100


def test_a_reader_that_looked_at_the_board_before_a_merge(open_topic: OPEN, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that the board names mean the file as it was appended, not the merged one."""
    topic = open_topic()
    fill(topic, 0, 300)
    looked = topic.backend.journal.ends()
    before = ordered(topic.read())
    fill(topic, 300, 310)
    sealed_now(topic)
    for opened in (topic, open_topic()):
        monkeypatch.setattr(opened.backend.journal, "ends", lambda: looked)
        assert ordered(opened.read()).equals(before)


def test_a_replaced_segment_is_not_taken_for_the_one_that_was_listed(open_topic: OPEN) -> None:
    """It may hold more than the other, if segments were joined: a reader must list again."""
    topic, reader = open_topic(), open_topic()
    fill(topic, 0, 100)
    (listed,) = reader.backend.journal.extent()[1]
    sealed_now(topic)
    with pytest.raises(FileNotFoundError):
        reader.backend.journal.segments.open(listed)


def test_what_follows_is_durable_before_a_segment_is_replaced(open_topic: OPEN) -> None:
    """Otherwise a power cut could take the only place where the sequences are."""
    topic = open_topic(fsync="os")
    fill(topic, 0, 100)
    assert topic.backend.journal.board.durable().segment == 1
    topic.backend.journal.roll()
    failpoints.arm("seal.written=enospc")
    with pytest.raises(DiskFull), topic.backend.upkeep.alone():
        seal(topic.backend)
    assert topic.backend.journal.board.durable().segment > 1


def test_a_roll_starts_it_in_the_background(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL)
    fill(topic, 0, 400)
    topic.backend.upkeep.wait()
    *older, _ = list_segments(topic.backend.directory)
    assert older
    assert all(os.path.exists(f"{topic.backend.directory}/{first:020d}.index") for first in older)
    assert not any(thread.name == "riverrun-upkeep" for thread in threading.enumerate())


def test_an_opener_goes_on_where_another_process_ended(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL)
    topic.backend.upkeep.stop()
    fill(topic, 0, 400)
    before = ordered(topic.read())
    again = open_topic()
    again.backend.upkeep.wait()
    *older, _ = list_segments(topic.backend.directory)
    assert all(os.path.exists(f"{topic.backend.directory}/{first:020d}.index") for first in older)
    assert ordered(again.read()).equals(before)


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_index_is_made_again(open_topic: OPEN, damage: bytes | None) -> None:
    topic = open_topic()
    fill(topic, 0, 200)
    sealed_now(topic)
    before = ordered(topic.read())
    index = Path(f"{topic.backend.directory}/{1:020d}.index")
    good = index.read_bytes()
    index.write_bytes(good[:-9] + b"x" * 9 if damage is None else damage)
    crash(topic)
    again = open_topic()
    assert ordered(again.read()).equals(before)
    with again.backend.upkeep.alone():
        seal(again.backend)
    assert index.read_bytes() == good


def test_a_damaged_segment_is_not_merged(open_topic: OPEN) -> None:
    """A new checksum over damaged bytes would hide the damage."""
    topic = open_topic()
    topic.backend.upkeep.stop()
    fill(topic, 0, 200)
    topic.backend.journal.roll()
    path = Path(f"{topic.backend.directory}/{1:020d}.journal")
    data = bytearray(path.read_bytes())
    frame = Segment(topic.backend.directory, 1).index(len(data))[100]
    data[int(frame["at"]) + int(frame["header_bytes"]) + int(frame["body_bytes"]) - 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"00001\.journal is damaged at byte"), topic.backend.upkeep.alone():
        seal(topic.backend)
    assert path.read_bytes() == bytes(data)


def test_a_missing_segment_in_the_middle_is_noticed(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL)
    fill(topic, 0, 400)
    topic.backend.upkeep.wait()
    middle = list_segments(topic.backend.directory)[1]
    os.unlink(f"{topic.backend.directory}/{middle:020d}.journal")
    with pytest.raises(Corrupt, match=f"{middle:020d}.journal is missing"):
        open_topic().read()


@pytest.mark.parametrize("place", ["seal.begin", "seal.written"])
def test_a_full_disk_leaves_everything_as_it_was(open_topic: OPEN, place: str) -> None:
    topic = open_topic()
    fill(topic, 0, 200)
    topic.backend.journal.roll()
    before = ordered(topic.read())
    failpoints.arm(f"{place}=enospc")
    with pytest.raises(DiskFull, match="no upkeep.*no room"), topic.backend.upkeep.alone():
        seal(topic.backend)
    assert not [name for name in os.listdir(topic.backend.directory) if name.endswith(".tmp")]
    assert ordered(topic.read()).equals(before)
    fill(topic, 200, 210)
    assert ordered(topic.read()).num_rows == before.num_rows + 11
    topic.backend.upkeep.wait()
    assert os.path.exists(f"{topic.backend.directory}/{1:020d}.index")  # carries on by itself when there is room


@pytest.fixture(scope="module")
def unsealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A river whose topic has several unsealed segments; copied by every test that kills something."""
    from riverrun.log.catalogue import Catalogue
    from riverrun.log.coordination import Coordination
    from riverrun.log.spec import TopicSpec

    path = tmp_path_factory.mktemp("unsealed")
    coordination = Coordination(f"{path}/coordination.db", create=True)
    spec = TopicSpec("t", "k string, n bigint, at timestamp", key="k", time="at", fsync="os", partitions=2)
    topic = Catalogue(f"{path}/topics", SMALL, coordination).open(spec)
    topic.backend.upkeep.stop()
    fill(topic, 0, 300)
    topic.close()
    coordination.close()
    return path


@pytest.mark.parametrize("place", ["seal.begin", "seal.written", "seal.renamed", "seal.indexed", "seal.renamed:2"])
def test_a_kill_at_any_step_changes_nothing(unsealed, tmp_path, open_topic, program, place) -> None:
    shutil.rmtree(tmp_path / "topics", ignore_errors=True)
    shutil.copytree(unsealed / "topics", tmp_path / "topics")
    topic = open_topic(partitions=2)
    topic.backend.upkeep.stop()
    before = ordered(topic.read())
    killed = program("upkeep.py", tmp_path, "seal", failpoints=f"{place}=kill")
    assert killed.wait(60) == -9, killed.communicate()
    assert ordered(topic.read()).equals(before)
    crash(topic)
    again = open_topic()
    again.backend.upkeep.wait()
    assert ordered(again.read()).equals(before)
    assert not [name for name in os.listdir(again.backend.directory) if name.endswith(".tmp")]
    *older, _ = list_segments(again.backend.directory)
    assert all(os.path.exists(f"{again.backend.directory}/{first:020d}.index") for first in older)


@pytest.mark.parametrize("place", ["seal.synced", "seal.indexed"])
def test_a_kill_while_a_segment_of_large_frames_gets_its_index(tmp_path, open_topic: OPEN, program, place: str) -> None:
    topic = open_topic(settings=SMALL, partitions=1)
    topic.backend.upkeep.stop()
    for first in range(0, 6000, 1000):
        topic.append([{"k": "a", "n": n, "at": moment(n)} for n in range(first, first + 1000)])
    before = topic.read()
    killed = program("upkeep.py", tmp_path, "seal", failpoints=f"{place}=kill")
    assert killed.wait(60) == -9, killed.communicate()
    assert topic.read().equals(before)
    crash(topic)
    again = open_topic(settings=SMALL)
    again.backend.upkeep.wait()
    assert again.read().equals(before)
    *older, _ = list_segments(again.backend.directory)
    assert all(os.path.exists(f"{again.backend.directory}/{first:020d}.index") for first in older)


def test_another_process_reads_on_while_segments_are_merged(open_topic: OPEN, program, tmp_path) -> None:
    """Small batches, small segments: about every tenth append rolls, and every roll merges."""
    topic = open_topic(settings=Settings(segment_bytes=24 << 10), partitions=2)
    reader = program("follow.py", tmp_path)
    assert reader.stdout.readline() == "ready\n"
    for i in range(3000):
        topic.append({"k": f"key{i % 7}", "n": i, "at": START})
    topic.append({"k": "key0", "n": -1, "at": START})
    topic.backend.upkeep.wait()
    lines = reader.communicate(timeout=60)[0].splitlines()
    assert lines[-1] == "end"
    seen: dict[int, list[int]] = {0: [], 1: []}
    for line in lines[:-1]:
        partition, offset, _ = map(int, line.split())
        seen[partition].append(offset)
    assert {p: list(range(end)) for p, end in topic.ends().items()} == seen
    assert topic.describe()["segments"] > 10


def test_rows_among_promises_are_found_from_any_offset_after_a_merge(open_topic: OPEN) -> None:
    """Promises keep their offsets and are not merged: hundreds of them may lie behind the frame that spans them."""
    topic = open_topic(partitions=1)
    for i in range(300):
        topic.append({"k": "a", "n": i, "at": moment(i)})
        topic.advance(0, moment(i))
    assert sealed_now(topic)
    for low in (0, 1, 250, 350, 500, 599):
        found = [n for batch in topic.batches({0: low}, {0: 600}, ["n"]) for n in batch.column(0).to_pylist()]
        assert found == [i for i in range(300) if 2 * i >= low]
