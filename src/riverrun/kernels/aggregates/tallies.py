"""Multisets in state. An epoch touches the values that changed, and reads all values of a cell only where it must.

`Distinct` and `Extremes` keep their answer in the cell's own row and find each value by itself: how many different
values there are changes when one appears or vanishes; the smallest changes when a smaller one appears, and has to be
looked for among all of the cell only when it vanishes itself.
`Inventory` is for aggregates that depend on all values at once: quantile, collect, top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from riverrun.kernels.aggregates.items import TIMES, Items
from riverrun.kernels.windows import ALL
from riverrun.state.equality import equijoin
from riverrun.state.table import State, TableSpec

CELL = "_cell"
"""The place of a cell in the frame of an epoch's touched cells."""

_EPOCH = "_epoch"
_BEFORE = "_before"


@dataclass(frozen=True)
class CellAddress:
    """Where cells are: the columns they are found by, their types, and the bucket if they have one."""

    by: tuple[str, ...]
    kinds: Mapping[str, pl.DataType]
    bucket: str | None

    @property
    def address(self) -> list[str]:
        return [*self.by, *([self.bucket] if self.bucket else [])]

    def table(self, more: Mapping[str, pl.DataType], identity: Sequence[str], probe: Sequence[str]) -> TableSpec:
        columns = {name: self.kinds[name] for name in self.address}
        route = () if self.by == (ALL,) else self.by
        return TableSpec({**columns, **more}, tuple(identity), (*self.by, *probe), self.bucket, route)

    def addressed(self, items: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
        """Items with the address of their cell instead of its place."""
        return items.drop(CELL).hstack(cells.select(self.address)[items[CELL]].get_columns())


def _weighed(state: State, table: str, items: pl.DataFrame, cells: pl.DataFrame, place: CellAddress) -> pl.DataFrame:
    """Add the weights of `items` to what is stored, value by value; returns them with the weight before."""
    values = place.addressed(items, cells)
    found = state[table].lookup(values)
    before = found[TIMES].fill_null(0)
    values = values.with_columns(before + values[TIMES])
    state[table].put(values.filter(pl.col(TIMES) != 0))
    gone = values.filter((pl.col(TIMES) == 0) & found["_found"])
    if not gone.is_empty():
        state[table].remove(gone)
    return items.with_columns(values[TIMES], before.alias(_BEFORE))


@dataclass(frozen=True)
class Distinct:
    """How many different values, counted as they appear and vanish."""

    items: Items

    @property
    def column(self) -> str:
        return f"{self.items.agg.name}#d"

    @property
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
            step = (pl.col(TIMES) > 0).cast(pl.Int64) - (pl.col(_BEFORE) > 0).cast(pl.Int64)
        else:
            values = place.addressed(items, cells)
            fresh = ~state[table].lookup(values)["_found"]
            state[table].put(values.filter(fresh))
            each, step = items.filter(fresh), pl.lit(1, pl.Int64)
        changes = each.group_by(CELL).agg(step.sum().alias("_by") if self.items.retracts else pl.len().alias("_by"))
        added = _spread(changes, cells.height).get_column("_by").cast(pl.Int64).fill_null(0)
        return [(old[self.column].fill_null(0) + added).alias(self.column)]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[self.column].alias(self.items.agg.name)


@dataclass(frozen=True)
class Extremes:
    """min, max, first and last of rows that can be taken back."""

    items: Items

    @property
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
        appeared = each.filter((pl.col(TIMES) > 0) & (pl.col(_BEFORE) <= 0)).select(CELL, *item)
        vanished = each.filter((pl.col(TIMES) <= 0) & (pl.col(_BEFORE) > 0)).select(CELL, *item)
        members = state[f"{name}.members"]
        members.put(place.addressed(appeared, cells))
        members.remove(place.addressed(vanished, cells))
        current = old.select(pl.col(f"{name}#{column}").alias(column) for column in item)
        current = current.with_row_index(CELL).filter(pl.col(item[0]).is_not_null())
        on = [CELL, *item]
        lost = equijoin(current, vanished, on, "semi").select(CELL)
        candidates = [current.join(lost, on=CELL, how="anti"), appeared]
        if not lost.is_empty():
            places = cells.select(place.address).with_row_index(CELL).join(lost, on=CELL, how="semi")
            rest = equijoin(members.probe(places), places, place.address, "left")
            candidates.append(rest.select(CELL, *item))
        best = self.items.ends(pl.concat(candidates), [CELL])
        spread = _spread(best, cells.height)
        return [spread[column].alias(f"{name}#{column}") for column in item]

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
        places = cells.select(place.address).with_row_index(CELL)
        if some is not None:
            places = places[some]
        found = equijoin(state[self.table].probe(places), places, place.address, "left")
        return self.items.summed(found.select(CELL, *self.items.columns, TIMES), [CELL])

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
            state[self.table].put(place.addressed(items, cells).with_columns(pl.lit(epoch, pl.Int64).alias(_EPOCH)))
            return
        on = [CELL, *self.items.columns]
        known = before.rename({TIMES: _BEFORE})
        each = equijoin(items, known, on, "left", maintain_order="left")
        total = pl.col(TIMES) + pl.col(_BEFORE).fill_null(0)
        each = each.select(*on, total.alias(TIMES), pl.lit(0, pl.Int64).alias(_EPOCH))
        state[self.table].put(place.addressed(each.filter(pl.col(TIMES) != 0), cells))
        state[self.table].remove(place.addressed(each.filter(pl.col(TIMES) == 0), cells))


def _spread(by_cell: pl.DataFrame, cells: int) -> pl.DataFrame:
    """A row for every cell, null where `by_cell` has none."""
    every = pl.DataFrame({CELL: pl.int_range(cells, dtype=pl.UInt32, eager=True)})
    return every.join(by_cell, on=CELL, how="left", maintain_order="left")
