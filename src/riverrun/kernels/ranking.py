"""Rows of groups in an order: where each stands among the members of its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from riverrun.state.equality import equal_values
from riverrun.state.frames import Mask, index, numbers, present, take
from riverrun.state.order import Indexes, lexicographic


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One column to order by. NaN is larger than every number; where nulls are is said, not implied."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ranking:
    """Rows by group, then in order, then by their id: `order` has their places among `rows`.

    Groups, masks and numbers of rows are in this sequence. Rows themselves are copied when it is known which.
    """

    rows: pl.DataFrame
    order: Indexes
    group: Indexes
    run: Indexes
    """The number of the stretch of rows that are equal in the order."""

    @classmethod
    def of(cls, rows: pl.DataFrame, group: Indexes, order: Sequence[OrderBy], id: Sequence[str]) -> Ranking:
        """Rank `rows` of the given groups. Rows of one id stay as they come."""
        values = [code for part in order for code in _codes(rows.get_column(part.column), part)]
        ids = [code for name in id for code in _codes(rows.get_column(name), OrderBy(name, False, True))]
        ranked = lexicographic(group, *values, *ids)
        starts = np.ones(len(ranked), dtype=np.bool_)
        starts[1:] = False
        for column in (group, *values):
            sequence = column[ranked]
            starts[1:] |= sequence[1:] != sequence[:-1]
        return cls(rows, ranked, group[ranked], np.cumsum(starts))

    def chosen(self, members: Mask) -> pl.DataFrame:
        """The rows that a mask says."""
        return take(self.rows, self.order[members])

    def positions(self, members: Mask) -> Indexes:
        """The place of each member among those of its group, from 1; 0 for other rows."""
        found = np.zeros(len(self.group), dtype=np.int64)
        at = np.flatnonzero(members)
        found[at] = _counted(self.group[at])
        return found

    def ranks(self, members: Mask) -> Indexes:
        """Like `positions`, but rows that are equal in the order have the place of the first of them."""
        found = self.positions(members)
        at = np.flatnonzero(members)
        run = self.run[at]
        found[at] -= _counted(run) - 1
        return found

    def sizes(self, members: Mask, groups: int) -> Indexes:
        """How many members each group has."""
        return np.bincount(self.group[members], minlength=groups)

    def last(self, members: Mask, groups: int) -> Indexes:
        """The index of each group's last member; -1 where there is none."""
        found = np.full(groups, -1, dtype=np.int64)
        at = np.flatnonzero(members)
        found[self.group[at]] = at  # of several, the last one is written last
        return found


def _counted(values: Indexes) -> Indexes:
    """1, 2, 3, … within each stretch of equal values."""
    at = np.arange(len(values))
    starts = np.ones(len(values), dtype=np.bool_)
    starts[1:] = values[1:] != values[:-1]
    return at - np.maximum.accumulate(np.where(starts, at, 0)) + 1


def _codes(column: pl.Series, by: OrderBy) -> list[Indexes]:
    """Integers that ascend as a column is ordered: if it has nulls, first whether it is one."""
    codes, there = _ascending_codes(column), present(column)
    if by.descending:
        codes = ~codes
    if there is None:
        return [codes]
    return [there.astype(np.int64) if by.nulls_first else (~there).astype(np.int64), np.where(there, codes, 0)]


def _ascending_codes(column: pl.Series) -> Indexes:
    kind = column.dtype
    if kind.is_float():
        # the bits of floats ascend as they do, those of negative ones the other way round
        values = numbers(column).astype(np.float64) + 0.0
        values[np.isnan(values)] = np.nan
        bits = values.view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    if kind == pl.UInt64:
        return (numbers(column) ^ np.uint64(1 << 63)).view(np.int64)
    if kind.is_integer() or kind.is_temporal() or kind == pl.Boolean:
        return numbers(column).astype(np.int64)
    order = numbers(column.arg_sort()).astype(np.int64)
    ordered = column[index(order)]
    codes = np.zeros(len(order), np.int64)
    codes[order[1:]] = np.cumsum(~equal_values(ordered[1:], ordered[:-1]))
    return codes
