"""Parts: the columns that aggregates are kept as, and how several rows of them become one.

The same reduction turns the rows of a batch into one row per cell, adds that to the stored row, and puts panes together
to windows. A cell is what an aggregate is computed for: a group, a window of a key, a pane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.errors import Invalid
from riverrun.kernels.aggregates.exact import Floats, compensated, slices
from riverrun.state.frames import (
    cast,
    constant,
    filled,
    frame_of,
    null_unless,
    numbers,
    pick,
    present,
    series,
    stack,
    take,
)
from riverrun.state.hashing import Hashes, quick_hashes
from riverrun.state.keys import KeyGroups, group_rows, pairs_of
from riverrun.state.order import by_time_and_log

_CELL = "_cell"


class Part(Protocol):
    """One or a few columns of a cell's row."""

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        """The columns, as they are stored."""

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        """The part's columns, one row for each group, from those of `rows`."""


def combine(old: pl.DataFrame, new: pl.DataFrame, parts: Sequence[Part]) -> pl.DataFrame:
    """The parts of two aligned frames of cells, one after the other in time; null in `old` where there was none."""
    reduced: list[pl.Series] = []
    for part in parts:
        if isinstance(part, Count | Total | Exact):
            reduced += part.plus(old, new)
        else:
            both = stack([pick(frame, part.columns) for frame in (old, new)])
            reduced += part.reduced(both, pairs_of(new.height))
    return frame_of(reduced)


def reduce(rows: pl.DataFrame, key: Sequence[str], parts: Sequence[Part]) -> pl.DataFrame:
    """One row per distinct `key` with the columns of all parts, in the order of first appearance."""
    groups = group_rows(rows, key, _codes(rows, key))
    order = groups.as_they_came()
    cells = frame_of([*take(pick(rows, key), groups.first), *reduce_groups(rows, groups, parts)])
    return take(cells, order)


def _codes(rows: pl.DataFrame, key: Sequence[str]) -> Hashes:
    """Numbers that are equal where keys are. One integer is its own: those of ranges and blocks come in order."""
    column = rows.get_column(key[0])
    if len(key) > 1 or not column.dtype.is_integer() or column.null_count():
        return quick_hashes(rows, key)
    return numbers(column).astype(np.int64).view(np.uint64)


def reduce_groups(rows: pl.DataFrame, groups: KeyGroups, parts: Sequence[Part]) -> pl.DataFrame:
    """The columns of all parts, one row for each group."""
    return frame_of([column for part in parts for column in part.reduced(rows, groups)])


def by_group(rows: pl.DataFrame, groups: KeyGroups, *reductions: pl.Expr) -> pl.DataFrame:
    """What Polars makes of each group, for types that NumPy does not have."""
    number = series(_CELL, np.repeat(np.arange(len(groups)), groups.sizes))
    return take(rows, groups.order).hstack([number]).group_by(_CELL, maintain_order=True).agg(reductions).drop(_CELL)


def _sums(values: npt.NDArray[Any], groups: KeyGroups) -> npt.NDArray[Any]:
    sums: npt.NDArray[Any] = np.add.reduceat(values[groups.order], groups.starts)
    return sums


@dataclass(frozen=True)
class Count:
    """A sum of weights. A batch without the column counts nothing."""

    name: str

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Int64()}

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        if self.name in rows.columns:
            return [series(self.name, _sums(numbers(rows.get_column(self.name)), groups))]
        return [constant(self.name, 0, pl.Int64(), len(groups))]

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        return [series(self.name, filled(old.get_column(self.name), 0) + numbers(new.get_column(self.name)))]


@dataclass(frozen=True)
class Total:
    """An exact sum of integers or decimals. One that does not fit its type is an error, never a wrong number."""

    name: str
    kind: pl.DataType
    owner: str

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: self.kind}

    @property
    def _limit(self) -> int:
        if isinstance(self.kind, pl.Decimal):
            return int(10 ** (self.kind.precision - self.kind.scale))
        return 1 << 63

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        column = rows.get_column(self.name)
        if self.kind.is_decimal():
            sums = by_group(pick(rows, [self.name]), groups, *self._decimal_sums())
            self._refuse_estimates(sums.get_column(f"{self.name}?"))
            return [cast(sums.get_column(self.name), self.kind)]
        values = numbers(column)
        if _reach(values) * len(values) < self._limit:  # no group can overflow, since all rows together would not
            return [series(self.name, _sums(values, groups))]
        wide = by_group(pick(rows, [self.name]), groups, pl.col(self.name).cast(pl.Int128).sum())[self.name]
        if not wide.is_between(-self._limit, self._limit - 1).all():
            raise self._overflow()
        return [wide.cast(self.kind)]

    def _decimal_sums(self) -> tuple[pl.Expr, pl.Expr]:
        return pl.col(self.name).sum(), pl.col(self.name).cast(pl.Float64).sum().alias(f"{self.name}?")

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        if self.kind.is_decimal():
            left, right = old.get_column(self.name).fill_null(0), new.get_column(self.name)
            self._refuse_estimates(left.cast(pl.Float64) + right.cast(pl.Float64))
            return [(left + right).cast(self.kind).alias(self.name)]
        a, b = filled(old.get_column(self.name), 0), numbers(new.get_column(self.name))
        total = a + b
        if (((a ^ total) & (b ^ total)) < 0).any():
            raise self._overflow()
        return [series(self.name, total)]

    def _refuse_estimates(self, estimates: pl.Series) -> None:
        """One part in 10^9 covers what an estimate can be off."""
        if (np.abs(filled(estimates, 0.0)) > self._limit * (1 - 1e-9)).any():
            raise self._overflow()

    def _overflow(self) -> Invalid:
        if isinstance(self.kind, pl.Decimal):
            kind, instead = f"decimal({self.kind.precision},{self.kind.scale})", "a double"
        else:
            kind, instead = "long", "a decimal or a double"
        return Invalid(f"{self.owner}: the sum does not fit {kind}", hint=f"Sum {instead} instead")


