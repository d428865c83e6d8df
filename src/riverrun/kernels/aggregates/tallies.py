"""Multisets in state. An epoch touches the values that changed, and reads all values of a cell only where it must.

`Distinct` and `Extremes` keep their answer in the cell's own row and find each value by itself: how many different
values there are changes when one appears or vanishes; the smallest changes when a smaller one appears, and has to be
looked for among all of the cell only when it vanishes itself.
`Inventory` is for aggregates that depend on all values at once: quantile, collect, top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.kernels.aggregates.items import TIMES, Items
from riverrun.kernels.windows import ALL
from riverrun.state.equality import equijoin
from riverrun.state.frames import (
    beside,
    constant,
    filled,
    frame_of,
    keep,
    numbers,
    pick,
    present,
    series,
    stack,
    take,
    take_or_null,
    true,
)
from riverrun.state.keys import equal_to_any
from riverrun.state.table import FOUND, State, TableSpec

CELL = "_cell"
"""The place of a cell in the frame of an epoch's touched cells."""

_EPOCH = "_epoch"
_BEFORE = "_times_before"


@dataclass(frozen=True)
class CellAddress:
    """Where cells are: the columns they are found by, their types, and the bucket if they have one."""

    by: tuple[str, ...]
    kinds: Mapping[str, pl.DataType]
    bucket: str | None

    @cached_property
    def address(self) -> list[str]:
        return [*self.by, *([self.bucket] if self.bucket else [])]

    def table(self, more: Mapping[str, pl.DataType], identity: Sequence[str], probe: Sequence[str]) -> TableSpec:
        columns = {name: self.kinds[name] for name in self.address}
        route = () if self.by == (ALL,) else self.by
        return TableSpec({**columns, **more}, tuple(identity), (*self.by, *probe), self.bucket, route)

    def addressed(self, items: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
        """Items with the address of their cell instead of its place."""
        own = [column for column in items if column.name != CELL]
        return frame_of([*own, *take(pick(cells, self.address), numbers(items.get_column(CELL)))])


def _weighed(state: State, table: str, items: pl.DataFrame, cells: pl.DataFrame, place: CellAddress) -> pl.DataFrame:
    """Add the weights of `items` to what is stored, value by value; returns them with the weight before."""
    values = place.addressed(items, cells)
    held = state[table].lookup(values)
    before = filled(held.get_column(TIMES), 0)
    after = before + numbers(values.get_column(TIMES))
    values = beside(values, [series(TIMES, after)])
    state[table].put(keep(values, after != 0))
    state[table].remove(keep(values, (after == 0) & true(held.get_column(FOUND))))
    return beside(items, [series(TIMES, after), series(_BEFORE, before)])


@dataclass(frozen=True)
class Distinct:
    """How many different values, counted as they appear and vanish."""

    items: Items

    @property
    def column(self) -> str:
        return f"{self.items.agg.name}#d"

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        """What the cell's row keeps."""
        return {self.column: pl.Int64()}

    def tables(self, place: CellAddress) -> Mapping[str, TableSpec]:
        columns = {**self.items.columns, TIMES: pl.Int64()}
        return {f"{self.items.agg.name}.values": place.table(columns, (), list(self.items.columns))}

    def update(
        self, state: State, items: pl.DataFrame, cells: pl.DataFrame, old: pl.DataFrame, place: CellAddress
    ) -> list[pl.Series]:
        """Take in the items of touched cells; returns the new columns of these. `old` is aligned with `cells`."""
        table = f"{self.items.agg.name}.values"
        if self.items.retracts:
            each = _weighed(state, table, items, cells, place)
            steps = (numbers(each[TIMES]) > 0).astype(np.int64) - (numbers(each[_BEFORE]) > 0)
            added = np.bincount(numbers(each[CELL]), steps, cells.height).astype(np.int64)
        else:
            values = place.addressed(items, cells)
            fresh = ~true(state[table].lookup(values).get_column(FOUND))
            state[table].put(keep(values, fresh))
            added = np.bincount(numbers(items.get_column(CELL))[fresh], minlength=cells.height)
        return [series(self.column, filled(old.get_column(self.column), 0) + added)]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[self.column].alias(self.items.agg.name)


@dataclass(frozen=True)
class Extremes:
    """min, max, first and last of rows that can be taken back."""

    items: Items

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {f"{self.items.agg.name}#{column}": kind for column, kind in self.items.columns.items()}

    def tables(self, place: CellAddress) -> Mapping[str, TableSpec]:
        item, name = self.items.columns, self.items.agg.name
        return {
            f"{name}.values": place.table({**item, TIMES: pl.Int64()}, (), list(item)),
            f"{name}.members": place.table(item, list(item), ()),
        }

    def update(
        self, state: State, items: pl.DataFrame, cells: pl.DataFrame, old: pl.DataFrame, place: CellAddress
    ) -> list[pl.Series]:
        name, item = self.items.agg.name, list(self.items.columns)
        each = _weighed(state, f"{name}.values", items, cells, place)
        is_there, was_there = (numbers(each.get_column(name)) > 0 for name in (TIMES, _BEFORE))
        each = pick(each, [CELL, *item])
        appeared, vanished = keep(each, is_there & ~was_there), keep(each, was_there & ~is_there)
        members = state[f"{name}.members"]
        members.put(place.addressed(appeared, cells))
        members.remove(place.addressed(vanished, cells))
        numbered = series(CELL, np.arange(cells.height, dtype=np.uint32))
        current = frame_of([numbered, *(old.get_column(f"{name}#{column}").alias(column) for column in item)])
        there = present(current.get_column(item[0]))
        current = current if there is None else keep(current, there)
        candidates = [current, appeared]
        if vanished.height:
            lost = equal_to_any(current, vanished, [CELL, *item])
            candidates[0] = keep(current, ~lost)
            places = numbers(current.get_column(CELL))[lost]
            rest, at = members.probe(take(pick(cells, place.address), places))
            candidates.append(frame_of([series(CELL, places[at]), *pick(rest, item)]))
        best = self.items.ends(stack(candidates), [CELL])
        where = np.full(cells.height, -1)
        where[numbers(best.get_column(CELL))] = np.arange(best.height)
        spread = take_or_null(pick(best, item), where)
        return [spread.get_column(column).alias(f"{name}#{column}") for column in item]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[f"{self.items.agg.name}#_value"].alias(self.items.agg.name)


@dataclass(frozen=True)
class Inventory:
    """All values of a cell, read together.

    With `gathered`, each epoch adds rows of its own and reads nothing: the values are put together when the result is
    asked for, which is once in the life of a window. Otherwise there is one row per value.
    """

    items: Items
    gathered: bool

    @property
    def table(self) -> str:
        return f"{self.items.agg.name}.items"

    def tables(self, place: CellAddress) -> Mapping[str, TableSpec]:
        item = self.items.columns
        columns = {**item, _EPOCH: pl.Int64(), TIMES: pl.Int64()}
        return {self.table: place.table(columns, [*item, _EPOCH], ())}

    def read(self, state: State, cells: pl.DataFrame, some: pl.Series | None, place: CellAddress) -> pl.DataFrame:
        """The items of `cells`, or of those at the places `some`, by their place in the frame."""
        places = np.arange(cells.height) if some is None else numbers(some)
        held, at = state[self.table].probe(take(pick(cells, place.address), places))
        numbered = series(CELL, places[at].astype(np.uint32))
        return self.items.summed(frame_of([numbered, *pick(held, [*self.items.columns, TIMES])]), [CELL])

    def write(
        self,
        state: State,
        items: pl.DataFrame,
        before: pl.DataFrame,
        cells: pl.DataFrame,
        place: CellAddress,
        epoch: int,
    ) -> None:
        """Store the changes `items`; `before` is what `read` gave for all of `cells`, unless they are gathered."""
        if self.gathered:
            when = constant(_EPOCH, epoch, pl.Int64(), items.height)
            state[self.table].put(beside(place.addressed(items, cells), [when]))
            return
        on = [CELL, *self.items.columns]
        known = before.rename({TIMES: _BEFORE})
        each = equijoin(items, known, on, "left", maintain_order="left")
        total = numbers(each.get_column(TIMES)) + filled(each.get_column(_BEFORE), 0)
        columns = [series(TIMES, total), constant(_EPOCH, 0, pl.Int64(), each.height)]
        each = frame_of([*pick(each, on), *columns])
        state[self.table].put(place.addressed(keep(each, total != 0), cells))
        state[self.table].remove(place.addressed(keep(each, total == 0), cells))
