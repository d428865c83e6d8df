"""Parts: the columns that aggregates are kept as, and how several rows of them become one.

The same reduction turns the rows of a batch into one row per cell, adds that to the stored row, and puts panes together
to windows. A cell is what an aggregate is computed for: a group, a window of a key, a pane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import polars as pl

from riverrun.errors import Invalid
from riverrun.kernels.aggregates.exact import Floats, compensated, slices

_CELL = "_cell"
_APPEARED = "_appeared"
_MANY = 50_000

Grouping = tuple[list[pl.Series], list[pl.Expr]]


class Part(Protocol):
    """One or a few columns of a cell's row."""

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        """The columns, as they are stored."""

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        """Columns to compute from `rows` beforehand, and the expressions that reduce a group."""

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        """The part's columns from the result of these expressions."""


def combine(old: pl.DataFrame, new: pl.DataFrame, parts: Sequence[Part]) -> pl.DataFrame:
    """The parts of two aligned frames of cells, one after the other in time; null in `old` where there was none."""
    quick = [part for part in parts if isinstance(part, Count | Total | Exact)]
    slow = [part for part in parts if part not in quick]
    found = [column for part in quick for column in part.plus(old, new)]
    if slow:
        names = [name for part in slow for name in part.columns]
        both = pl.concat([frame.select(names).with_row_index(_CELL) for frame in (old, new)])
        found += reduce(both, [_CELL], slow).drop(_CELL).get_columns()
    return pl.DataFrame(found).select([name for part in parts for name in part.columns])


def reduce(rows: pl.DataFrame, key: Sequence[str], parts: Sequence[Part], ordered: bool = True) -> pl.DataFrame:
    """One row per distinct `key` with the columns of all parts; `ordered`: in the order of first appearance."""
    plans = [part.grouping(rows) for part in parts]
    helped = [column for columns, _ in plans for column in columns]
    grouped = rows.hstack(helped) if helped else rows
    exprs = [expr for _, made in plans for expr in made]
    if rows.height >= _MANY and all(isinstance(part, Count | Total | Exact | Extreme) for part in parts):
        groups = _streamed(grouped, key, exprs, ordered)
    else:
        groups = grouped.group_by(key, maintain_order=True).agg(exprs)
    return groups.select(key).hstack([column for part in parts for column in part.reduced(groups)])


def _streamed(rows: pl.DataFrame, key: Sequence[str], exprs: list[pl.Expr], ordered: bool) -> pl.DataFrame:
    """The same by Polars' streaming engine, which needs half the time for many groups but keeps no order."""
    if not ordered:
        return rows.lazy().group_by(key).agg(exprs).collect(engine="streaming")
    first = pl.col(_APPEARED).min()
    groups = rows.with_row_index(_APPEARED).lazy().group_by(key).agg(*exprs, first).collect(engine="streaming")
    return groups.sort(_APPEARED)


@dataclass(frozen=True)
class Count:
    """A sum of weights. A batch without the column counts nothing."""

    name: str

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Int64()}

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        return [], [pl.col(self.name).sum()] if self.name in rows.columns else []

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        if self.name in groups.columns:
            return [groups[self.name]]
        return [pl.repeat(0, groups.height, dtype=pl.Int64, eager=True).alias(self.name)]

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        return [new[self.name] + old[self.name].fill_null(0)]


