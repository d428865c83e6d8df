"""Rows of equal key and near time: numbers of keys, ranges of times, and how little of the state is read."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.memory_state import MemoryTable
from riverrun.columns import TIME
from riverrun.kernels.matching import KeptRows, Timeline, key_numbers, log_order, near, slices, written_out
from riverrun.state.hashing import hash_columns

TIMES = st.one_of(st.integers(-5, 5), st.sampled_from([-(1 << 61), 1 << 61]))
POINTS = st.lists(st.tuples(st.integers(-1, 3), TIMES), max_size=12)


def columns(points: list[tuple[int, int]]) -> list[np.ndarray]:
    return [np.array([point[at] for point in points], np.int64) for at in (0, 1)]


@settings(max_examples=100, deadline=None)
@given(POINTS, POINTS)
def test_ranges_of_a_timeline(rows: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    timeline = Timeline(*columns(rows))
    number, time = columns(asked)
    ranges, places = written_out(*timeline.places(number, time - 2, time + 3))
    found = sorted(zip(ranges.tolist(), timeline.order[places].tolist(), strict=True))
    assert found == [
        (at, row)
        for at, (key, moment) in enumerate(asked)
        for row, (other, then) in enumerate(rows)
        if key == other >= 0 and abs(moment - then) <= 2
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0, np.nan, None]))), st.data())
def test_equal_keys_have_equal_numbers(keys: list[tuple[str | None, float | None]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(keys)))
    frames = [
        pl.DataFrame(part, schema={name: pl.String(), "x": pl.Float64()}, orient="row")
        for name, part in (("one", keys[:cut]), ("other", keys[cut:]))
    ]
    numbers = np.concatenate(key_numbers(*frames)).tolist()
    for key, number in zip(keys, numbers, strict=True):
        assert (number < 0) == (None in key)
        for other, another in zip(keys, numbers, strict=True):
            same = key[0] == other[0] and (repr(key[1]).strip("-") == repr(other[1]).strip("-"))
            assert None in key or None in other or (number == another) == same


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 7, (1 << 63) - 1])), unique=True))
def test_log_order(ids: list[tuple[int, int]]) -> None:
    rows = pl.DataFrame(ids, schema={"_partition": pl.Int32(), "_offset": pl.Int64()}, orient="row")
    assert rows[log_order(rows)].rows() == sorted(ids)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-1000, 1000)), st.integers(0, 50))
def test_slices_cover_every_row_once(times: list[int], width: int) -> None:
    time = np.array(times, np.int64)
    parts = [np.ones(len(time), np.bool_) if part is None else part for part in slices(time, width)]
    assert len(parts) <= 17
    assert not len(time) or (np.sum(parts, axis=0) == 1).all()


def test_a_key_is_only_read_around_the_times_of_its_rows() -> None:
    columns = {"key": pl.String(), TIME: pl.Int64(), "_partition": pl.Int32(), "_offset": pl.Int64()}
    kept = KeptRows(pl.Schema(columns), ("key",), 100_000)
    table = MemoryTable(kept.spec)
    history = np.arange(100_000)
    rows = pl.DataFrame({"key": "hot", TIME: history, "_partition": 0, "_offset": history}, schema=columns)
    kept.update(table, rows.clear(), rows, 0)
    # a straggler of another key must not widen what is read of this one
    rows = pl.DataFrame({"k": ["hot", "cold", None], TIME: [99_990, 10, 5]})
    found = near(kept, table, rows, ["k"], hash_columns(rows, ["k"]), -10, 10)
    assert 11 <= len(found) < 10_000
    assert int(found[TIME].to_numpy().min()) > 80_000
    assert found["_offset"].is_unique().all()
