"""However frames are put together for reading, the rows are those that each frame gives by itself."""

from __future__ import annotations

import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.log import decoder
from riverrun.log.catalogue import Catalogue
from riverrun.log.codec import HIDDEN
from riverrun.log.coordination import Coordination
from riverrun.log.frame import INDEX
from riverrun.log.sealing import seal
from riverrun.log.spec import TopicSpec
from riverrun.settings import Settings

COLUMNS = [None, ["n"], ["_offset", "_partition"], ["_time", "k"], ["_key", "_received"], ["_deleted", "later"]]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("rows"), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("large"), st.just([*range(7)] * 400)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("promise"), st.integers(0, 2)),
        st.tuples(st.just("grow"), st.none()),
        st.tuples(st.just("seal"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(STEPS, st.sampled_from([None, "lz4"]), st.sampled_from(COLUMNS), st.data())
def test_rows_of_any_range_are_those_of_the_single_frames(steps, compression, columns, data):
    with tempfile.TemporaryDirectory() as directory:
        with closing(Coordination(f"{directory}/coordination.db", create=True)) as coordination:
            catalogue = Catalogue(f"{directory}/topics", Settings(), coordination)
            topic, number, single = catalogue.open(_spec(compression)), 0, []
            for step, what in steps:
                before = topic.latest
                if step in ("rows", "large"):
                    topic.append([{"k": f"k{key}", "n": number + i, "at": _time(i)} for i, key in enumerate(what)])
                    number += len(what)
                elif step == "delete":
                    topic.delete(f"k{what}")
                elif step == "promise":
                    topic.advance(what, _time(number))
                elif step == "grow":
                    topic.close()
                    topic = catalogue.open(_spec(compression, ", later string"))
                else:
                    topic.backend.journal.roll()
                    with topic.backend.upkeep.alone():
                        seal(topic.backend)
                single += topic.read(before, topic.latest).to_pylist()
            topic.close()

            with catalogue.open(_spec(compression, ", later string")) as topic:
                ends = topic.ends()
                start = {p: data.draw(st.integers(0, ends[p])) for p in ends}
                end = {p: data.draw(st.integers(start[p], ends[p])) for p in ends}
                shown = [*topic.schema.names, *HIDDEN] if columns is None else columns
                wanted = [row for row in single if start[row["_partition"]] <= row["_offset"] < end[row["_partition"]]]
                for partition in ends:  # alone and with the others
                    of_one = [row for row in wanted if row["_partition"] == partition]
                    found = list(topic.batches({partition: start[partition]}, end, columns))
                    assert _rows(found) == [{name: row.get(name) for name in shown} for row in of_one]
                    found = list(topic.batches(start, end, _with_partition(shown)))
                    assert [r for r in _rows(found) if r["_partition"] == partition] == [
                        {name: row.get(name) for name in _with_partition(shown)} for row in of_one
                    ]


def _spec(compression: str | None, more: str = "") -> TopicSpec:
    schema = "k string, n bigint, at timestamp" + more
    return TopicSpec("t", schema, key="k", time="at", partitions=3, fsync="os", compression=compression)


def _with_partition(names: list[str]) -> list[str]:
    return list(dict.fromkeys([*names, "_partition"]))


def _rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def _time(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)


def _index(frames: list[tuple[int, int, int]]) -> np.ndarray:
    """Frames of one partition from (rows, schema, body bytes)."""
    index = np.zeros(len(frames), INDEX)
    for i, (rows, schema, size) in enumerate(frames):
        index[i]["rows"] = index[i]["span"] = rows
        index[i]["schema"], index[i]["body_bytes"] = schema, size
        index[i]["offset"] = index["span"][:i].sum()
    return index


def _cut(index: np.ndarray, low: int = 0, high: int = 1 << 62) -> list[int]:
    return [len(run) for run in decoder.decodable_runs(index, np.array([low]), np.array([high]))]


def test_small_frames_of_one_schema_are_put_together():
    assert _cut(_index([(1, 1, 100)] * 5)) == [5]
    assert _cut(_index([(1, 1, 100)] * 2 + [(1, 2, 100)] * 3)) == [2, 3]
    assert _cut(_index([])) == []


def test_large_frames_stand_alone():
    assert _cut(_index([(10, 1, 100), (5000, 1, 100), (10, 1, 100), (10, 1, 100)])) == [1, 1, 2]


def test_runs_have_an_end():
    assert max(_cut(_index([(1000, 1, 100)] * 20))) * 1000 <= 8192
    assert _cut(_index([(1, 1, 3 << 20)] * 4)) == [1, 1, 1, 1]
    assert sum(_cut(_index([(1, 1, 1 << 20)] * 9))) == 9


def test_frames_of_which_a_part_is_wanted_stand_alone():
    assert _cut(_index([(10, 1, 100)] * 6), low=5, high=55) == [1, 4, 1]
    assert _cut(_index([(10, 1, 100)] * 6), low=0, high=60) == [6]