def _reach(values: npt.NDArray[Any]) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) + 1 if len(values) else 0


@dataclass(frozen=True)
class Exact:
    """A sum of floats, with what rounding took from it beside."""

    name: str

    @property
    def error(self) -> str:
        return f"{self.name}~"

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Float64(), self.error: pl.Float64()}

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        there = [numbers(rows.get_column(name)) for name in self.columns if name in rows.columns]
        sums = [_sums(piece, groups) for values in there for piece in slices(values)]
        return self._stored(*compensated(sums, len(groups)))

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        values = [filled(frame.get_column(name), 0.0) for name in self.columns for frame in (old, new)]
        return self._stored(*compensated(values, new.height))

    def _stored(self, value: Floats, error: Floats) -> list[pl.Series]:
        return [series(self.name, value), series(self.error, error)]


@dataclass(frozen=True)
class CountedSum(Exact):
    """A sum of floats that knows how many there are. When the last has gone, so has what rounding left of the others."""

    @property
    def count(self) -> str:
        return f"{self.name}#"

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Float64(), self.error: pl.Float64(), self.count: pl.Int64()}

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        sums = Exact(self.name).reduced(rows, groups)
        return self._cleared(*sums, *Count(self.count).reduced(rows, groups))

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        return self._cleared(*Exact(self.name).plus(old, new), *Count(self.count).plus(old, new))

    def _cleared(self, value: pl.Series, error: pl.Series, count: pl.Series) -> list[pl.Series]:
        there = numbers(count) != 0
        return [*(series(part.name, np.where(there, numbers(part), 0.0)) for part in (value, error)), count]


@dataclass(frozen=True)
class Extreme:
    """The smallest or largest value. NaN is larger than any number."""

    name: str
    kind: pl.DataType
    largest: bool

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: self.kind}

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        column, kind = rows.get_column(self.name), self.kind
        if not (kind.is_integer() or kind.is_float() or kind.is_temporal() or kind == pl.Boolean):
            end = pl.col(self.name).max() if self.largest else pl.col(self.name).min()
            return [cast(by_group(pick(rows, [self.name]), groups, end).to_series(), kind)]
        # of a NaN and a number, `maximum` gives the NaN and `fmin` the number
        least = np.maximum if self.largest else np.fmin
        values, there = numbers(column), present(column)
        if there is not None:
            values = np.where(there, values, _loser(values.dtype, self.largest))
        ends = series(self.name, least.reduceat(values[groups.order], groups.starts))
        if there is not None:  # before the cast: the loser is no value of every type
            ends = null_unless(ends, np.logical_or.reduceat(there[groups.order], groups.starts))
        return [cast(ends, kind)]


def _loser(kind: np.dtype[Any], largest: bool) -> Any:
    """A value that wins against none."""
    if kind.kind == "f":
        return kind.type(-np.inf if largest else np.nan)
    if kind.kind == "b":
        return np.bool_(not largest)
    return kind.type(np.iinfo(kind).min if largest else np.iinfo(kind).max)


@dataclass(frozen=True)
class Edge:
    """The value of the first or last row by event time, then log order; null is a value like others.

    `name@t` is null where there is no row at all.
    """

    name: str
    kind: pl.DataType
    last: bool

    @property
    def order(self) -> tuple[str, str, str]:
        return (f"{self.name}@t", f"{self.name}@p", f"{self.name}@o")

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        time, partition, offset = self.order
        return {time: pl.Int64(), partition: pl.Int64(), offset: pl.Int64(), self.name: self.kind}

    def reduced(self, rows: pl.DataFrame, groups: KeyGroups) -> list[pl.Series]:
        order = by_time_and_log(*(filled(rows.get_column(name), 0) for name in self.order))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        there = present(rows.get_column(self.order[0]))
        if there is not None:  # rows that do not count lose against all others
            rank[~there] = -1 if self.last else len(order)
        best = np.maximum if self.last else np.minimum
        chosen = best.reduceat(rank[groups.order], groups.starts)
        counts = (chosen >= 0) & (chosen < len(order))
        places = np.where(counts, order[np.where(counts, chosen, 0)], groups.first) if len(order) else groups.first
        return take(pick(rows, self.columns), places).get_columns()
