"""Dedupe: the first in log order passes; whatever is near a kept one in event time does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.epochs import Epoch, Row, frame, play, scripted, split
from oracles.memory_state import MemoryState
from riverrun.kernels.dedupe import DedupeKernel
from riverrun.kernels.kernel import MIN_TIME, EpochClock

SCHEMA: dict[str, pl.DataType] = {"order": pl.String(), "part": pl.Int64(), "n": pl.Int64()}
COLUMNS = list(SCHEMA)

row = st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1, None]), st.integers(0, 3), st.integers(0, 60))


def deduper(within: int) -> DedupeKernel:
    return DedupeKernel(("order", "part"), within, SCHEMA)


def one_after_the_other(epochs: list[Epoch], within: int) -> tuple[Counter[Row], int, int]:
    """Kept rows, duplicates, late ones."""
    kept: dict[Any, list[int]] = {}
    passed: Counter[Row] = Counter()
    duplicates = late = 0
    watermark = MIN_TIME
    for rows, end in epochs:
        for order, part, n, time in rows.select(*COLUMNS, "_time").rows():
            near = [t for t in kept.get((order, part), []) if abs(t - time) <= within]
            if time < watermark - within:
                late += 1
            elif near:
                duplicates += 1
            else:
                kept.setdefault((order, part), []).append(time)
                passed[order, part, n, time] += 1
        watermark = end
    return passed, duplicates, late


@settings(max_examples=80, deadline=None)
@given(scripted(row, SCHEMA, 30), st.sampled_from([0, 1, 5, 12]))
def test_first_rows_pass_and_the_ledger_names_the_others(epochs: list[Epoch], within: int) -> None:
    passed, duplicates, late = one_after_the_other(epochs, within)
    played = play(deduper(within), epochs, COLUMNS)
    assert played.view == passed
    assert (played.counts["duplicates"], played.counts["late_dropped"]) == (duplicates, late)


@settings(max_examples=50, deadline=None)
@given(st.lists(row, max_size=40), st.lists(st.integers(0, 40), max_size=5), st.sampled_from([0, 3, 12]))
def test_any_batching_keeps_the_same_rows(rows: list[Row], cuts: list[int], within: int) -> None:
    whole = play(deduper(within), split(rows, [], SCHEMA), COLUMNS)
    assert play(deduper(within), split(rows, cuts, SCHEMA), COLUMNS).view == whole.view


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_longer_than_the_rounds_is_thinned_row_by_row(backwards: bool) -> None:
    times = list(range(500))[:: -1 if backwards else 1]
    rows = [("x", 1, 0, time) for time in times]
    played = play(deduper(9), split(rows, [], SCHEMA), COLUMNS)
    assert sorted(row[-1] for row in played.view) == sorted(times[::10])


def test_a_row_passes_with_its_origin_and_in_log_order() -> None:
    rows = [("y", 1, 0, 5), ("x", 1, 0, 5), ("x", 1, 1, 6), (None, 1, 1, 1)]
    played = play(deduper(3), [(frame(rows, SCHEMA, 40), 0)], COLUMNS)
    assert played.changes[0]["_offset"].to_list() == [40, 41, 43]
    assert played.changes[0].columns == frame(rows, SCHEMA).columns


def test_state_is_released_behind_the_watermark() -> None:
    kernel = deduper(10)
    state = MemoryState(kernel.tables)
    for number in range(20):
        rows = frame([(f"o{number}-{n}", 1, 0, number * 10) for n in range(50)], SCHEMA)
        kernel.step(state, {"in": rows}, EpochClock(number, number * 10 - 10, number * 10))
    assert len(state["kept"].scan()) == 3 * 50


def test_a_large_epoch_of_unlike_rows_is_one_pass() -> None:
    count = 100_000
    rng = np.random.default_rng(1)
    rows = frame([], SCHEMA).clear()
    rows = pl.DataFrame(
        {
            "order": rng.integers(0, count // 2, count).astype(str),
            "part": np.ones(count, np.int64),
            "n": np.zeros(count, np.int64),
            "_time": rng.integers(0, 1000, count),
            "_weight": np.ones(count, np.int8),
            "_partition": np.zeros(count, np.int32),
            "_offset": np.arange(count),
        },
        schema=rows.schema,
    )
    played = deduper(1000).step(MemoryState(deduper(1000).tables), {"in": rows}, EpochClock(0, MIN_TIME, 0))
    assert len(played.changes) == rows["order"].n_unique()
