"""Joins by the book: all pairs looked at, and what an epoch's clock makes late. And two-input kernels, played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from oracles.ledger import balanced
from oracles.memory_state import MemoryState
from riverrun.kernels.kernel import MIN_TIME, Counts, EpochClock, Kernel
from riverrun.state.directory import NodeState, StateDirectory
from riverrun.state.table import State

STAMP = pl.Datetime("us", "UTC")
HIDDEN: dict[str, pl.DataType] = {
    "_time": pl.Int64(),
    "_weight": pl.Int8(),
    "_partition": pl.Int32(),
    "_offset": pl.Int64(),
    "_received": STAMP,
}
ID = ("_partition", "_offset")

Record = dict[str, Any]
Epoch = tuple[list[Record], list[Record], int]
"""Rows of the left and of the right, and the watermark at the end."""


def moment(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")) + timedelta(seconds=number)


def framed(rows: Sequence[Record], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Rows in the order the host hands them over; the columns of a kernel that the rows have not are left out."""
    ordered = sorted(rows, key=lambda row: (row["_partition"], row["_offset"], row.get("_weight", 1)))
    return pl.DataFrame(ordered, schema=dict(schema), orient="row")


@dataclass
class Played:
    """What came out: the rows of the view by id, and after each epoch, the changes and the ledger's totals."""

    view: Counter[str] = field(default_factory=Counter)
    changes: list[pl.DataFrame] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {"left": Counter(), "right": Counter()})
    rows: list[int] = field(default_factory=list)
    """How many rows the state had after each epoch."""

    @property
    def late(self) -> int:
        return sum(count["late_dropped"] for count in self.counts.values())


def play(
    kernel: Kernel,
    epochs: Sequence[Epoch],
    schemas: tuple[Mapping[str, pl.DataType], Mapping[str, pl.DataType]],
    directory: Path | None = None,
) -> Played:
    """Runs the epochs one after the other. With a `directory`, state is in files, opened again in every epoch."""
    state: State = MemoryState(kernel.tables)
    files = StateDirectory(directory, inline_bytes=2000) if directory else None
    entries: dict[str, Any] = {}
    start, played = MIN_TIME, Played()
    for number, (left, right, end) in enumerate(epochs):
        inputs = {"left": framed(left, schemas[0]), "right": framed(right, schemas[1])}
        clock = EpochClock(number, start, end)
        if files:
            again = kernel.step(files.open(entries, kernel.tables, "node", 0 if number % 2 else None), inputs, clock)
            state = files.open(entries, kernel.tables, "node", 0 if number % 2 else None)
        step = kernel.step(state, inputs, clock)
        if isinstance(state, NodeState):
            entries = state.commit(number)
            assert again.changes.equals(step.changes), "the same epoch gave other rows"
        _apply(played, step.changes)
        for name, entry_of in step.counts.items():
            assert balanced(entry_of)
            assert entry_of.read == len(inputs[name])
            played.counts[name].update({part: getattr(entry_of, part) for part in Counts.__dataclass_fields__})
        played.changes.append(step.changes)
        if not files:
            played.rows.append(sum(len(state[name].scan()) for name in kernel.tables))
        start = end
    return played


def _apply(played: Played, changes: pl.DataFrame) -> None:
    weights = changes["_weight"].to_list()
    assert weights == sorted(weights), "retractions come first"
    texts = [repr(row) for row in changes.drop("_weight").rows()]
    assert len(set(texts)) == len(texts), "a row issued twice, or changes that cancel"
    for text, weight in zip(texts, weights, strict=True):
        assert weight > 0 or played.view[text] == 1, f"retracted without being there: {text}"
        played.view[text] += weight
        assert played.view[text] <= 1, f"issued twice: {text}"
    played.view = +played.view


def timely(epochs: Sequence[Epoch], side: int) -> list[Record]:
    """The rows of one side that are not late and not retracted."""
    rows: dict[tuple[int, int], Record] = {}
    start = MIN_TIME
    for epoch in epochs:
        for row in sorted(epoch[side], key=lambda row: row.get("_weight", 1)):
            at = (row["_partition"], row["_offset"])
            if row.get("_weight", 1) < 0:
                if row["_time"] >= start:
                    rows.pop(at, None)
            elif row["_time"] >= start:
                rows[at] = row
        start = epoch[2]
    return list(rows.values())


def pairs(
    left: Sequence[Record], right: Sequence[Record], how: str, fits: Callable[[Record, Record], bool]
) -> list[tuple[Record | None, Record | None]]:
    """The join of two lists: pairs that fit, and rows without a partner where `how` says so."""
    found: list[tuple[Record | None, Record | None]] = [(a, b) for a in left for b in right if fits(a, b)]
    if how in ("left", "full"):
        found += [(a, None) for a in left if not any(fits(a, b) for b in right)]
    if how in ("right", "full"):
        found += [(None, b) for b in right if not any(fits(a, b) for a in left)]
    return found
