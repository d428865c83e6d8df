"""`windowed.versus(d)`: every window beside the same window `d` earlier, as `<name>_before` columns.

Input and output are tables keyed by `by`, `window_start`, `window_end`. A row changes when its own window changes and
when the earlier one does; where there is no earlier window, the `_before` columns are null. A window is remembered
until the one `d` later can no longer change: until the watermark has passed that one's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import TIME, WEIGHT
from riverrun.kernels.difference import difference
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.weights import weighted
from riverrun.kernels.windows import ALL, WINDOW_END, WINDOW_START, keys
from riverrun.state.equality import equijoin
from riverrun.state.table import State, StateTable, TableSpec


@dataclass(frozen=True)
class VersusKernel:
    """Compares with `earlier` µs before. `schema` is that of the value columns, `by` and the window's included."""

    by: tuple[str, ...]
    earlier: int
    schema: Mapping[str, pl.DataType]

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.by, WINDOW_START, WINDOW_END)

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        schema = {**self.schema, ALL: pl.Int8(), TIME: pl.Int64()}
        return {"windows": TableSpec(schema, identity=(WINDOW_START,), probe=keys(self.by), bucket=TIME, route=self.by)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, windows = inputs["in"], state["windows"]
        counts = {"in": Counts(read=len(arrived), accepted=len(arrived))}
        if arrived.is_empty():
            windows.release(clock.end - self.earlier)
            return Step(self._unchanged, counts)
        touched = arrived.select(self.key).unique(maintain_order=True)
        # A changed window changes its own row, and, as the earlier one, that of the window after it.
        shown = pl.concat([touched, self._moved(touched, 1)]).unique(maintain_order=True)
        old = self._compared(windows, shown)
        present = arrived.filter(pl.col(WEIGHT) > 0)
        windows.remove(_addressed(touched))
        windows.put(_addressed(present))
        changes = difference(old, self._compared(windows, shown), self.key)
        windows.release(clock.end - self.earlier)
        return Step(changes, counts)

    @cached_property
    def _unchanged(self) -> pl.DataFrame:
        before = {f"{name}_before": kind for name, kind in self.schema.items() if name not in self.key}
        return weighted(pl.DataFrame(schema={**self.schema, **before, TIME: pl.Int64()}), 1)

    def _compared(self, windows: StateTable, wanted: pl.DataFrame) -> pl.DataFrame:
        """The output rows of those `wanted` keys that exist."""
        on = list(self.key)
        current = self._windows(windows, wanted)
        before = self._moved(self._windows(windows, self._moved(wanted, -1)), 1).drop(TIME)
        return equijoin(current, before, on, "left", suffix="_before").select(
            *self.schema, *(f"{name}_before" for name in self.schema if name not in on), TIME
        )

    def _windows(self, windows: StateTable, wanted: pl.DataFrame) -> pl.DataFrame:
        """The stored windows with these keys."""
        addresses = _addressed(wanted).select(*keys(self.by), TIME).unique(maintain_order=True)
        found = windows.probe(addresses)[0].drop(ALL)
        return equijoin(found, wanted, self.key, "semi")

    def _moved(self, rows: pl.DataFrame, times: int) -> pl.DataFrame:
        distance = pl.duration(microseconds=times * self.earlier)
        return rows.with_columns(pl.col(WINDOW_START) + distance, pl.col(WINDOW_END) + distance)


def _addressed(windows: pl.DataFrame) -> pl.DataFrame:
    """Windows with the columns by which state finds them."""
    return windows.with_columns(pl.col(WINDOW_END).to_physical().alias(TIME), pl.lit(0, pl.Int8).alias(ALL))
