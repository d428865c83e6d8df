"""Aggregates that are a few numbers per cell: each batch is reduced once and added to the stored row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.kernels.aggregates.agg import Agg
from riverrun.kernels.aggregates.exact import Floats, compensated, two_product, variance
from riverrun.kernels.aggregates.parts import Count, CountedSum, Edge, Exact, Extreme, Part, Total
from riverrun.state.frames import cast, filled, null_unless, numbers, series

ROWS = "_rows"
"""Part of every cell: how many rows it has. A cell without rows does not exist."""

_HUGE = "^"
_LARGE, _UNIT = 2.0**480, 600
"""From this size on, values are summed in units of 2^600: no sum of them, and none of their squares, is too large."""


class ScalarAggregate(Protocol):
    """An aggregate made of parts."""

    @property
    def agg(self) -> Agg: ...

    @property
    def parts(self) -> Sequence[Part]: ...

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The parts of every single row, weighted."""

    def result(self, cells: pl.DataFrame) -> pl.Series:
        """The aggregate, from the parts of cells; named after it."""


@dataclass(frozen=True)
class Counting:
    """count, and rate: how many in a window of `span` microseconds."""

    agg: Agg
    span: int | None = None

    @property
    def _shared(self) -> bool:
        return self.agg.column is None and self.agg.where is None

    @property
    def name(self) -> str:
        return ROWS if self._shared else f"{self.agg.name}#n"

    @cached_property
    def parts(self) -> Sequence[Part]:
        return () if self._shared else (Count(self.name),)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [] if self._shared else [_counted(rows, self.agg, self.name)]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        count = cells[self.name].alias(self.agg.name)
        if self.span is None:
            return count
        # rounded once, at the end, so that 3 in 10 seconds are 0.3; Polars would multiply by 1 / span
        return series(self.agg.name, count.to_numpy().astype(np.float64) * (self.agg.per or 0) / self.span)


@dataclass(frozen=True)
class ExactSum:
    """sum of integers and decimals; avg of decimals."""

    agg: Agg
    kind: pl.DataType

    @cached_property
    def parts(self) -> Sequence[Part]:
        return (Count(f"{self.agg.name}#n"), Total(f"{self.agg.name}#s", self.kind, self.agg.owner))

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        count = _counted(rows, self.agg, f"{self.agg.name}#n")
        value, name = cast(rows.get_column(self.agg.column or ""), self.kind), f"{self.agg.name}#s"
        if not self.kind.is_decimal():
            return [count, series(name, filled(value, 0) * numbers(count))]
        total = pl.when(count > 0).then(value).when(count < 0).then(-value).otherwise(pl.lit(0, self.kind))
        return [count, pl.select(total.alias(name)).to_series()]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        count, value = numbers(cells.get_column(f"{self.agg.name}#n")), cells.get_column(f"{self.agg.name}#s")
        if self.agg.fn == "avg":
            with np.errstate(invalid="ignore", divide="ignore"):
                value = series("", numbers(value.cast(pl.Float64)) / count)
        return null_unless(value.alias(self.agg.name), count > 0)


