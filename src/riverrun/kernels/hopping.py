"""Windows of one size that start at every multiple of `every`, and overlap: `[start, start + size)`.

Rows are aggregated once, in panes as long as the greatest common divisor of size and `every`; a window is put together
from its panes when its result is needed. A row is late when all its windows had closed, and the correction horizon had
passed, before the epoch began; one that is late for some windows only is accepted by the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.kernels.aggregates.aggregates import Aggregates
from riverrun.kernels.aggregates.tallies import Place
from riverrun.kernels.cells import CELLS, Cells
from riverrun.kernels.kernel import TIME, WEIGHT, Clock, Step
from riverrun.kernels.windows import ALL, START, accounted, bounded, keyed, keys, weighted
from riverrun.state.table import State, TableSpec

_PANE = "_pane"
_RESULTS = "results"


@dataclass(frozen=True)
class Hopping:
    """Results per key and window. `schema` has the columns `by` and those that are aggregated.

    `horizon` keeps closed windows that much longer, open to correction; `aside` hands late rows on; `update` shows
    windows that are still open.
    """

    by: tuple[str, ...]
    size: int
    every: int
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]
    offset: int = 0
    horizon: int = 0
    aside: bool = False
    update: bool = False

    @cached_property
    def _cells(self) -> Cells:
        place = Place(keys(self.by), {**self.schema, ALL: pl.Int8(), _PANE: pl.Int64()}, _PANE)
        return Cells(place, self.aggregates, gathered=True, panes=True)

    @property
    def _pane(self) -> int:
        return math.gcd(self.size, self.every)

    @property
    def _reissues(self) -> bool:
        return self.update or self.horizon > 0

    @property
    def _window(self) -> list[str]:
        return [*keys(self.by), START]

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        if not self._reissues:
            return self._cells.tables
        kinds = {**self.schema, ALL: pl.Int8(), START: pl.Int64()}
        issued = Place(keys(self.by), kinds, START).table(self.aggregates.schema, (), ())
        return {**self._cells.tables, _RESULTS: issued}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        arrived = inputs["in"]
        since = pl.col(TIME) - self.offset
        last = since.floordiv(self.every) * self.every + self.offset
        pane = since.floordiv(self._pane) * self._pane + self.offset
        rows = keyed(arrived, self.by).with_columns(last.alias(START), pane.alias(_PANE))
        # first start of a window that is still kept, at the epoch's start
        kept = clock.start - self.horizon - self.size + 1
        covered = rows[TIME] < rows[START] + self.size
        gone = covered & (rows[START] < kept)
        late = arrived.filter(gone & (arrived[WEIGHT] > 0))
        rows = rows.filter(covered & ~gone)

        self._cells.update(state, rows, clock.epoch, None)
        old, new = self._changed(state, rows, clock) if self._reissues else self._closing(state, clock)
        self._cells.release(state, self._first_pane(clock.end - self.horizon - self.size + 1))
        values = list(self.aggregates.schema)
        leaving = [bounded(frame, self.by, values, self.size) for frame in (old, new)]
        changes = pl.concat([weighted(leaving[0], -1), weighted(leaving[1], 1)])
        return accounted(changes, arrived, late, clock, self.aside)

    def _first_pane(self, start: int) -> int:
        """The first pane of the first window that starts at or after `start`."""
        return -(-(start - self.offset) // self.every) * self.every + self.offset

    def _closing(self, state: State, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Nothing to retract, and the results of the windows that close in this epoch."""
        first, behind = clock.start - self.size + 1, clock.end - self.size + 1
        panes = state[CELLS].scan(self._first_pane(first), clock.end)
        new = self._results(state, self._spread(panes, first, behind), clock)
        return new.clear(), new.sort(self._window)

    def _changed(self, state: State, rows: pl.DataFrame, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Results to retract and to issue: of windows that rows came to, and of those that close."""
        first = clock.start - self.horizon - self.size + 1
        behind = None if self.update else clock.end - self.size + 1
        touched = self._spread(rows.select(*keys(self.by), _PANE).unique(maintain_order=True), first, behind)
        windows = touched.select(self._window).unique(maintain_order=True)
        return windows, windows

    def _spread(self, panes: pl.DataFrame, first: int, behind: int | None) -> pl.DataFrame:
        """Each pane with the start of each of its windows that lies in [first, behind)."""
        return panes

    def _results(self, state: State, panes: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        return panes
