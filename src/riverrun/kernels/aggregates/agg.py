"""One aggregate: a function over a column that Spark has computed, for the rows where a boolean column is true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from riverrun.errors import Invalid
from riverrun.state.frames import Mask, present, true

_NUMERIC = ("sum", "avg", "stddev", "quantile", "approx_quantile")


@dataclass(frozen=True)
class Agg:
    """Names the result column, the function, the column it reads and the boolean column that filters (null is false).

    `q` belongs to quantiles (0 to 1), `n` to top, `per` (microseconds) to rate. Only count and rate need no column.
    `place` is the line where it was declared.
    """

    name: str
    fn: str
    column: str | None = None
    where: str | None = None
    q: float | None = None
    n: int | None = None
    per: int | None = None
    place: str | None = None

    @property
    def owner(self) -> str:
        """What errors call it."""
        return f"{self.place}: {self.name}" if self.place else self.name

    def kind(self, schema: Mapping[str, pl.DataType]) -> pl.DataType:
        """The type of the column it reads; Int64 where it reads none."""
        return schema[self.column] if self.column else pl.Int64()

    def check(self, schema: Mapping[str, pl.DataType]) -> None:
        """Refuse types that cannot be computed with: a flow does not know all types when it is declared."""
        kind = self.kind(schema)
        if self.fn in _NUMERIC and not kind.is_numeric():
            raise Invalid(f"{self.owner}: {self.fn} needs numbers, and {self.column!r} is {kind}")
        if self.fn in ("min", "max") and kind.is_nested():
            raise Invalid(f"{self.owner}: {self.fn} compares values, and {self.column!r} is {kind}")

    def result(self, schema: Mapping[str, pl.DataType]) -> pl.DataType:
        """The type of its result, by Spark's rules."""
        kind = self.kind(schema)
        match self.fn:
            case "count" | "distinct" | "approx_distinct":
                return pl.Int64()
            case "sum" if isinstance(kind, pl.Decimal):
                return pl.Decimal(min(kind.precision + 10, 38), kind.scale)
            case "sum" if kind.is_integer():
                return pl.Int64()
            case "sum" | "avg" | "stddev" | "quantile" | "approx_quantile" | "rate":
                return pl.Float64()
            case "collect":
                return pl.List(kind)
            case "top":
                return pl.List(pl.Struct({"value": kind, "count": pl.Int64()}))
        return kind

    def counted(self, rows: pl.DataFrame) -> Mask | None:
        """Which rows count: the filter is true and the value is not null. None: all."""
        there, chosen = None if self.column is None else present(rows.get_column(self.column)), self.chosen(rows)
        return there if chosen is None else chosen if there is None else there & chosen

    def chosen(self, rows: pl.DataFrame) -> Mask | None:
        """Where the filter is true. None: everywhere."""
        return None if self.where is None else true(rows.get_column(self.where))
