"""Compaction: of every key the newest row stays, at its offset."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun import failpoints
from riverrun.errors import DiskFull, Invalid
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.segment import list_segments
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings

OPEN = Callable[..., Topic]
START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = Settings(segment_bytes=16 << 10)
NO_GRACE = Settings(segment_bytes=16 << 10, tombstone_grace=0)


def row(key: str, n: int) -> dict[str, Any]:
    return {"k": key, "n": n, "at": START + timedelta(seconds=n)}


def fill(topic: Topic, first: int, last: int) -> None:
    for i in range(first, last):
        topic.append([row(f"key{(i + j) % 50}", i) for j in range(7)])
        if i % 10 == 9:
            topic.delete(f"key{i % 50}")


def history(topic: Topic) -> list[dict[str, Any]]:
    """All rows, by partition and offset; within a partition they must come in order."""
    rows = topic.read().to_pylist()
    ordered = sorted(rows, key=lambda row: row["_partition"])
    places = [(row["_partition"], row["_offset"]) for row in ordered]
    assert places == sorted(set(places))
    return ordered


def newest(rows: list[dict[str, Any]], tombstones: bool = True) -> list[dict[str, Any]]:
    """The naive answer: rows in order, the last one of a key wins."""
    last = {(row["_partition"], row["_key"]): row["_offset"] for row in rows}
    kept = [row for row in rows if last[row["_partition"], row["_key"]] == row["_offset"]]
    return kept if tombstones else [row for row in kept if not row["_deleted"]]


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_the_newest_row_of_every_key_stays_at_its_offset(open_topic: OPEN, compression: str | None) -> None:
    topic = open_topic(settings=SMALL, compression=compression)
    fill(topic, 0, 200)
    before, first, last = history(topic), topic.earliest, topic.latest
    result = topic.compact()
    assert history(topic) == newest(before)
    assert (topic.earliest, topic.latest) == (first, last)
    kept = newest(before)
    assert result["kept"] == len(kept)
    assert result["removed"] == len(before) - len(kept)
    assert result["tombstones"] == sum(row["_deleted"] for row in kept) > 0
    assert topic.compact() == {**result, "removed": 0, "bytes": 0}
    assert history(open_topic()) == newest(before)


def test_tombstones_go_after_their_grace_with_all_older_rows(open_topic: OPEN) -> None:
    topic = open_topic(settings=NO_GRACE)
    fill(topic, 0, 100)
    before = history(topic)
    assert topic.compact()["tombstones"] == 0
    assert history(topic) == newest(before, tombstones=False)


def test_old_tombstones_go_even_when_nothing_new_came(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL)
    fill(topic, 0, 100)
    before = history(topic)
    topic.compact()
    later = open_topic(settings=NO_GRACE)
    later.compact()
    assert history(topic) == newest(before, tombstones=False)


def test_one_row_updated_very_often_ends_as_one_row_in_few_files(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL)
    for i in range(300):
        topic.append([row("a", i * 100 + j) for j in range(100)])
    topic.backend.upkeep.wait()
    assert len(list_segments(topic.backend.directory)) > 20
    topic.compact()
    assert topic.read()["n"].to_pylist() == [29_999]
    assert len(list_segments(topic.backend.directory)) == 2
    assert topic.describe()["bytes"] < 2000


def test_a_key_of_several_columns(open_topic: OPEN) -> None:
    topic = open_topic(schema="a string, b int, n bigint", key=["a", "b"], fsync="os", settings=SMALL)
    for i in range(60):
        topic.append([{"a": f'x"{i % 3}', "b": i % 5, "n": i}, {"a": f"{i % 3}", "b": i % 5, "n": i}])
    before = history(topic)
    topic.compact()
    assert history(topic) == newest(before)
    assert len(history(topic)) == 30


@pytest.mark.parametrize("kind", ["bigint", "date", "timestamp", "boolean", "decimal(9,2)"])
def test_keys_of_every_kind(open_topic: OPEN, kind: str) -> None:
    values: dict[str, Any] = {
        "bigint": [1, 2, -3],
        "date": [START.date(), (START + timedelta(days=1)).date()],
        "timestamp": [START, START + timedelta(microseconds=1)],
        "boolean": [True, False],
        "decimal(9,2)": ["1.50", "2.25"],
    }
    topic = open_topic(schema=f"k {kind}, n bigint", key="k", fsync="os", settings=SMALL)
    for i in range(20):
        topic.append([{"k": key, "n": i} for key in values[kind]])
    topic.delete(values[kind][0])
    before = history(topic)
    topic.compact()
    assert history(topic) == newest(before)
    assert len(history(topic)) == len(values[kind])


def test_a_topic_without_a_key_is_refused(open_topic: OPEN) -> None:
    with pytest.raises(Invalid, match="has no key"):
        open_topic(schema="n bigint", fsync="os").compact()


def test_rows_of_an_older_schema_and_of_a_newer_one(open_topic: OPEN) -> None:
    old = open_topic(schema="k string, n bigint", key="k", fsync="os", settings=SMALL)
    old.append([{"k": f"k{i}", "n": i} for i in range(10)])
    new = open_topic(schema="k string, n bigint, note string", settings=SMALL)
    new.append([{"k": f"k{i}", "n": i, "note": "new"} for i in range(0, 10, 2)])
    before = history(new)
    old.compact()
    assert history(new) == newest(before)


def test_a_promise_stays_until_a_later_one_says_as_much(open_topic: OPEN) -> None:
    topic = open_topic(
        schema="k string, n bigint, device string",
        key="k",
        producers="device",
        fsync="os",
        settings=SMALL,
        partitions=1,
    )
    for i in range(5):
        topic.append({"k": "a", "n": i, "device": "d"})
        topic.advance("d", START + timedelta(seconds=i))
        topic.advance("e", START - timedelta(seconds=i))
    topic.compact()
    said = [dict(s.maxima) for s in topic.summaries(topic.begins(), topic.ends()) if not s.rows]
    micros = int(START.timestamp()) * 1_000_000
    expected = [{"e": micros - i * 1_000_000} for i in range(5)]
    assert [s for s in said if "d" in s] == [{"d": micros + 4_000_000}]
    assert [s for s in said if "e" in s] == expected


def test_maxima_are_those_of_the_rows_that_are_left(open_topic: OPEN) -> None:
    topic = open_topic(
        schema="k string, at timestamp, device string", key="k", time="at", producers="device", fsync="os", partitions=1
    )
    topic.append([{"k": "a", "at": START + timedelta(seconds=9), "device": "d"}])
    topic.append([{"k": "a", "at": START, "device": "d"}, {"k": "b", "at": START, "device": "e"}])
    topic.compact()
    (summary,) = [s for s in topic.summaries(topic.begins(), topic.ends()) if s.rows]
    micros = int(START.timestamp()) * 1_000_000
    assert summary.maxima == {"d": micros, "e": micros}
    assert (summary.min_time, summary.max_time) == (micros, micros)


def test_it_happens_by_itself_when_the_topic_says_so(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL, compact=True)
    for i in range(300):
        topic.append([row("a", i * 100 + j) for j in range(100)])
    topic.backend.upkeep.wait()
    assert topic.read().num_rows < 2000
    assert topic.read()["n"].to_pylist()[-1] == 29_999


def test_large_segments_that_lose_nothing_are_left_alone(open_topic: OPEN) -> None:
    topic = open_topic(settings=SMALL)
    topic.append([row(f"key{i}", i) for i in range(2000)])
    topic.compact()
    before = {name: os.stat(f"{topic.backend.directory}/{name}").st_ino for name in os.listdir(topic.backend.directory)}
    topic.append([row(f"other{i}", i) for i in range(2000)])
    topic.compact()
    first = f"{1:020d}.journal"
    assert os.stat(f"{topic.backend.directory}/{first}").st_ino == before[first]


@pytest.mark.parametrize("pause", [1, 20, 60, 100])
def test_a_reader_in_the_middle_sees_every_row_that_is_left_once(open_topic: OPEN, pause: int) -> None:
    """Its segments are joined in several runs while it reads: it goes on in those, behind what it has read."""
    topic = open_topic(settings=SMALL, partitions=1)
    topic.backend.upkeep.stop()
    for i in range(8):
        fill(topic, 20 * i, 20 * i + 20)
        topic.append([row(f"stays{i}-{j}", j) for j in range(150)])
    before, segments = history(topic), len(list_segments(topic.backend.directory))
    reader = open_topic()  # it has not opened the later segments yet
    reader.backend.upkeep.stop()
    reading = reader.batches(topic.begins(), topic.ends(), ["_offset"])
    seen: list[int] = []
    while len(seen) < pause:
        seen += next(reading).column(0).to_pylist()
    topic.compact()
    assert 3 < len(list_segments(topic.backend.directory)) < segments
    for batch in reading:
        seen += batch.column(0).to_pylist()
    assert seen == sorted(set(seen))
    assert {row["_offset"] for row in newest(before)} <= set(seen)


@pytest.mark.parametrize("place", ["compact.begin", "compact.written"])
def test_a_full_disk_leaves_everything_as_it_was(open_topic: OPEN, place: str) -> None:
    topic = open_topic(settings=SMALL)
    topic.backend.upkeep.stop()
    fill(topic, 0, 100)
    before = history(topic)
    failpoints.arm(f"{place}=enospc")
    with pytest.raises(DiskFull, match="no upkeep.*no room"):
        topic.compact()
    assert history(topic) == before
    topic.append(row("key1", 1000))
    before = history(topic)
    topic.compact()
    assert history(topic) == newest(before)


PLACES = ["rolled", "begin", "written", "renamed", "indexed", "unlinked", "unlinked:3", "marked"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled")
    coordination = Coordination(f"{path}/coordination.db", create=True)
    spec = TopicSpec("t", "k string, n bigint, at timestamp", key="k", time="at", fsync="os", partitions=2)
    topic = Catalogue(f"{path}/topics", SMALL, coordination).open(spec)
    fill(topic, 0, 60)
    # Rows that stay between rows that go: several segments are rewritten, in several runs.
    for i in range(6):
        topic.append([row(f"stays{i}-{j}", j) for j in range(300)])
        fill(topic, 60 + i, 70 + i)
    topic.close()
    coordination.close()
    return path


@pytest.mark.parametrize("place", [*(f"compact.{place}" for place in PLACES), "compact.renamed:2", "compact.begin:2"])
def test_a_kill_at_any_step_loses_nothing_and_revives_nothing(filled, tmp_path, open_topic, program, place) -> None:
    shutil.copytree(filled / "topics", tmp_path / "topics")
    topic = open_topic(partitions=2)
    topic.backend.upkeep.stop()
    before = history(topic)
    known = {(row["_partition"], row["_offset"]): row for row in before}
    killed = program("upkeep.py", tmp_path, "compact", failpoints=f"{place}=kill")
    assert killed.wait(60) == -9, killed.communicate()

    def check(opened: Topic) -> None:
        """Some of the old rows may be there still; the answer for each key must be the same."""
        after = history(opened)
        assert newest(after, tombstones=False) == newest(before, tombstones=False)
        assert all(known[row["_partition"], row["_offset"]] == row for row in after)

    check(topic)
    topic.close()
    os.unlink(f"{topic.backend.directory}/state")
    again = open_topic(settings=NO_GRACE)
    check(again)
    again.compact()
    assert history(again) == newest(before, tombstones=False)


def test_another_process_reads_on_while_segments_are_compacted(open_topic: OPEN, program, tmp_path) -> None:
    topic = open_topic(settings=Settings(segment_bytes=8 << 10), partitions=2)
    reader = program("follow.py", tmp_path)
    assert reader.stdout.readline() == "ready\n"
    for i in range(1000):
        topic.append([row(f"key{i % 11}", i), row(f"once{i}", i)])
        if i % 50 == 0:
            topic.compact()
    topic.append(row("end", -1))
    lines = reader.communicate(timeout=60)[0].splitlines()
    assert lines[-1] == "end"
    seen = [tuple(map(int, line.split())) for line in lines[:-1]]
    for p in (0, 1):
        offsets = [offset for partition, offset, _ in seen if partition == p]
        assert offsets == sorted(set(offsets))
    topic.compact()
    assert {(row["_partition"], row["_offset"], row["n"]) for row in history(topic)} <= set(seen)


@contextmanager
def scratch(options: dict[str, Any]) -> Iterator[Callable[[], Topic]]:
    with tempfile.TemporaryDirectory() as path:
        coordination = Coordination(f"{path}/coordination.db", create=True)
        spec = TopicSpec("t", "k string, n bigint", key="k", fsync="os", partitions=2, **options)
        catalogue = Catalogue(f"{path}/topics", Settings(segment_bytes=4 << 10, tombstone_grace=0), coordination)
        opened: list[Topic] = []

        def make() -> Topic:
            opened.append(catalogue.open(spec))
            return opened[-1]

        try:
            yield make
        finally:
            for topic in opened:
                topic.close()
            coordination.close()


KEYS = st.integers(0, 12).map(lambda i: f"key{i}")
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(KEYS, min_size=1, max_size=40)),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.sampled_from(["roll", "compact", "seal", "reopen", "crash"]), st.none()),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=25), compression=st.sampled_from([None, "lz4"]), compact=st.booleans())
def test_any_order_of_steps_gives_the_newest_row_of_each_key(steps, compression, compact) -> None:
    with scratch({"compression": compression, "compact": compact}) as make:
        topic, number = make(), 0
        model: dict[str, int] = {}
        written: dict[tuple[int, int], tuple[str, int | None]] = {}
        for step, argument in steps:
            before = topic.ends()
            match step:
                case "append":
                    topic.append([{"k": key, "n": number + i} for i, key in enumerate(argument)])
                    model.update({key: number + i for i, key in enumerate(argument)})
                    number += len(argument)
                case "delete":
                    topic.delete(argument)
                    model.pop(argument, None)
                case "compact":
                    topic.compact()
                case "roll":
                    topic.backend.journal.roll()
                case "seal":
                    topic.enforce_retention()
                case "reopen":
                    topic = make()
                case "crash":
                    topic.close()
                    os.unlink(f"{topic.backend.directory}/state")
                    topic = make()
            for row in topic.read(start={"t": before}).to_pylist() if step in ("append", "delete") else []:
                written[row["_partition"], row["_offset"]] = (row["k"], row["n"])
            rows = history(topic)
            assert all(written[row["_partition"], row["_offset"]] == (row["k"], row["n"]) for row in rows)
            assert {row["k"]: row["n"] for row in newest(rows, tombstones=False)} == model
        topic.compact()
        assert {row["k"]: row["n"] for row in history(topic)} == model
        assert len(history(topic)) == len(model)
