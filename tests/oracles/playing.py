"""Plays epochs through a kernel and keeps the view they make, checking what holds for every step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from oracles.ledger import balanced
from oracles.memory_state import MemoryState
from riverrun.columns import CARRIED, TIME, WEIGHT
from riverrun.kernels.kernel import Counts, EpochClock, Kernel, Step
from riverrun.state.directory import StateDirectory

Row = dict[str, Any]
HIDDEN_KINDS = {TIME: pl.Int64(), WEIGHT: pl.Int8(), "_partition": pl.Int32(), "_offset": pl.Int64()}


class View:
    """The sum of all changes: rows as text, so that NaN equals itself."""

    def __init__(self) -> None:
        self.exact: dict[str, Row] = {}
        self.counts: Counter[str] = Counter()
        self.late: list[Row] = []
        self.times: dict[str, int] = {}

    @property
    def rows(self) -> list[str]:
        return sorted(shown(row) for row in self.exact.values())

    def apply(self, step: Step, read: int) -> None:
        entry = step.counts["in"]
        assert balanced(entry)
        assert entry.read == read
        self.counts.update({name: getattr(entry, name) for name in Counts.__dataclass_fields__})
        seen: dict[str, int] = {}
        for row in step.changes.to_dicts():
            weight, time = row.pop(WEIGHT), row.pop(TIME)
            text = repr(row)
            assert seen.setdefault(text, weight) == weight, f"changes that cancel: {text}"
            if weight > 0:
                assert text not in self.exact, f"issued twice: {text}"
                self.exact[text], self.times[text] = row, time
            else:
                assert text in self.exact, f"retracted without being there: {text}"
                del self.exact[text]
                assert self.times.pop(text) == time, "retracted with another time than it was issued with"
        for late in step.late.values():
            self.late.extend(late.to_dicts())


def shown(row: Mapping[str, Any]) -> str:
    return repr({name: rounded(value) for name, value in sorted(row.items()) if name not in CARRIED})


def rounded(value: Any) -> Any:
    """Floats agree within 1e-9 for any batching."""
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.9e}") + 0.0
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return value


def frame(rows: Sequence[Row], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    ordered = sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))
    return pl.DataFrame(ordered, schema={**schema, **HIDDEN_KINDS}, orient="row")


class Player:
    """Steps a kernel with its state in memory, or in files that every epoch opens and commits."""

    def __init__(self, kernel: Kernel, directory: str | None = None) -> None:
        self.kernel = kernel
        self.view = View()
        self.memory = MemoryState(kernel.tables)
        self.files = StateDirectory(directory, inline_bytes=2000) if directory else None
        self.entries: dict[str, Any] = {}

    def step(self, rows: pl.DataFrame, clock: EpochClock) -> Step:
        if self.files is None:
            step = self.kernel.step(self.memory, {"in": rows}, clock)
        else:
            again = self.files.open(self.entries, self.kernel.tables, "n", 0 if clock.epoch % 2 else None)
            first = self.kernel.step(again, {"in": rows}, clock)
            state = self.files.open(self.entries, self.kernel.tables, "n", 0 if clock.epoch % 2 else None)
            step = self.kernel.step(state, {"in": rows}, clock)
            assert repr(step.changes.rows()) == repr(first.changes.rows()), "the same epoch gave other rows"
            self.entries = state.commit(clock.epoch)
        self.view.apply(step, rows.height)
        return step
