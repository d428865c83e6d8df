"""Aggregates that are a few numbers per cell: each batch is reduced once and added to the stored row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.kernels.aggregates.agg import Agg
from riverrun.kernels.aggregates.exact import two_product, variance
from riverrun.kernels.aggregates.parts import Count, Edge, Exact, Extreme, Part, Total

ROWS = "_rows"
"""Part of every cell: how many rows it has. A cell without rows does not exist."""


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

    @property
    def parts(self) -> Sequence[Part]:
        return () if self._shared else (Count(self.name),)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [] if self._shared else [_counted(rows, self.agg, self.name)]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        count = cells[self.name].alias(self.agg.name)
        if self.span is None:
            return count
        # rounded once, at the end, so that 3 in 10 seconds are 0.3; Polars would multiply by 1 / span
        return pl.Series(self.agg.name, count.to_numpy().astype(np.float64) * (self.agg.per or 0) / self.span)


@dataclass(frozen=True)
class ExactSum:
    """sum of integers and decimals; avg of decimals."""

    agg: Agg
    kind: pl.DataType

    @property
    def parts(self) -> Sequence[Part]:
        return (Count(f"{self.agg.name}#n"), Total(f"{self.agg.name}#s", self.kind, self.agg.name))

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        value = pl.col(self.agg.column or "").cast(self.kind)
        weighted = pl.when(pl.col(WEIGHT) < 0).then(-value).otherwise(value)
        total = pl.when(self.agg.counted()).then(weighted).otherwise(pl.lit(0, self.kind))
        return [
            _counted(rows, self.agg, f"{self.agg.name}#n"),
            rows.select(total.alias(f"{self.agg.name}#s")).to_series(),
        ]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        count, total = pl.col(f"{self.agg.name}#n"), pl.col(f"{self.agg.name}#s")
        value = total.cast(pl.Float64) / count if self.agg.fn == "avg" else total
        return cells.select(pl.when(count > 0).then(value).alias(self.agg.name)).to_series()


@dataclass(frozen=True)
class FloatSum:
    """sum of floats, avg and stddev. Infinities and NaN are counted apart, so that they can be retracted as well.

    Sums carry about 32 digits. So does the sum of squares that stddev needs: after a value 1e15 times larger than the
    rest was there and went, what is left of their spread is lost.
    """

    agg: Agg

    def _named(self, part: str) -> str:
        return f"{self.agg.name}#{part}"

    @property
    def parts(self) -> Sequence[Part]:
        sums = [Exact(self._named("s"))] + ([Exact(self._named("q"))] if self.agg.fn == "stddev" else [])
        return (*[Count(self._named(part)) for part in ("n", "nan", "up", "down")], *sums)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        count = _counted(rows, self.agg, self._named("n"))
        weight = count.to_numpy()
        value = rows[self.agg.column or ""].cast(pl.Float64).fill_null(0.0).to_numpy()
        value = np.where(weight == 0, 0.0, value)
        found, finite = [count], np.isfinite(value)
        if not finite.all():
            odd = {"nan": np.isnan(value), "up": value == np.inf, "down": value == -np.inf}
            found += [pl.Series(self._named(part), weight * flag) for part, flag in odd.items()]
            value = np.where(finite, value, 0.0)
        found.append(pl.Series(self._named("s"), value * weight))
        if self.agg.fn == "stddev":
            with np.errstate(over="ignore", invalid="ignore"):
                square, error = two_product(value, value)
            found.append(pl.Series(self._named("q"), square * weight))
            found.append(pl.Series(self._named("q~"), error * weight))
        return found

    def result(self, cells: pl.DataFrame) -> pl.Series:
        count = cells[self._named("n")].to_numpy()
        nan, up, down = (cells[self._named(part)].to_numpy() > 0 for part in ("nan", "up", "down"))
        total = cells[self._named("s")].to_numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.agg.fn == "stddev":
                sums, squares = ([cells[self._named(p)].to_numpy() for p in (s, f"{s}~")] for s in ("s", "q"))
                value = np.sqrt(variance(count.astype(np.float64), sums, squares))
                value = np.where(nan | up | down, np.nan, value)
                enough = count > 1
            else:
                value = np.where(up, np.inf, np.where(down, -np.inf, total / count if self.agg.fn == "avg" else total))
                value = np.where(nan | (up & down), np.nan, value)
                enough = count > 0
        return pl.select(pl.when(pl.lit(pl.Series(enough))).then(pl.lit(pl.Series(self.agg.name, value)))).to_series()


@dataclass(frozen=True)
class MinMax:
    """min and max of rows that stay."""

    agg: Agg
    kind: pl.DataType

    @property
    def parts(self) -> Sequence[Part]:
        return (Extreme(f"{self.agg.name}#x", self.kind, self.agg.fn == "max"),)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        value = pl.when(self.agg.counted()).then(pl.col(self.agg.column or ""))
        return [rows.select(value.alias(f"{self.agg.name}#x")).to_series()]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[f"{self.agg.name}#x"].alias(self.agg.name)


@dataclass(frozen=True)
class Edges:
    """first and last of rows that stay."""

    agg: Agg
    kind: pl.DataType

    @property
    def _part(self) -> Edge:
        return Edge(f"{self.agg.name}#x", self.kind, self.agg.fn == "last")

    @property
    def parts(self) -> Sequence[Part]:
        return (self._part,)

    def columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        sources = dict(zip(self._part.columns, (TIME, PARTITION, OFFSET, self.agg.column or ""), strict=True))
        chosen = [pl.when(self.agg.chosen()).then(pl.col(name)).alias(part) for part, name in sources.items()]
        return rows.select(chosen).cast(dict(self._part.columns)).get_columns()  # type: ignore[arg-type]

    def result(self, cells: pl.DataFrame) -> pl.Series:
        return cells[f"{self.agg.name}#x"].alias(self.agg.name)


def _counted(rows: pl.DataFrame, agg: Agg, name: str) -> pl.Series:
    """The weight of every row that counts, 0 for others."""
    weight = pl.when(agg.counted()).then(pl.col(WEIGHT)).otherwise(0)
    return rows.select(weight.cast(pl.Int64).alias(name)).to_series()
