"""`windowed.versus(d)`: every window beside the same window `d` earlier, as `<name>_before` columns.

Input and output are tables keyed by `by`, `window_start`, `window_end`. A row changes when its own window changes and
when the earlier one does; where there is no earlier window, the `_before` columns are null. A window is remembered
until the one `d` later can no longer change: until the watermark has passed that one's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from riverrun.kernels.changes import difference
from riverrun.kernels.kernel import TIME, WEIGHT, Clock, Counts, Step
from riverrun.state.table import State, StateTable, TableSpec

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class Versus:
    """Compares with `earlier` µs before. `schema` is that of the value columns, `by` and the window's included."""

    by: tuple[str, ...]
    earlier: int
    schema: Mapping[str, pl.DataType]

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.by, START, END)

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        schema = {**self.schema, TIME: pl.Int64()}
        return {"windows": TableSpec(schema, identity=(START,), probe=self.by, bucket=TIME)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        arrived, windows = inputs["in"], state["windows"]
        touched = arrived.select(self.key).unique(maintain_order=True)
        # A changed window changes its own row, and, as the earlier one, that of the window after it.
        shown = pl.concat([touched, self._moved(touched, 1)]).unique(maintain_order=True)
        old = self._compared(windows, shown)
        present = arrived.filter(pl.col(WEIGHT) > 0)
        windows.remove(self._timed(touched))
        windows.put(self._timed(present).select(*self.schema, TIME))
        changes = difference(old, self._compared(windows, shown), self.key)
        windows.release(clock.end - self.earlier)
        return Step(changes, {"in": Counts(read=len(arrived), accepted=len(arrived))})

    def _compared(self, windows: StateTable, keys: pl.DataFrame) -> pl.DataFrame:
        """The output rows of those `keys` that exist."""
        on = list(self.key)
        current = self._windows(windows, keys)
        before = self._moved(self._windows(windows, self._moved(keys, -1)), 1).drop(TIME)
        return current.join(before, on=on, how="left", nulls_equal=True, suffix="_before").select(
            *self.schema, *(f"{name}_before" for name in self.schema if name not in on), TIME
        )

    def _windows(self, windows: StateTable, keys: pl.DataFrame) -> pl.DataFrame:
        """The stored windows with these keys."""
        addresses = self._timed(keys).select(*self.by, TIME).unique(maintain_order=True)
        found = windows.probe(addresses)
        return found.join(keys, on=list(self.key), how="semi", nulls_equal=True)

    def _moved(self, rows: pl.DataFrame, times: int) -> pl.DataFrame:
        distance = pl.duration(microseconds=times * self.earlier)
        return rows.with_columns(pl.col(START) + distance, pl.col(END) + distance)

    def _timed(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.col(END).to_physical().alias(TIME))
