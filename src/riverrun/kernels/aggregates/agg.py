"""One aggregate: a function over a column that Spark has computed, for the rows where a boolean column is true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.state.frames import Mask, present, true

FUNCTIONS = (
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "stddev",
    "first",
    "last",
    "distinct",
    "quantile",
    "collect",
    "top",
    "approx_distinct",
    "approx_quantile",
    "rate",
)
_NUMERIC = ("sum", "avg", "stddev", "quantile", "approx_quantile")


@dataclass(frozen=True)
class Agg:
    """Names the result column, the function, the column it reads and the boolean column that filters (null is false).

    `q` belongs to quantiles (0 to 1), `n` to top, `per` (microseconds) to rate. Only count and rate need no column.
    """

    name: str
    fn: str
    column: str | None = None
    where: str | None = None
    q: float | None = None
    n: int | None = None
    per: int | None = None

    def kind(self, schema: Mapping[str, pl.DataType]) -> pl.DataType:
        """The type of the column it reads; Int64 where it reads none."""
        return schema[self.column] if self.column else pl.Int64()

    def check(self, schema: Mapping[str, pl.DataType]) -> None:
        """Refuse what cannot be computed over these columns."""
        if self.fn not in FUNCTIONS:
            raise Invalid(f"{self.name}: no aggregate {self.fn!r}", hint=did_you_mean(self.fn, FUNCTIONS))
        for column in (self.column, self.where):
            if column is not None and column not in schema:
                raise NotFound(f"{self.name}: no column {column!r}", hint=did_you_mean(column, schema))
        if self.column is None and self.fn not in ("count", "rate"):
            raise Invalid(f"{self.name}: {self.fn} needs a column")
        if self.fn in _NUMERIC and not self.kind(schema).is_numeric():
            raise Invalid(f"{self.name}: {self.fn} needs numbers, and {self.column!r} is {self.kind(schema)}")
        if self.fn in ("min", "max") and self.kind(schema).is_nested():
            raise Invalid(f"{self.name}: {self.fn} compares values, and {self.column!r} is {self.kind(schema)}")
        if "quantile" in self.fn and (self.q is None or not 0 <= self.q <= 1):
            raise Invalid(f"{self.name}: a quantile lies between 0 and 1, not {self.q!r}")
        if self.fn == "top" and (self.n is None or self.n < 1):
            raise Invalid(f"{self.name}: top needs a number of values, 1 or more, not {self.n!r}")
        if self.fn == "rate" and not self.per:
            raise Invalid(f"{self.name}: rate needs a unit of time")

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
