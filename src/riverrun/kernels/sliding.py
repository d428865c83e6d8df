"""Sliding windows: the window (t - size, t] of a key, one result per distinct event time t of the key.

A window is final when the watermark has passed t: its end belongs to it. A row belongs to the windows of all times in
[t, t + size), so it is late when all of those are closed; one that is late for its own window only still counts in
the later ones, and has no result of its own. With columns to `keep`, rows of one time that differ in them have a result
each, over the same window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.aggregates import Aggregates
from riverrun.kernels.difference import difference
from riverrun.kernels.kernel import Buckets, EpochClock, Step
from riverrun.kernels.lateness import accounted, in_time, open_until
from riverrun.kernels.ranges import Numbers, over_ranges, trailing
from riverrun.kernels.retained import ORDER, as_they_came, cancelled, numbered, retained
from riverrun.kernels.weights import signed
from riverrun.kernels.windows import START, bounded, extent, keys
from riverrun.state.equality import equijoin
from riverrun.state.frames import beside, keep, numbers, series
from riverrun.state.table import State, StateTable, TableSpec


@dataclass(frozen=True)
class SlidingKernel:
    """Aggregates over the last `size` of each key. `schema` has the columns `by` and those that are aggregated.

    `horizon` keeps closed windows that much longer, open to correction; `aside` hands late rows on; `update` shows
    windows that are still open. `keep` has columns of the row that a window ends with.
    """

    by: tuple[str, ...]
    size: int
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]
    horizon: int = 0
    aside: bool = False
    update: bool = False
    keep: tuple[str, ...] = ()

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        rows = retained(self.by, self.schema, {"_anchor": pl.Boolean()})
        if not self._reissues:
            return {"rows": rows}
        columns = {**{name: rows.schema[name] for name in self._moment}, **self.aggregates.schema}
        identity = (TIME, *self.keep)
        return {
            "rows": rows,
            "results": TableSpec(columns, identity=identity, probe=self._key, bucket=TIME, route=self.by),
        }

    @property
    def _key(self) -> tuple[str, ...]:
        return keys(self.by)

    @property
    def _moment(self) -> tuple[str, ...]:
        """What there is one result for."""
        return (*self._key, TIME, *self.keep)

    @property
    def _reissues(self) -> bool:
        return self.update or self.horizon > 0

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        return {"rows": (clock.start, clock.end)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        rows = state["rows"]
        arrived = numbered(inputs["in"], self.by, clock)
        added, retractions = signed(arrived)
        limit = clock.start - self.horizon
        time = numbers(added.get_column(TIME))
        kept = open_until(time + self.size, clock, self.horizon)
        late = keep(added, ~kept)
        accepted = keep(beside(added, [series("_anchor", in_time(time, clock, self.horizon))]), kept)
        gone = self._take_away(rows, retractions)
        rows.put(accepted)

        moments = list(self._moment)
        due = rows.scan(*self.due(clock)["rows"]).filter("_anchor").select(moments)
        if self._reissues:
            touched = pl.concat([accepted.select(moments), gone.select(moments)])
            old, again = self._affected(state, touched, limit, None if self.update else clock.end)
            due = again if self.update else pl.concat([due, again])
            results = self._results(rows, due.unique(maintain_order=True))
            state["results"].remove(old)
            state["results"].put(results)
            state["results"].release(clock.end - self.horizon)
            changes = self._difference(old, results)
        else:
            results = self._results(rows, due.unique(maintain_order=True))
            changes = self._difference(results.clear(), results)
        rows.release(clock.end - self.horizon - self.size + 1)
        corrected = int((kept & ~in_time(time, clock)).sum()) if self.horizon else 0
        return accounted(changes, inputs["in"], as_they_came(inputs["in"], late, clock), clock, self.aside, corrected)

    def _take_away(self, rows: StateTable, retractions: pl.DataFrame) -> pl.DataFrame:
        """Removes the rows that were retracted, and gives them."""
        if retractions.is_empty():
            return self.tables["rows"].none
        lo, hi = extent(retractions[TIME])
        held = rows.probe_range(retractions.select(self._key).unique(maintain_order=True), lo, hi)[0]
        gone = cancelled(held, retractions, list(self.schema))
        rows.remove(gone)
        return gone

    def _affected(
        self, state: State, touched: pl.DataFrame, limit: int, before: int | None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Results issued for windows that have a touched row, and the times of such windows, open to correction."""
        lo, hi = extent(touched[TIME])
        numbers = touched.select(self._key).unique(maintain_order=True).with_row_index("_number")
        issued = state["results"].probe_range(numbers.select(self._key), lo, hi + self.size)[0]
        behind = hi + self.size if before is None else min(hi + self.size, before)
        moments = (
            state["rows"]
            .probe_range(numbers.select(self._key), max(lo, limit), behind)[0]
            .filter("_anchor")
            .select(self._moment)
            .unique(maintain_order=True)
        )
        return self._within_reach(issued, touched, numbers), self._within_reach(moments, touched, numbers)

    def _within_reach(self, moments: pl.DataFrame, touched: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
        """Those moments whose window has a touched row."""
        lo, hi = self._ranges(_ranked(touched, numbers, [TIME]), moments, numbers)
        return moments.filter(series("", lo < hi))

    def _results(self, rows: StateTable, moments: pl.DataFrame) -> pl.DataFrame:
        """The aggregates of the windows that end at these moments of their keys."""
        if moments.is_empty():
            return moments.hstack(pl.DataFrame(schema=dict(self.aggregates.schema)).get_columns())
        numbers = moments.select(self._key).unique(maintain_order=True).with_row_index("_number")
        lo, hi = extent(moments[TIME])
        found = _ranked(rows.probe_range(numbers.select(self._key), lo - self.size + 1, hi)[0], numbers, ORDER)
        start, behind = self._ranges(found, moments, numbers)
        return moments.hstack(over_ranges(replace(self.aggregates, retracts=False), found, start, behind).get_columns())

    def _ranges(self, rows: pl.DataFrame, moments: pl.DataFrame, numbers: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """For each moment, the range of `rows` (ranked) that its window has."""
        at = equijoin(moments, numbers, self._key, "left", maintain_order="left")
        key, time = (rows[name].to_numpy().astype(np.int64) for name in ("_number", TIME))
        at_key, at_time = (at[name].to_numpy().astype(np.int64) for name in ("_number", TIME))
        return trailing(key, time, at_key, at_time, self.size)

    def _difference(self, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        return difference(self._visible(old), self._visible(new), [*self.by, TIME, *self.keep])

    def _visible(self, results: pl.DataFrame) -> pl.DataFrame:
        starting = results.with_columns((pl.col(TIME) - self.size).alias(START))
        return bounded(starting, [*self.by, *self.keep], list(self.aggregates.schema), self.size)


def _ranked(rows: pl.DataFrame, numbers: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """Rows with the number of their key, sorted by it and by `order`."""
    key = [name for name in numbers.columns if name != "_number"]
    return equijoin(rows, numbers, key).sort("_number", *order)