@dataclass(frozen=True)
class FloatSum:
    """sum of floats, avg and stddev. Infinities and NaN are counted apart, so that they can be retracted as well; with
    `wide`, values whose sums or squares might not fit a double are summed apart, in smaller units: what comes of them does
    not depend on which sum is made first.

    Sums carry about 32 digits. So does the sum of squares that stddev needs: after a value 1e15 times larger than the
    rest was there and went, what is left of their spread is lost.
    """

    agg: Agg
    wide: bool = True

    def _named(self, part: str) -> str:
        return f"{self.agg.name}#{part}"

    @cached_property
    def parts(self) -> Sequence[Part]:
        kinds = ("s", "q") if self.agg.fn == "stddev" else ("s",)
        sums: list[Part] = [Exact(self._named(kind)) for kind in kinds]
        if self.wide:
            sums += [CountedSum(self._named(kind + _HUGE)) for kind in kinds]
        return (*[Count(self._named(part)) for part in ("n", "nan", "up", "down")], *sums)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        count = _counted(rows, self.agg, self._named("n"))
        weight = numbers(count)
        value = filled(cast(rows.get_column(self.agg.column or ""), pl.Float64()), 0.0)
        value = np.where(weight == 0, 0.0, value)
        found, finite = [count], np.isfinite(value)
        if not finite.all():
            odd = {"nan": np.isnan(value), "up": value == np.inf, "down": value == -np.inf}
            found += [series(self._named(part), weight * flag) for part, flag in odd.items()]
            value = np.where(finite, value, 0.0)
        huge = np.abs(value) >= _LARGE
        if self.wide and huge.any():
            found += self._summed(np.ldexp(np.where(huge, value, 0.0), -_UNIT), weight, _HUGE)
            found += [series(part.count, weight * huge) for part in self.parts if isinstance(part, CountedSum)]
            value = np.where(huge, 0.0, value)
        return found + self._summed(value, weight, "")

    def _summed(self, value: Floats, weight: npt.NDArray[np.int64], size: str) -> list[pl.Series]:
        """What is added up of values of one size."""
        found = [series(self._named(f"s{size}"), value * weight)]
        if self.agg.fn == "stddev":
            with np.errstate(over="ignore", invalid="ignore"):
                square, error = two_product(value, value)
            found.append(series(self._named(f"q{size}"), square * weight))
            found.append(series(self._named(f"q{size}~"), error * weight))
        return found

    def result(self, cells: pl.DataFrame) -> pl.Series:
        count = cells[self._named("n")].to_numpy()
        nan, up, down = (cells[self._named(part)].to_numpy() > 0 for part in ("nan", "up", "down"))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if self.agg.fn == "stddev":
                value = np.where(nan | up | down, np.nan, self._deviation(cells, count.astype(np.float64)))
                enough = count > 1
            else:
                total = self._parts(cells, "s")[0]
                if self.wide:
                    total = total + np.ldexp(self._parts(cells, f"s{_HUGE}")[0], _UNIT)
                value = np.where(up, np.inf, np.where(down, -np.inf, total / count if self.agg.fn == "avg" else total))
                value = np.where(nan | (up & down), np.nan, value)
                enough = count > 0
        return null_unless(series(self.agg.name, value), enough)

    def _parts(self, cells: pl.DataFrame, part: str) -> list[Floats]:
        """A sum, and what rounding took from it."""
        return [cells[self._named(name)].to_numpy() for name in (part, f"{part}~")]

    def _deviation(self, cells: pl.DataFrame, count: Floats) -> Floats:
        sums, squares = self._parts(cells, "s"), self._parts(cells, "q")
        plain: Floats = np.sqrt(variance(count, sums, squares))
        if not self.wide:
            return plain
        huge = [self._parts(cells, f"{part}{_HUGE}") for part in ("s", "q")]
        scaled = [
            compensated([*(np.ldexp(value, -units) for value in small), *large], len(count))
            for small, large, units in zip((sums, squares), huge, (_UNIT, 2 * _UNIT), strict=True)
        ]
        there = (huge[0][0] != 0.0) | (huge[1][0] != 0.0)
        return np.where(there, np.ldexp(np.sqrt(variance(count, *scaled)), _UNIT), plain)


@dataclass(frozen=True)
class MinMax:
    """min and max of rows that stay."""

    agg: Agg
    kind: pl.DataType

    @cached_property
    def parts(self) -> Sequence[Part]:
        return (Extreme(f"{self.agg.name}#x", self.kind, self.agg.fn == "max"),)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        value, counted = rows.get_column(self.agg.column or "").alias(f"{self.agg.name}#x"), self.agg.counted(rows)
        return [value if counted is None else null_unless(value, counted)]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[f"{self.agg.name}#x"].alias(self.agg.name)


@dataclass(frozen=True)
class Edges:
    """first and last of rows that stay."""

    agg: Agg
    kind: pl.DataType

    @cached_property
    def _part(self) -> Edge:
        return Edge(f"{self.agg.name}#x", self.kind, self.agg.fn == "last")

    @cached_property
    def parts(self) -> Sequence[Part]:
        return (self._part,)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        sources = dict(zip(self._part.columns, (TIME, PARTITION, OFFSET, self.agg.column or ""), strict=True))
        kinds, chosen = self._part.columns, self.agg.chosen(rows)
        values = [cast(rows.get_column(name), kinds[part]).alias(part) for part, name in sources.items()]
        return values if chosen is None else [null_unless(value, chosen) for value in values]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[f"{self.agg.name}#x"].alias(self.agg.name)


def _counted(rows: pl.DataFrame, agg: Agg, name: str) -> pl.Series:
    """The weight of every row that counts, 0 for others."""
    weight, counted = numbers(rows.get_column(WEIGHT)).astype(np.int64), agg.counted(rows)
    return series(name, weight if counted is None else weight * counted)
