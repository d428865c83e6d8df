"""Cells in state: what is aggregated per group, per window of a key, or per pane, updated by the rows of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.kernels.aggregates.aggregates import LATEST, Aggregates
from riverrun.kernels.aggregates.parts import combine
from riverrun.kernels.aggregates.scalars import ROWS
from riverrun.kernels.aggregates.tallies import CELL, CellAddress, Distinct, Extremes, Inventory
from riverrun.state.equality import equal_rows
from riverrun.state.frames import Mask, beside, filled, frame_of, keep, numbers, pick, series, stack, take, true
from riverrun.state.keys import KeyGroups, group_rows
from riverrun.state.order import Indexes
from riverrun.state.table import FOUND, State, TableSpec

CELLS = "cells"

_ENDS = ("min", "max", "first", "last")

Stock = dict[Inventory, pl.DataFrame]
Wanted = Callable[[pl.DataFrame], Mask]


@dataclass(frozen=True)
class Changed:
    """Results that are no longer right, and those that are now: address, result columns, `_latest` where timed.

    A cell is in both when its result changed, in one when it appeared or lost its last row, else in none.
    """

    old: pl.DataFrame
    new: pl.DataFrame


@dataclass(frozen=True)
class Cells:
    """`panes`: cells are parts of windows, so that only their multisets, not their results, can be put together.

    `gathered`: results are asked for seldom, at the end of a window, not in every epoch.
    """

    place: CellAddress
    aggregates: Aggregates
    gathered: bool = False
    panes: bool = False

    @cached_property
    def _tallies(self) -> list[Distinct | Extremes]:
        if self.panes:
            return []
        kinds: dict[str, type[Distinct | Extremes]] = {"distinct": Distinct, **dict.fromkeys(_ENDS, Extremes)}
        return [kinds[items.agg.fn](items) for items in self.aggregates.items if items.agg.fn in kinds]

    @cached_property
    def inventories(self) -> list[Inventory]:
        tallied = [tally.items for tally in self._tallies]
        return [Inventory(items, self.gathered) for items in self.aggregates.items if items not in tallied]

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        parts = {name: kind for part in self.aggregates.parts for name, kind in part.columns.items()}
        tallied = {name: kind for tally in self._tallies for name, kind in tally.columns.items()}
        found = {CELLS: self.place.table({**parts, **tallied}, (), ())}
        for kept in (*self._tallies, *self.inventories):
            found.update(kept.tables(self.place))
        return found

    def update(self, state: State, rows: pl.DataFrame, epoch: int, wanted: Wanted | None) -> Changed:
        """Take in rows. `wanted` says of which cells, by their address, results are compared; None: of none."""
        if not rows.height:
            return self._unchanged
        bucket = self.place.bucket
        groups = group_rows(rows, self.place.by, bucket=numbers(rows.get_column(bucket)) if bucket else None)
        cells = take(pick(rows, self.place.address), groups.first)
        old = state[CELLS].lookup(cells, groups.hashes)
        new = self.aggregates.of_groups(rows, groups)
        if true(old.get_column(FOUND)).any():
            new = combine(old, new, self.aggregates.parts)
        shown = np.empty(0, np.int64) if wanted is None else groups.as_they_came(wanted(cells))
        before: Stock = {}
        after: Stock = {}
        if self.aggregates.items:
            coded = beside(rows, [series(CELL, groups.numbers.astype(np.uint32))])
            for tally in self._tallies:
                items = tally.items.of(coded, [CELL])
                new = new.hstack(tally.update(state, items, cells, old, self.place))
            for inventory in self.inventories:
                items = inventory.items.of(coded, [CELL])
                held = inventory.read(state, cells, series("", shown) if self.gathered else None, self.place)
                inventory.write(state, items, held, cells, self.place, epoch)
                before[inventory] = held
                after[inventory] = inventory.items.summed(stack([held, pick(items, held.columns)]), [CELL])
        if not len(shown):
            changed = self._unchanged
        else:
            changed, same = self._compared(cells, shown, old, before, new, after)
            if self.aggregates.timed:
                # a result keeps the time it was issued with, so that it is retracted with that
                latest = numbers(new.get_column(LATEST)).copy()
                latest[same] = numbers(old.get_column(LATEST))[same]
                new = beside(new, [series(LATEST, latest)])
        self._store(state, frame_of([*cells, *new]), true(old.get_column(FOUND)), groups)
        return changed

    def _compared(
        self, cells: pl.DataFrame, shown: Indexes, old: pl.DataFrame, before: Stock, new: pl.DataFrame, after: Stock
    ) -> tuple[Changed, Indexes]:
        """Of the cells at the places `shown`, what differs, and the places of those whose results are as they were."""
        had, has = (filled(frame.get_column(ROWS), 0)[shown] > 0 for frame in (old, new))
        earlier, later = self._results(cells, old, shown[had], before), self._results(cells, new, shown[has], after)
        both = had & has
        same = equal_rows(keep(earlier, both[had]), keep(later, both[has]), self.aggregates.schema)
        as_it_was = np.zeros(len(shown), np.bool_)
        as_it_was[both] = same
        return Changed(keep(earlier, ~as_it_was[had]), keep(later, ~as_it_was[has])), shown[as_it_was]

    def _store(self, state: State, rows: pl.DataFrame, found: Mask, groups: KeyGroups) -> None:
        alive, hashes = numbers(rows.get_column(ROWS)) != 0, groups.hashes
        if alive.all():
            state[CELLS].put(rows, hashes)
        else:
            assert hashes is not None
            gone = ~alive & found
            state[CELLS].put(keep(rows, alive), hashes[alive])
            state[CELLS].remove(keep(rows, gone), hashes[gone])

    def _results(self, cells: pl.DataFrame, kept: pl.DataFrame, places: Indexes, stock: Stock) -> pl.DataFrame:
        """The results of the cells at these places, all of which have rows."""
        numbered = series(CELL, places.astype(np.uint32)).to_frame()
        items = {i.items.agg.name: self.aggregates.item_results(i.items, held, numbered) for i, held in stock.items()}
        return self._finished(take(cells, places), take(kept, places), items)

    def scan(self, state: State, lo: int | None, hi: int | None) -> pl.DataFrame:
        """The results of all cells with buckets in [lo, hi) that have rows."""
        kept = state[CELLS].scan(lo, hi)
        if not kept.height:
            return self._unchanged.new
        kept = keep(kept, numbers(kept.get_column(ROWS)) > 0)
        cells = pick(kept, self.place.address)
        stock = {}
        for inventory in self.inventories:
            held = inventory.items.summed(state[inventory.table].scan(lo, hi), self.place.address)
            stock[inventory.items.agg.name] = self.aggregates.item_results(inventory.items, held, cells)
        return self._finished(cells, kept, stock)

    def _finished(self, cells: pl.DataFrame, kept: pl.DataFrame, items: Mapping[str, pl.Series]) -> pl.DataFrame:
        tallied = {tally.items.agg.name: tally.result(kept) for tally in self._tallies}
        results = self.aggregates.results(kept, {**items, **tallied})
        extra = [kept.get_column(LATEST)] if self.aggregates.timed else []
        return frame_of([*cells, *results, *extra])

    @cached_property
    def _unchanged(self) -> Changed:
        kinds = {name: self.place.kinds[name] for name in self.place.address} | dict(self.aggregates.schema)
        none = pl.DataFrame(schema={**kinds, **({LATEST: pl.Int64()} if self.aggregates.timed else {})})
        return Changed(none, none)

    def release(self, state: State, below: int) -> None:
        """Forget every cell with a bucket < `below`."""
        for table in self.tables:
            state[table].release(below)
