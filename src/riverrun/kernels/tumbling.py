"""Windows of one size, one after the other: `[start, start + size)`.

A window closes when the watermark reaches its end. A row is late when its window had closed, and the correction horizon
had passed, before the epoch began; retractions are never late. A cell of state is a window of a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import TIME, WEIGHT
from riverrun.kernels.aggregates.aggregates import Aggregates
from riverrun.kernels.aggregates.tallies import CellAddress
from riverrun.kernels.cells import Cells
from riverrun.kernels.kernel import EpochClock, Step
from riverrun.kernels.windows import ALL, START, accounted, bounded, grouped, keys, weighted
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
        start = (pl.col(TIME) - self.offset).floordiv(self.size) * self.size + self.offset
        rows = grouped(arrived, self.by).with_columns(start.alias(START))
        # first start of a window that is still kept, at the epoch's start
        kept = clock.start - self.horizon - self.size + 1
        gone = rows[START] < kept
        late = arrived.filter(gone & (arrived[WEIGHT] > 0))
        if gone.any():
            rows = rows.filter(~gone)

        closed = pl.col(START) <= clock.start - self.size
        wanted = pl.lit(True) if self.update else closed if self.horizon else None
        changed = self._cells.update(state, rows, clock.epoch, wanted)
        values, new = list(self.aggregates.schema), changed.new
        if not self.update:
            # without a horizon, what has closed is gone; with one, closed windows were issued when they closed
            lo = clock.start - self.size + 1 if self.horizon else None
            due = self._cells.scan(state, lo, clock.end - self.size + 1)
            new = pl.concat([new.select(due.columns), due.sort(START, *keys(self.by))])
        self._cells.release(state, clock.end - self.horizon - self.size + 1)
        leaving = [bounded(frame, self.by, values, self.size) for frame in (changed.old, new)]
        changes = pl.concat([weighted(leaving[0], -1), weighted(leaving[1], 1)])
        return accounted(changes, arrived, late, clock, self.aside)
