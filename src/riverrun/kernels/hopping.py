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

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.aggregates.aggregates import Aggregates
from riverrun.kernels.aggregates.parts import reduce
from riverrun.kernels.aggregates.scalars import ROWS
from riverrun.kernels.aggregates.tallies import CellAddress
from riverrun.kernels.cells import CELLS, Cells
from riverrun.kernels.kernel import MAX_TIME, Buckets, EpochClock, Step
from riverrun.kernels.lateness import accounted, corrects, late_rows, open_until
from riverrun.kernels.weights import changes_of
from riverrun.kernels.windows import ALL, START, bounded, extent, grouped, keys
from riverrun.state.equality import equal_rows, equijoin
from riverrun.state.frames import beside, keep, numbers, pick, series, take
from riverrun.state.order import Indexes
from riverrun.state.table import FOUND, State, TableSpec

_PANE = "_pane"
_RESULTS = "results"
_SHOWN = "_shown"


@dataclass(frozen=True)
class HoppingKernel:
    """Results per key and window. `schema` has the columns `by` and those that are aggregated.

    `horizon` keeps closed windows that much longer, open to correction; `aside` hands late rows on; `update` shows
    windows that are still open.
    """

    by: tuple[str, ...]
    size: int
    every: int
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]
    horizon: int = 0
    aside: bool = False
    update: bool = False

    @cached_property
    def _cells(self) -> Cells:
        place = CellAddress(keys(self.by), {**self.schema, ALL: pl.Int8(), _PANE: pl.Int64()}, _PANE)
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
        issued = CellAddress(keys(self.by), kinds, START).table(self.aggregates.schema, (), ())
        return {**self._cells.tables, _RESULTS: issued}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        time = numbers(arrived.get_column(TIME))
        last = time // self.every * self.every
        marks = [series(START, last), series(_PANE, time // self._pane * self._pane)]
        kept = open_until(last + self.size, clock, self.horizon)
        covered = time < last + self.size
        late = late_rows(arrived, kept | ~covered)
        rows = keep(beside(grouped(arrived, self.by), marks), covered & kept)
        self._cells.update(state, rows, clock.epoch, None)
        new = self._due(state, clock)
        old = new.clear()
        if self._reissues:
            old, again = self._reissued(state, rows, clock)
            state[_RESULTS].put(pl.concat([again, new]))
            state[_RESULTS].release(clock.end - self.horizon - self.size + 1)
            new = pl.concat([again, new])
        self._cells.release(state, self._aligned(clock.end - self.horizon - self.size + 1))
        values = list(self.aggregates.schema)
        leaving = [bounded(frame, self.by, values, self.size) for frame in (old, new)]
        changes = changes_of(*leaving)
        return accounted(changes, arrived, late, clock, self.aside, self._count_corrected(time[covered], clock))

    def _count_corrected(self, time: Indexes, clock: EpochClock) -> int:
        """How many rows are in a window that had closed: of the windows of a row, the last one that had decides."""
        last = time // self.every * self.every + self.size
        closed = last - np.maximum(-((clock.start - last) // self.every), 0) * self.every
        return int((corrects(closed, clock, self.horizon) & (closed > time)).sum())

    def _aligned(self, start: int) -> int:
        """The first start of a window at or after `start`."""
        return -(-start // self.every) * self.every

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        """The panes of windows that close; none where every change is shown at once."""
        tables = () if self.update else self._cells.tables
        return dict.fromkeys(tables, (self._aligned(clock.start - self.size + 1), clock.end))

    def _due(self, state: State, clock: EpochClock) -> pl.DataFrame:
        """The results of the windows that close in this epoch; none where every change is shown at once."""
        first, behind = clock.start - self.size + 1, clock.end - self.size + 1
        if self.update or behind <= first:
            return self._none
        panes = {
            name: self._spread(state[name].scan(*buckets), first, behind) for name, buckets in self.due(clock).items()
        }
        results = self._results(panes)
        return results.sort(self._window) if results.height > 1 else results

    @cached_property
    def _none(self) -> pl.DataFrame:
        """No results."""
        kinds = {**self.schema, ALL: pl.Int8(), START: pl.Int64()}
        return pl.DataFrame(schema={**{name: kinds[name] for name in self._window}, **self.aggregates.schema})

    def _reissued(self, state: State, rows: pl.DataFrame, clock: EpochClock) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The results to retract and to issue because rows came to windows that are shown already."""
        first = clock.start - self.horizon - self.size + 1
        behind = MAX_TIME if self.update else clock.start - self.size + 1
        key = list(keys(self.by))
        touched = rows.select(*key, _PANE).unique(maintain_order=True)
        windows = self._spread(touched, first, behind).select(self._window).unique(maintain_order=True)
        if windows.is_empty():
            return self._none, self._none
        lo, hi = extent(windows[START])
        asked = windows.select(key).unique(maintain_order=True)
        panes = {}
        for name in self._cells.tables:
            found = self._spread(state[name].probe_range(asked, lo, hi + self.size - 1)[0], first, behind)
            panes[name] = equijoin(found, windows, self._window, "semi")
        before = windows.hstack(state[_RESULTS].lookup(windows).get_columns())
        shown = self._results(panes).with_columns(pl.lit(True).alias(_SHOWN))
        after = equijoin(windows, shown, self._window, "left", maintain_order="left")
        after = after.with_columns(pl.col(_SHOWN).fill_null(False))
        same = before[FOUND] & after[_SHOWN] & series("", equal_rows(before, after, list(self.aggregates.schema)))
        state[_RESULTS].remove(before.filter(before[FOUND] & ~after[_SHOWN]))
        return before.filter(before[FOUND] & ~same).drop(FOUND), after.filter(after[_SHOWN] & ~same).drop(_SHOWN)

    def _spread(self, panes: pl.DataFrame, first: int, behind: int) -> pl.DataFrame:
        """Each pane once for every window it is part of that starts in [first, behind)."""
        pane = panes[_PANE].to_numpy()
        lowest = -(-np.maximum(pane - self.size + 1, first) // self.every)
        highest = np.minimum(pane, behind - 1) // self.every
        counts = np.maximum(highest - lowest + 1, 0)
        each = np.repeat(np.arange(len(pane)), counts)
        nth = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = (np.repeat(lowest, counts) + nth) * self.every
        return beside(take(panes, each), [series(START, starts)])

    def _results(self, panes: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """The results of windows that have rows, from the tables of their panes."""
        windows = reduce(panes[CELLS], self._window, self.aggregates.parts)
        windows = keep(windows, numbers(windows.get_column(ROWS)) > 0)
        keyed_by = pick(windows, self._window)
        items = {}
        for inventory in self._cells.inventories:
            held = inventory.items.summed(panes[inventory.table], self._window)
            items[inventory.items.agg.name] = self.aggregates.item_results(inventory.items, held, keyed_by)
        return keyed_by.hstack(self.aggregates.results(windows, items).get_columns())
