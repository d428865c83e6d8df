"""Cells in state: what is aggregated per group, per window of a key, or per pane, updated by the rows of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.kernels.aggregates.aggregates import LATEST, Aggregates
from riverrun.kernels.aggregates.parts import combine
from riverrun.kernels.aggregates.scalars import ROWS
from riverrun.kernels.aggregates.tallies import CELL, CellAddress, Distinct, Extremes, Inventory
from riverrun.state.equality import equal_rows, equijoin
from riverrun.state.table import FOUND, State, TableSpec

CELLS = "cells"

_ENDS = ("min", "max", "first", "last")

Stock = dict[Inventory, pl.DataFrame]
Indexes = npt.NDArray[np.int64]


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

    def update(self, state: State, rows: pl.DataFrame, epoch: int, wanted: pl.Expr | None) -> Changed:
        """Take in rows. `wanted` says of which cells, by their address, results are compared; None: of none."""
        partial = self.aggregates.partial(rows, self.place.address, ordered=wanted is not None)
        cells = partial.select(self.place.address)
        old = state[CELLS].lookup(cells)
        new = combine(old, partial, self.aggregates.parts) if old[FOUND].any() else partial.drop(self.place.address)
        shown = pl.Series(dtype=pl.UInt32)
        if wanted is not None:
            shown = cells.with_row_index(CELL).filter(wanted)[CELL]
        before: Stock = {}
        after: Stock = {}
        if self.aggregates.items:
            coded = equijoin(rows, cells.with_row_index(CELL), self.place.address, "left")
            for tally in self._tallies:
                items = tally.items.of(coded, [CELL])
                new = new.hstack(tally.update(state, items, cells, old, self.place))
            for inventory in self.inventories:
                items = inventory.items.of(coded, [CELL])
                held = inventory.read(state, cells, shown if self.gathered else None, self.place)
                inventory.write(state, items, held, cells, self.place, epoch)
                before[inventory] = held
                after[inventory] = inventory.items.summed(pl.concat([held, items.select(held.columns)]), [CELL])
        results = self._results(cells, old, shown, before), self._results(cells, new, shown, after)
        changed, same = self._compared(*results)
        if self.aggregates.timed:
            # a result keeps the time it was issued with, so that it is retracted with that
            issued = pl.Series(np.isin(np.arange(cells.height), same))
            latest = pl.when(issued).then(old[LATEST]).otherwise(pl.col(LATEST))
            new = new.with_columns(latest.alias(LATEST))
        self._store(state, cells.hstack(new.get_columns()), old[FOUND])
        return changed

    def _compared(self, before: pl.DataFrame, after: pl.DataFrame) -> tuple[Changed, Indexes]:
        """What differs, and the places of cells whose results are as they were. Places ascend in both frames."""
        places, at_before, at_after = np.intersect1d(
            before[CELL].to_numpy(), after[CELL].to_numpy(), assume_unique=True, return_indices=True
        )
        same = equal_rows(before[at_before], after[at_after], list(self.aggregates.schema))
        keep_before = np.ones(before.height, dtype=np.bool_)
        keep_after = np.ones(after.height, dtype=np.bool_)
        keep_before[at_before[same]] = False
        keep_after[at_after[same]] = False
        return Changed(before.filter(keep_before), after.filter(keep_after)), places[same]

    def _store(self, state: State, rows: pl.DataFrame, found: pl.Series) -> None:
        alive = rows[ROWS] != 0
        if alive.all():
            state[CELLS].put(rows)
        else:
            state[CELLS].put(rows.filter(alive))
            state[CELLS].remove(rows.filter(~alive & found))

    def _results(self, cells: pl.DataFrame, kept: pl.DataFrame, shown: pl.Series, stock: Stock) -> pl.DataFrame:
        """The results of the cells at the places `shown` that have rows."""
        if shown.len() < cells.height:
            cells, kept = cells[shown], kept[shown]
        full = kept[ROWS].fill_null(0) > 0
        if not full.all():
            cells, kept, shown = cells.filter(full), kept.filter(full), shown.filter(full)
        places = shown.alias(CELL).to_frame()
        items = {i.items.agg.name: self.aggregates.item_results(i.items, held, places) for i, held in stock.items()}
        return places.hstack(self._finished(cells, kept, items).get_columns())

    def scan(self, state: State, lo: int | None, hi: int | None) -> pl.DataFrame:
        """The results of all cells with buckets in [lo, hi) that have rows."""
        kept = state[CELLS].scan(lo, hi).filter(pl.col(ROWS) > 0)
        cells = kept.select(self.place.address)
        stock = {}
        for inventory in self.inventories:
            held = inventory.items.summed(state[inventory.table].scan(lo, hi), self.place.address)
            stock[inventory.items.agg.name] = self.aggregates.item_results(inventory.items, held, cells)
        return self._finished(cells, kept, stock)

    def _finished(self, cells: pl.DataFrame, kept: pl.DataFrame, items: Mapping[str, pl.Series]) -> pl.DataFrame:
        tallied = {tally.items.agg.name: tally.result(kept) for tally in self._tallies}
        results = self.aggregates.results(kept, {**items, **tallied})
        extra = [kept[LATEST]] if self.aggregates.timed else []
        return cells.hstack([*results.get_columns(), *extra])

    def release(self, state: State, below: int) -> None:
        """Forget every cell with a bucket < `below`."""
        for table in self.tables:
            state[table].release(below)