@dataclass(frozen=True)
class Total:
    """An exact sum of integers or decimals. One that does not fit its type is an error, never a wrong number."""

    name: str
    kind: pl.DataType
    owner: str

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: self.kind}

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        column = pl.col(self.name)
        if self._certain(rows[self.name]):
            return [], [column.sum()]
        if self.kind.is_decimal():
            return [], [column.sum(), column.cast(pl.Float64).sum().alias(f"{self.name}?")]
        return [], [column.cast(pl.Int128).sum()]

    def _certain(self, values: pl.Series) -> bool:
        """No group can overflow, since all rows together would not."""
        reach = max((abs(int(cast(int, end))) for end in (values.min(), values.max()) if end is not None), default=0)
        return (reach + 1) * len(values) < self._limit

    @property
    def _limit(self) -> int:
        if isinstance(self.kind, pl.Decimal):
            return int(10 ** (self.kind.precision - self.kind.scale))
        return 1 << 63

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        sums = groups[self.name]
        if self.kind.is_decimal():
            estimate = groups.get_column(f"{self.name}?", default=None)
            # one part in 10^9 covers what the estimate can be off
            wrong = estimate is not None and bool((estimate.abs() > self._limit * (1 - 1e-9)).any())
        else:
            wrong = sums.dtype == pl.Int128 and not bool(sums.is_between(-self._limit, self._limit - 1).all())
        if wrong:
            raise self._overflow()
        return [sums.cast(self.kind)]

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        left, right = old[self.name].fill_null(0), new[self.name]
        if self.kind.is_decimal():
            estimate = left.cast(pl.Float64) + right.cast(pl.Float64)
            wrong = bool((estimate.abs() > self._limit * (1 - 1e-9)).any())
        else:
            a, b = left.to_numpy(), right.to_numpy()
            wrong = bool((((a ^ (a + b)) & (b ^ (a + b))) < 0).any())
        if wrong:
            raise self._overflow()
        return [(left + right).cast(self.kind).alias(self.name)]

    def _overflow(self) -> Invalid:
        return Invalid(f"{self.owner}: the sum does not fit {self.kind}", hint="Sum a decimal or a double instead")


@dataclass(frozen=True)
class Exact:
    """A sum of floats, with what rounding took from it beside."""

    name: str

    @property
    def error(self) -> str:
        return f"{self.name}~"

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: pl.Float64(), self.error: pl.Float64()}

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        cut = [piece for name in self.columns if name in rows.columns for piece in slices(rows[name].to_numpy())]
        columns = [pl.Series(f"{self.name}/{n}", piece) for n, piece in enumerate(cut)]
        return columns, [pl.col(column.name).sum() for column in columns]

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        found = [groups[name].to_numpy() for name in groups.columns if name.startswith(f"{self.name}/")]
        value, error = compensated(found, groups.height)
        return self._stored(value, error)

    def plus(self, old: pl.DataFrame, new: pl.DataFrame) -> list[pl.Series]:
        found = [frame[name].fill_null(0.0).to_numpy() for name in self.columns for frame in (old, new)]
        return self._stored(*compensated(found, new.height))

    def _stored(self, value: Floats, error: Floats) -> list[pl.Series]:
        return [pl.Series(self.name, value), pl.Series(self.error, error)]


@dataclass(frozen=True)
class Extreme:
    """The smallest or largest value. NaN is larger than any number."""

    name: str
    kind: pl.DataType
    largest: bool

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        return {self.name: self.kind}

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        column = pl.col(self.name)
        if not self.largest:
            return [], [column.min()]
        if self.kind.is_float() and rows[self.name].is_nan().any():
            return [], [pl.when(column.is_nan().any()).then(float("nan")).otherwise(column.max()).alias(self.name)]
        return [], [column.max()]

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        return [groups[self.name].cast(self.kind)]


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

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        time, partition, offset = self.order
        return {time: pl.Int64(), partition: pl.Int64(), offset: pl.Int64(), self.name: self.kind}

    def grouping(self, rows: pl.DataFrame) -> Grouping:
        rank = pl.Series(f"{self.name}/rank", self._rank(rows))
        best = pl.col(rank.name).arg_max() if self.last else pl.col(rank.name).arg_min()
        return [rank], [pl.col(name).get(best) for name in self.columns]

    def _rank(self, rows: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The place of each row in the order; rows that do not count lose against all others."""
        absent = rows[self.order[0]].is_null().to_numpy()
        time, partition, offset = (rows[name].fill_null(0).to_numpy() for name in self.order)
        same = partition[1:] == partition[:-1]
        if ((partition[1:] > partition[:-1]) | (same & (offset[1:] >= offset[:-1]))).all():
            order = np.argsort(time, kind="stable")
        else:
            order = np.lexsort((offset, partition, time))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(1, len(order) + 1)
        rank[absent] = 0 if self.last else len(order) + 1
        return rank

    def reduced(self, groups: pl.DataFrame) -> list[pl.Series]:
        return [groups[name] for name in self.columns]
