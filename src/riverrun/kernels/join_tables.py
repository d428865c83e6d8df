"""`t.join(t2)`: the join of two tables as they are now, kept up with the changes of both.

After every epoch the sum of all changes equals SQL's join of the two current tables. An epoch looks at the rows that
changed and at their partners, and state holds the current rows of both sides. A row with a null in its join key has
no partner and is never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import SIDE, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.netting import uncancelled
from riverrun.kernels.sides import LEFT, RIGHT, Sides
from riverrun.kernels.table_side import Partners, TableSide, Version
from riverrun.kernels.weights import weighted
from riverrun.state.equality import equijoin
from riverrun.state.frames import frame_of, pick, stack
from riverrun.state.keys import first_of_each
from riverrun.state.table import State, TableSpec

_OTHER = "_right "
"""What the right side's columns begin with while both sides are in one frame."""


@dataclass(frozen=True)
class JoinTablesKernel:
    """Joins changes of "left" and "right", tables whose rows are named by `left_key` and `right_key`.

    A table without a key has one row at most. Both inputs carry whole rows: an update is the old row with weight -1 and
    the new one with weight 1. The result has the columns of `sides.outputs` and `_time`, the left row's or, of a right
    row without partner, its own. Outputs should have what both keys need to tell rows apart; `side` names one more
    column, which tells rows without partner of the left (1) and the right (2) apart, where nulls are in their keys; a row
    that has no null keeps its key (0) when it finds a partner or loses it.
    """

    sides: Sides
    how: str
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    side: str | None = None

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left", "full"):
            raise Invalid(f"a join of two tables is inner, left or full, not {self.how!r}")
        for on in (self.sides.left_on, self.sides.right_on):
            if len(set(on)) < len(on):
                raise Invalid(f"a join names a key column twice: {', '.join(on)}", hint="Add a copy with with_columns")

    @cached_property
    def _left(self) -> TableSide:
        sides = self.sides
        counted = self.how == "full" and not set(self.left_key) <= set(sides.left_on)
        return TableSide(LEFT, sides.left, sides.left_on, self.left_key or sides.left_on, counted)

    @cached_property
    def _right(self) -> TableSide:
        sides = self.sides
        counted = self.how != "inner" and not set(self.right_key) <= set(sides.right_on)
        return TableSide(RIGHT, sides.right, sides.right_on, self.right_key or sides.right_on, counted)

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {**self._left.tables, **self._right.tables}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        counts = {name: Counts(read=len(rows), accepted=len(rows)) for name, rows in inputs.items()}
        if all(rows.is_empty() for rows in inputs.values()):
            return Step(self._unchanged, counts)
        left, right = self._left, self._right
        left_versions, right_versions = left.moved(inputs[LEFT]), right.moved(inputs[RIGHT])
        left_partners = left.partners(state, *left_versions, self._keys(right_versions, RIGHT, left.on))
        right_partners = right.partners(state, *right_versions, self._keys(left_versions, LEFT, right.on))
        for side, (old, new) in ((left, left_versions), (right, right_versions)):
            side.store(state, old.moved, new.moved)
        gone, came = (
            self._joined(*moved, left_partners, right_partners)
            for moved in zip(left_versions, right_versions, strict=True)
        )
        return Step(self._changes(gone, came), counts)

    @cached_property
    def _unchanged(self) -> pl.DataFrame:
        return weighted(self._none.select(self._issued()), 1)

    def _keys(self, versions: tuple[Version, Version], side: str, names: tuple[str, ...]) -> pl.DataFrame:
        """The join keys that rows of one side have before and after, under the names of the other side."""
        on = self._left.on if side == LEFT else self._right.on
        moved = stack([pick(version.moved, on) for version in versions])
        return first_of_each(
            frame_of([moved[mine].alias(theirs) for mine, theirs in zip(on, names, strict=True)]), names
        )

    def _joined(self, left: Version, right: Version, held_left: Partners, held_right: Partners) -> pl.DataFrame:
        """The result's rows in which a row that moved takes part, as the tables are before or after the epoch.

        Columns of the right side are renamed; those of a side that has no row are null.
        """
        ours, theirs = self._left.on, tuple(_OTHER + name for name in self._right.on)
        moved, stayed = _renamed(right.moved), _renamed(held_right.stayed)
        all_right = pl.concat([stayed, moved])
        parts = [_pairs(left.moved, ours, all_right, theirs), _pairs(held_left.stayed, ours, moved, theirs)]
        if self.how in ("left", "full"):
            alone = _without(_without(held_left.stayed, ours, moved, theirs), ours, held_right.others, self._right.on)
            parts += [left.apart, _without(left.moved, ours, all_right, theirs), alone]
        if self.how == "full":
            all_left = pl.concat([held_left.stayed, left.moved])
            alone = _without(_without(stayed, theirs, left.moved, ours), theirs, held_left.others, ours)
            parts += [_renamed(right.apart), _without(moved, theirs, all_left, ours), alone]
        return pl.concat([self._none, *(part for part in parts if not part.is_empty())], how="diagonal")

    @cached_property
    def _none(self) -> pl.DataFrame:
        """No rows of both sides in one frame."""
        left, right = ({**side.schema, TIME: pl.Int64()} for side in (self._left, self._right))
        return pl.DataFrame(schema={**left, **{_OTHER + name: kind for name, kind in right.items()}})

    def _changes(self, gone: pl.DataFrame, came: pl.DataFrame) -> pl.DataFrame:
        """Result rows as they leave, those that are the same before and after left out."""
        key = [*self._left.key, *(_OTHER + name for name in self._right.key)]
        issued = self._issued()
        rows = [
            weighted(part.sort(key, maintain_order=True).select(issued), weight)
            for part, weight in ((gone, -1), (came, 1))
        ]
        changes = pl.concat(rows)
        return uncancelled(changes, [name for name in changes.columns if name != WEIGHT])

    def _issued(self) -> list[pl.Expr]:
        theirs = dict(zip(self.sides.left_on, self.sides.right_on, strict=True))
        issued = []
        for part in self.sides.outputs:
            column = pl.col(_OTHER + part.column if part.side == RIGHT else part.column)
            if part.side == "key" and self.how == "full":
                column = pl.coalesce(part.column, _OTHER + theirs[part.column])
            if part.name.startswith(
                SIDE
            ):  # of a full join before this one; a row that is not there has no nulls either
                column = column.fill_null(0)
            issued.append(column.alias(part.name))
        time = pl.coalesce(TIME, _OTHER + TIME) if self.how == "full" else pl.col(TIME)
        return [*issued, *self._told(), time.alias(TIME)]

    def _told(self) -> list[pl.Expr]:
        """The column that says which side a row without partner is from, where there is one."""
        if self.side is None:
            return []
        left = {*self._left.on, *self._left.key}
        right = {_OTHER + name for name in (*self._right.on, *self._right.key)}
        no_left, no_right = pl.col(TIME).is_null(), pl.col(_OTHER + TIME).is_null()
        no_left &= pl.any_horizontal(pl.col(name).is_null() for name in sorted(right))
        no_right &= pl.any_horizontal(pl.col(name).is_null() for name in sorted(left))
        return [pl.when(no_right).then(1).when(no_left).then(2).otherwise(0).cast(pl.Int8).alias(self.side)]


def _renamed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.rename(lambda name: _OTHER + name)


def _pairs(left: pl.DataFrame, on: tuple[str, ...], right: pl.DataFrame, equal: tuple[str, ...]) -> pl.DataFrame:
    """The rows of both sides that are equal, side by side."""
    if left.is_empty() or right.is_empty():
        return left.clear()
    return equijoin(left, right, on, "inner", equal, coalesce=False)


def _without(rows: pl.DataFrame, on: tuple[str, ...], others: pl.DataFrame, equal: tuple[str, ...]) -> pl.DataFrame:
    """The rows that none of `others` equals."""
    if rows.is_empty() or others.is_empty():
        return rows
    return equijoin(rows, others, on, "anti", equal)
