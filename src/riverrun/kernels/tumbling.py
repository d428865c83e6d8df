"""Windows of one size, one after the other: `[start, start + size)`.

A window closes when the watermark reaches its end. A cell of state is a window of a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.aggregates.aggregates import Aggregates
from riverrun.kernels.aggregates.tallies import CellAddress
from riverrun.kernels.cells import CELLS, Cells, Wanted
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, Buckets, EpochClock, Step
from riverrun.kernels.lateness import accounted, corrects, late_rows, open_until
from riverrun.kernels.weights import changes_of
from riverrun.kernels.windows import ALL, START, bounded, grouped, keys
from riverrun.state.frames import beside, keep, numbers, pick, series, stack
from riverrun.state.table import State, TableSpec


@dataclass(frozen=True)
class TumblingKernel:
    """Results per key and window. `schema` has the columns `by` and those that are aggregated.

    `horizon` keeps closed windows that much longer, open to correction; `aside` hands late rows on; `update` shows
    windows that are still open.
    """

    by: tuple[str, ...]
    size: int
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]
    offset: int = 0
    horizon: int = 0
    aside: bool = False
    update: bool = False

    @cached_property
    def _cells(self) -> Cells:
        place = CellAddress(keys(self.by), {**self.schema, ALL: pl.Int8(), START: pl.Int64()}, START)
        return Cells(place, self.aggregates, gathered=not self.update)

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return self._cells.tables

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        start = (numbers(arrived.get_column(TIME)) - self.offset) // self.size * self.size + self.offset
        rows = beside(grouped(arrived, self.by), [series(START, start)])
        kept = open_until(start + self.size, clock, self.horizon)
        late = late_rows(arrived, kept)
        changed = self._cells.update(state, keep(rows, kept), clock.epoch, self._wanted(clock))
        values, new = list(self.aggregates.schema), changed.new
        if not self.update:
            due = self._cells.scan(state, *self._closing(clock))
            new = stack([pick(new, due.columns), due.sort(START, *keys(self.by)) if due.height > 1 else due])
        self._cells.release(state, clock.end - self.horizon - self.size + 1)
        changes = changes_of(*(bounded(frame, self.by, values, self.size) for frame in (changed.old, new)))
        corrected = int(corrects(start + self.size, clock, self.horizon).sum())
        return accounted(changes, arrived, late, clock, self.aside, corrected)

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        return {} if self.update else {CELLS: self._closing(clock)}

    def _closing(self, clock: EpochClock) -> Buckets:
        """Windows that the watermark passes. Without a horizon, what has closed is gone; with one, it was issued then."""
        lo = clock.start - self.size + 1 if self.horizon else MIN_TIME
        return lo, clock.end - self.size + 1

    def _wanted(self, clock: EpochClock) -> Wanted | None:
        """Windows that are shown already: all that have closed, or all there are."""
        if not (self.update or self.horizon):
            return None
        closed = MAX_TIME if self.update else clock.start - self.size
        return lambda cells: numbers(cells.get_column(START)) <= closed
