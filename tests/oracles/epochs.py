"""Plays epochs through a kernel and keeps what a view would hold. Checks what every epoch must respect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from oracles.ledger import balanced
from oracles.memory_state import MemoryState
from riverrun.columns import TIME, WEIGHT
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, Counts, EpochClock, Kernel
from riverrun.state.directory import NodeState, StateDirectory
from riverrun.state.table import State

Row = tuple[Any, ...]
Epoch = tuple[pl.DataFrame, int]


@dataclass
class Played:
    """What came out: the view (row -> how often), at the end and after each epoch, and the ledger's totals."""

    columns: list[str]
    view: Counter[Row] = field(default_factory=Counter)
    views: list[Counter[Row]] = field(default_factory=list)
    changes: list[pl.DataFrame] = field(default_factory=list)
    late: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row, count in self.view.items() for _ in range(count)]


def play(kernel: Kernel, epochs: Sequence[Epoch], columns: Sequence[str], directory: Path | None = None) -> Played:
    """Runs `epochs` (rows, watermark at the end) one after the other, and then the end of the input.

    With a `directory`, state is in files there, written and opened again in every epoch.
    """
    state: State = MemoryState(kernel.tables)
    files = StateDirectory(directory, inline_bytes=1000) if directory else None
    entries: dict[str, Any] = {}
    played = Played([*columns, TIME])
    start = MIN_TIME
    ends = [(rows, max(end, MIN_TIME)) for rows, end in epochs]
    ends.append((epochs[0][0].clear(), MAX_TIME))
    for number, (rows, end) in enumerate(ends):
        if files:
            state = files.open(entries, kernel.tables, "node", 0 if number % 2 else None)
        step = kernel.step(state, {"in": rows}, EpochClock(number, start, end))
        if isinstance(state, NodeState):
            entries = state.commit(number)
        _check(step.changes, step.counts)
        assert step.counts["in"].read == len(rows)
        for row in step.changes.select(*played.columns, WEIGHT).rows():
            played.view[_hashable(row[:-1])] += row[-1]
        assert all(count >= 0 for count in played.view.values()), "retracted what was not there"
        played.view = +played.view
        played.views.append(played.view.copy())
        played.changes.append(step.changes)
        for late in step.late.values():
            played.late.extend(late.to_dicts())
            assert (late["_watermark"] == start).all()
        played.counts.update({name: getattr(step.counts["in"], name) for name in Counts.__dataclass_fields__})
        start = end
    return played


def _check(changes: pl.DataFrame, counts: Mapping[str, Counts]) -> None:
    assert all(balanced(entry) for entry in counts.values())
    values = [name for name in changes.columns if name not in (WEIGHT, "_partition", "_offset")]
    both = Counter(_hashable(row) for row in changes.filter(pl.col(WEIGHT) < 0).select(values).rows())
    both &= Counter(_hashable(row) for row in changes.filter(pl.col(WEIGHT) > 0).select(values).rows())
    assert not both, "a retraction and an insertion that cancel"


def _hashable(row: Sequence[Any]) -> Row:
    return tuple(_hashable(value) if isinstance(value, list) else value for value in row)


def frame(rows: Sequence[Row], schema: Mapping[str, pl.DataType], first_offset: int = 0) -> pl.DataFrame:
    """Rows of values and an event time, in log order, with the hidden columns."""
    return pl.DataFrame(list(rows), schema={**schema, TIME: pl.Int64()}, orient="row").with_columns(
        pl.lit(1, pl.Int8).alias(WEIGHT),
        pl.lit(0, pl.Int32).alias("_partition"),
        pl.int_range(first_offset, first_offset + len(rows), dtype=pl.Int64).alias("_offset"),
    )


def split(rows: Sequence[Row], cuts: Sequence[int], schema: Mapping[str, pl.DataType]) -> list[Epoch]:
    """`rows` cut into epochs, each with the highest watermark under which no row is late."""
    bounds = sorted({0, len(rows), *(cut for cut in cuts if 0 < cut < len(rows))})
    epochs = []
    for lo, hi in pairwise(bounds):
        remaining = [row[-1] for row in rows[hi:]]
        largest = max(row[-1] for row in rows[:hi])
        epochs.append((frame(rows[lo:hi], schema, lo), min([largest + 1, *remaining])))
    return epochs or [(frame([], schema), MIN_TIME)]


def scripted(
    rows: st.SearchStrategy[Row], schema: Mapping[str, pl.DataType], pace: int
) -> st.SearchStrategy[list[Epoch]]:
    """Epochs of any rows with a watermark that rises on its own account, so that many rows are late."""
    epochs = st.lists(st.tuples(st.lists(rows, max_size=12), st.integers(0, pace)), min_size=1, max_size=5)

    def build(drawn: list[tuple[list[Row], int]]) -> list[Epoch]:
        made, watermark, offset = [], -1, 0
        for batch, rise in drawn:
            watermark += rise
            made.append((frame(batch, schema, offset), watermark))
            offset += len(batch)
        return made

    return epochs.map(build)
