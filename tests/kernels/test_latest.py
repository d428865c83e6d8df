"""Latest: the last row per key by event time, for any batching."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.epochs import Row, frame, play, split
from riverrun.errors import Invalid
from riverrun.kernels.latest import LatestKernel

SCHEMA: dict[str, pl.DataType] = {"user": pl.String(), "n": pl.Int64()}
LATEST = LatestKernel(("user",), SCHEMA)

rows_of = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 3), st.integers(0, 9)), max_size=30)


def last_by_time(rows: list[Row]) -> dict[Any, Row]:
    last: dict[Any, Row] = {}
    for row in rows:
        if row[0] not in last or row[-1] >= last[row[0]][-1]:
            last[row[0]] = row
    return last


@settings(max_examples=50, deadline=None)
@given(rows_of, st.lists(st.integers(0, 30), max_size=5))
def test_any_batching_holds_the_last_row_of_each_key(rows: list[Row], cuts: list[int]) -> None:
    played = play(LATEST, split(rows, cuts, SCHEMA), list(SCHEMA))
    assert dict(played.view) == dict.fromkeys(last_by_time(rows).values(), 1)
    assert played.counts["accepted"] == len(rows)


def test_a_row_that_does_not_win_changes_nothing() -> None:
    epochs = [(frame([("a", 1, 10)], SCHEMA), 0), (frame([("a", 2, 9)], SCHEMA, 1), 0)]
    played = play(LATEST, epochs, list(SCHEMA))
    assert len(played.changes[1]) == 0


def test_an_update_retracts_the_old_row_first() -> None:
    epochs = [(frame([("a", 1, 10)], SCHEMA), 0), (frame([("a", 2, 10)], SCHEMA, 1), 0)]
    played = play(LATEST, epochs, list(SCHEMA))
    assert played.changes[1].select("n", "_weight").rows() == [(1, -1), (2, 1)]


def test_of_equal_times_the_later_in_the_log_wins_whatever_the_epoch_it_came_in() -> None:
    row = frame([("a", 1, 10)], SCHEMA, 7).with_columns(pl.lit(1, pl.Int32).alias("_partition"))
    earlier = frame([("a", 2, 10)], SCHEMA, 9)
    assert play(LATEST, [(row, 0), (earlier, 0)], ["n"]).view == {(1, 10): 1}
    assert play(LATEST, [(pl.concat([earlier, row]), 0)], ["n"]).view == {(1, 10): 1}


def test_a_retraction_is_refused() -> None:
    gone = frame([("a", 1, 10)], SCHEMA).with_columns(pl.lit(-1, pl.Int8).alias("_weight"))
    with pytest.raises(Invalid, match="latest"):
        play(LATEST, [(gone, 0)], ["n"])
