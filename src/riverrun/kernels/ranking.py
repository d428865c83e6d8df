"""Rows of groups in an order: where each stands among the members of its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.state.equality import equal_rows

GROUP = "_group"

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One column to order by. NaN is larger than every number; where nulls are is said, not implied."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Ranking:
    """Rows sorted by group, then in order, then by their id. Masks and numbers of rows are in this sequence."""

    rows: pl.DataFrame
    group: Numbers
    run: Numbers

    @classmethod
    def of(cls, rows: pl.DataFrame, order: Sequence[OrderBy], id: Sequence[str]) -> Ranking:
        """Sort `rows`, which have the number of their group as `_group`. Rows of one id stay as they come."""
        by = [GROUP, *(part.column for part in order), *id]
        descending = [False, *(part.descending for part in order), *(False for _ in id)]
        last = [False, *(not part.nulls_first for part in order), *(False for _ in id)]
        ranked = rows.sort(by, descending=descending, nulls_last=last, maintain_order=True)
        group = ranked[GROUP].to_numpy().astype(np.int64)
        starts = np.ones(len(ranked), dtype=np.bool_)
        starts[1:] = (np.diff(group) != 0) | ~equal_rows(ranked[1:], ranked[:-1], [part.column for part in order])
        return cls(ranked, group, np.cumsum(starts))

    def mask(self, column: str) -> Mask:
        return self.rows[column].to_numpy().astype(np.bool_)

    def positions(self, members: Mask) -> Numbers:
        """The place of each member among those of its group, from 1; 0 for other rows."""
        found = np.zeros(len(self.group), dtype=np.int64)
        at = np.flatnonzero(members)
        found[at] = _counted(self.group[at])
        return found

    def ranks(self, members: Mask) -> Numbers:
        """Like `positions`, but rows that are equal in the order have the place of the first of them."""
        found = self.positions(members)
        at = np.flatnonzero(members)
        run = self.run[at]
        found[at] -= _counted(run) - 1
        return found

    def sizes(self, members: Mask, groups: int) -> Numbers:
        """How many members each group has."""
        return np.bincount(self.group[members], minlength=groups)

    def last(self, members: Mask, groups: int) -> Numbers:
        """The index of each group's last member; -1 where there is none."""
        found = np.full(groups, -1, dtype=np.int64)
        at = np.flatnonzero(members)
        found[self.group[at]] = at  # of several, the last one is written last
        return found


def _counted(values: Numbers) -> Numbers:
    """1, 2, 3, … within each stretch of equal values."""
    at = np.arange(len(values))
    starts = np.ones(len(values), dtype=np.bool_)
    starts[1:] = values[1:] != values[:-1]
    return at - np.maximum.accumulate(np.where(starts, at, 0)) + 1
