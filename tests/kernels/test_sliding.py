"""Sliding windows: one result per key and time, over what the last `size` brought."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import slides as oracle
from oracles.epochs import Epoch, Row, frame, play, scripted, split
from oracles.memory_state import MemoryState
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.kernel import EpochClock
from riverrun.kernels.sliding import SlidingKernel

SCHEMA: dict[str, pl.DataType] = {"user": pl.String(), "n": pl.Int64()}
SIZE = 8
COLUMNS = ["user", "window_start", "window_end", "rows", "total", "opening"]


TOTALS = Aggregates(
    (Agg("rows", "count"), Agg("total", "sum", "n"), Agg("opening", "first", "n")), SCHEMA, retracts=True
)


def kernel(horizon: int = 0, aside: bool = False, update: bool = False) -> SlidingKernel:
    return SlidingKernel(("user",), SIZE, TOTALS, SCHEMA, horizon, aside, update)


def totals(window: list[Row]) -> Row:
    return len(window), sum(row[1] for row in window), window[0][1]


row = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9), st.integers(0, 40))


@settings(max_examples=60, deadline=None)
@given(scripted(row, SCHEMA, 20), st.sampled_from([0, 0, 4, 15]), st.booleans(), st.booleans())
def test_every_epoch_shows_what_the_definition_says(
    epochs: list[Epoch], horizon: int, aside: bool, update: bool
) -> None:
    plain = [(rows.select("user", "n", "_time").rows(), end) for rows, end in epochs]
    views, late = oracle.after_each_epoch(plain, SIZE, horizon, update, totals)
    played = play(kernel(horizon, aside, update), epochs, COLUMNS)
    assert played.views == views
    assert played.counts["late_aside" if aside else "late_dropped"] == len(late)
    assert Counter((r["user"], r["n"], r["_time"]) for r in played.late) == Counter(late if aside else [])


@settings(max_examples=40, deadline=None)
@given(st.lists(row, max_size=40), st.lists(st.integers(0, 40), max_size=5), st.booleans())
def test_any_batching_ends_like_the_batch(rows: list[Row], cuts: list[int], update: bool) -> None:
    anchors = {(row[0], row[-1]) for row in rows}
    expected = Counter(oracle.slides(rows, anchors, SIZE, totals).values())
    assert play(kernel(update=update), split(rows, cuts, SCHEMA), COLUMNS).view == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(row, st.integers(-1, 4)), max_size=25), st.booleans())
def test_retracted_rows_leave_no_trace(drawn: list[tuple[Row, int]], update: bool) -> None:
    epochs = []
    for number in range(5):
        added = frame([row for at, (row, _) in enumerate(drawn) if at % 4 == number], SCHEMA, number * 100)
        gone = frame([row for at, (row, when) in enumerate(drawn) if when == number > at % 4], SCHEMA)
        epochs.append((pl.concat([added, gone.with_columns(pl.lit(-1, pl.Int8).alias("_weight"))]), 0))
    left = [row for at in range(4) for row, when in drawn[at::4] if when <= at]
    expected = oracle.slides(left, {(row[0], row[-1]) for row in left}, SIZE, totals)
    played = play(kernel(update=update), epochs, COLUMNS)
    assert Counter({row[:-2]: 1 for row in played.view}) == Counter(row[:-2] for row in expected.values())


def test_rows_of_one_time_share_one_result_and_the_start_is_outside() -> None:
    rows = [("a", 1, 0), ("a", 2, 8), ("a", 4, 8)]
    played = play(kernel(), [(frame(rows, SCHEMA), 0)], COLUMNS)
    assert sorted((row["_time"], row["rows"], row["total"]) for row in played.rows()) == [(0, 1, 1), (8, 2, 6)]


def test_a_window_is_final_when_the_watermark_has_passed_its_end() -> None:
    rows = frame([("a", 1, 5)], SCHEMA)
    played = play(kernel(), [(rows, 5), (rows.clear(), 6)], COLUMNS)
    assert [len(view) for view in played.views] == [0, 1, 1]


def test_a_row_late_for_its_own_window_counts_in_the_later_ones() -> None:
    epochs = [(frame([("a", 1, 10)], SCHEMA), 12), (frame([("a", 2, 9), ("a", 4, 13)], SCHEMA), 12)]
    played = play(kernel(), epochs, COLUMNS)
    assert sorted((row["_time"], row["total"]) for row in played.rows()) == [(10, 1), (13, 7)]
    assert played.counts["accepted"] == 3


def test_rows_that_change_what_was_issued_are_counted_as_corrections() -> None:
    epochs = [(frame([("a", 1, 10)], SCHEMA), 12), (frame([("a", 2, 9), ("a", 4, 13)], SCHEMA), 12)]
    assert play(kernel(horizon=5), epochs, COLUMNS).counts["corrected"] == 1
    assert play(kernel(), epochs, COLUMNS).counts["corrected"] == 0


def test_without_by_all_rows_share_their_windows() -> None:
    schema: dict[str, pl.DataType] = {"n": pl.Int64()}
    played = play(SlidingKernel((), SIZE, TOTALS, schema), [(frame([(1, 0), (2, 4), (3, 20)], schema), 0)], COLUMNS[1:])
    assert sorted(row["total"] for row in played.rows()) == [1, 3, 3]


def test_only_rows_that_a_window_can_still_need_are_kept() -> None:
    state = MemoryState(kernel(3, update=True).tables)
    for number in range(30):
        rows = frame([("a", 1, number)], SCHEMA)
        kernel(3, update=True).step(state, {"in": rows}, EpochClock(number, number - 1, number))
    assert sorted(state["rows"].scan()["_time"]) == list(range(29 - 3 - SIZE + 1, 30))
    assert sorted(state["results"].scan()["_time"]) == list(range(29 - 3, 30))
