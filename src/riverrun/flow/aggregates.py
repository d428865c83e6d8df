"""Aggregates: what `.agg(…)` computes per window or group.

An `Aggregate` is what the user writes; bound to a node's columns it is a `Measure`: checked, and with a type.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riverrun.columns import filter_column, value_column
from riverrun.ddl import Array, Column, Decimal, Struct, Type
from riverrun.durations import Duration
from riverrun.errors import Invalid, NotFound
from riverrun.flow.expressions import Expression, Wanted, condition, expression
from riverrun.flow.place import declaration
from riverrun.flow.schema import BIGINT, DOUBLE, Schema, is_integral, is_key, is_numeric, is_orderable, is_scalar
from riverrun.flow.spans import positive

_NUMERIC = ("sum", "avg", "stddev", "quantile", "approx_quantile")
_FITTING = {"min": is_scalar, "max": is_scalar, "distinct": is_key, "approx_distinct": is_key, "top": is_orderable}
"""Which types the aggregates take that compare values."""

_UNITS = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate as it was written. `q`, `n` and `per` belong to the kinds that take them."""

    kind: str
    sql: str | None = None
    where: str | None = None
    q: float | None = None
    n: int | None = None
    per: int | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate over the columns of a node; only rows for which `where` is true count."""

    name: str
    kind: str
    type: Type | None
    value: Expression | None = None
    where: Expression | None = None
    q: float | None = None
    n: int | None = None
    per: int | None = None

    def result(self, value: Type | None) -> Type | None:
        """The type of the result over values of this type, by Spark's rules."""
        return _result(self.kind, value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return tuple(name for part in (self.value, self.where) if part for name in part.columns)

    def __str__(self) -> str:
        given = [str(part) for part in (self.value, self.q, self.n) if part is not None]
        return f"{self.kind}({', '.join(given)})" + (f" where {self.where}" if self.where else "")


def measure(name: str, aggregate: Aggregate, schema: Schema, hidden: frozenset[str]) -> Measure:
    """The aggregate bound to `schema`; `name` is the column it gives."""
    if not isinstance(aggregate, Aggregate):
        raise Invalid(f"{name} is not an aggregate: {aggregate!r}", hint='Write rr.count(), rr.sum("amount"), …')
    try:
        value = expression(aggregate.sql, schema, hidden) if aggregate.sql is not None else None
        where = condition(aggregate.where, schema, hidden) if aggregate.where is not None else None
    except (Invalid, NotFound) as error:
        raise type(error)(f"{name}: {error.message}", hint=error.hint) from None
    kind, known = aggregate.kind, value.type if value else None
    if kind in _NUMERIC and not is_numeric(known):
        raise Invalid(f"{name}: {kind} needs numbers, and {aggregate.sql!r} is {known}")
    if kind in _FITTING and not _FITTING[kind](known):
        raise Invalid(
            f"{name}: {kind} compares values, and {aggregate.sql!r} is {known}",
            hint="Use a part of it, or to_json of it",
        )
    return Measure(name, kind, _result(kind, known), value, where, aggregate.q, aggregate.n, aggregate.per)


def aggregated(by: Sequence[str], measures: Sequence[Measure]) -> Wanted:
    """What a kernel that aggregates is given: the columns of groups, and what each measure reads and filters by."""
    wanted: Wanted = [(name, None) for name in by]
    for number, one in enumerate(measures):
        if one.value:
            wanted.append((value_column(number), one.value))
        if one.where:
            wanted.append((filter_column(number), one.where))
    return wanted


def resolve_aggregates(
    columns: Sequence[tuple[str, Type | None]], measures: Sequence[Measure], came: Mapping[str, Type]
) -> list[tuple[str, Type | None]]:
    """Columns with the types of their aggregates, now that the types of what is aggregated are known."""
    results = {one.name: one.result(came.get(value_column(number))) for number, one in enumerate(measures)}
    return [(name, results.get(name) if known is None else known) for name, known in columns]


def _result(kind: str, known: Type | None) -> Type | None:
    """The type of the result, by Spark's rules."""
    match kind:
        case "count" | "distinct" | "approx_distinct":
            return BIGINT
        case "avg" | "stddev" | "quantile" | "approx_quantile" | "rate":
            return DOUBLE
        case "sum" if is_integral(known):
            return BIGINT
        case "sum" if isinstance(known, Decimal):
            return Decimal(builtins.min(38, known.precision + 10), known.scale)
        case "sum":
            return DOUBLE if known else None
        case "collect":
            return Array(known) if known else None
        case "top":
            return Array(Struct((Column("value", known), Column("count", BIGINT)))) if known else None
    return known


@declaration
def count(sql: str | None = None, *, where: str | None = None) -> Aggregate:
    """How many rows; with an expression, how many for which it is not null."""
    return Aggregate("count", sql, where)


@declaration
def sum(sql: str, *, where: str | None = None) -> Aggregate:
    """The sum; null without rows."""
    return Aggregate("sum", sql, where)


@declaration
def avg(sql: str, *, where: str | None = None) -> Aggregate:
    """The mean, as a double."""
    return Aggregate("avg", sql, where)


@declaration
def min(sql: str, *, where: str | None = None) -> Aggregate:
    """The smallest value."""
    return Aggregate("min", sql, where)


@declaration
def max(sql: str, *, where: str | None = None) -> Aggregate:
    """The largest value."""
    return Aggregate("max", sql, where)


@declaration
def stddev(sql: str, *, where: str | None = None) -> Aggregate:
    """The standard deviation of a sample."""
    return Aggregate("stddev", sql, where)


@declaration
def first(sql: str, *, where: str | None = None) -> Aggregate:
    """The value of the first row by event time; of equal times, the earlier in the log.

    Rows of a table have no place in a log: of equal times, the smaller value. So it is with a stream that takes rows back
    (`rr.correct`), but for sliding and session windows, which keep their rows.
    """
    return Aggregate("first", sql, where)


@declaration
def last(sql: str, *, where: str | None = None) -> Aggregate:
    """The value of the last row by event time; of equal times, the later in the log.

    Rows of a table have no place in a log: of equal times, the larger value. So it is with a stream that takes rows back
    (`rr.correct`), but for sliding and session windows, which keep their rows.
    """
    return Aggregate("last", sql, where)


@declaration
def distinct(sql: str, *, where: str | None = None) -> Aggregate:
    """How many different values; null is none of them."""
    return Aggregate("distinct", sql, where)


@declaration
def quantile(sql: str, q: float, *, where: str | None = None) -> Aggregate:
    """The exact quantile, interpolated: q = 0.5 is the median."""
    return Aggregate("quantile", sql, where, q=_fraction(q))


@declaration
def collect(sql: str, *, where: str | None = None) -> Aggregate:
    """All values as an array, by event time; of equal times, in log order.

    Rows of a table have no place in a log: of equal times, by value. So it is with a stream that takes rows back
    (`rr.correct`), but for sliding and session windows, which keep their rows.
    """
    return Aggregate("collect", sql, where)


@declaration
def top(sql: str, n: int, *, where: str | None = None) -> Aggregate:
    """The n most frequent values with their counts: array<struct<value, count>>."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise Invalid(f"top needs a whole number of values, 1 or more, not {n!r}")
    return Aggregate("top", sql, where, n=n)


@declaration
def approx_distinct(sql: str, *, where: str | None = None) -> Aggregate:
    """About how many different values, in bounded memory."""
    return Aggregate("approx_distinct", sql, where)


@declaration
def approx_quantile(sql: str, q: float, *, where: str | None = None) -> Aggregate:
    """About the quantile, in bounded memory."""
    return Aggregate("approx_quantile", sql, where, q=_fraction(q))


@declaration
def rate(per: Duration = "second", *, where: str | None = None) -> Aggregate:
    """How many rows of a window per second, minute, hour, day or any duration."""
    known = _UNITS.get(per) if isinstance(per, str) else None
    return Aggregate("rate", None, where, per=known or positive("per", per))


def _fraction(q: float) -> float:
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
        raise Invalid(f"a quantile lies between 0 and 1, not {q!r}")
    return float(q)
