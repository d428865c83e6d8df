"""Measures of matches: what they ask of a match becomes columns with a line for each result, and what is left of a measure
is an expression over these columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from riverrun.ddl import Decimal, Type, backquoted
from riverrun.errors import Invalid
from riverrun.flow.expressions import expression
from riverrun.flow.schema import BIGINT, DOUBLE, Schema
from riverrun.patterns.kinds import is_nested, is_number, is_real, is_wide
from riverrun.patterns.navigation import RowOf, TotalOf, ValueOf, rewrite
from riverrun.patterns.program import ColumnSet


@dataclass(frozen=True)
class MatchValue:
    """One value of a match, as a column: of one row, or a total. It is read from the column `source` of rows; without
    one, rows are counted."""

    name: str
    asks: RowOf | TotalOf
    source: str | None
    type: Type | None


@dataclass
class MeasureSet:
    """The values that measures need, each once, and the measures as expressions over them."""

    columns: ColumnSet
    variables: Collection[str]
    values: dict[str, MatchValue] = field(default_factory=dict)
    _names: dict[tuple[RowOf | TotalOf, str | None], str] = field(default_factory=dict)

    def add(self, name: str, sql: str) -> str:
        """Takes a measure in; gives the text of its expression over `values`."""
        rewritten = rewrite(sql, self.variables)
        known: dict[str, str] = {}
        for key, part in rewritten.parts.items():
            known[key] = self._value(name, *_asked(part))
        schema = self.columns.schema
        types = [(key, self.values[value].type) for key, value in known.items()]
        made = expression(rewritten.sql, Schema((*schema.columns, *types), schema.open), self.columns.hidden)
        for column in made.columns:
            if column not in known:
                known[column] = self._value(name, RowOf("last"), backquoted(column))
        return made.over(lambda column: backquoted(known[column]))

    def _value(self, name: str, asks: RowOf | TotalOf, sql: str | None) -> str:
        source = None if sql is None else self.columns.add(sql)
        called = self._names.setdefault((asks, source), f"_m{len(self._names)}")
        if called not in self.values:
            self.values[called] = MatchValue(called, asks, source, self._type(name, asks, source))
        return called

    def _type(self, name: str, asks: RowOf | TotalOf, source: str | None) -> Type | None:
        if source is None or (isinstance(asks, TotalOf) and asks.function == "count"):
            return BIGINT
        kind = self.columns.expressions[source].type
        if not isinstance(asks, TotalOf):
            return kind
        if asks.function in ("min", "max"):
            if kind is None or is_nested(kind):
                shown = self.columns.expressions[source]
                why = "whose type is not known" if kind is None else f"which is {kind}, and that has no order"
                raise Invalid(f"{name}: {asks.function} of {shown}, {why}", hint="Take a part of it, or cast it")
            return kind
        if kind is None or not is_number(kind) or is_wide(kind):
            shown = self.columns.expressions[source]
            raise Invalid(
                f"{name}: {asks.function} over the rows of a match adds up numbers of 64 bits, and {shown} is {kind}",
                hint=f"Write {asks.function}(cast({shown} as double))",
            )
        if asks.function == "avg" or is_real(kind):
            return DOUBLE
        return Decimal(kind.precision + 10, kind.scale) if isinstance(kind, Decimal) else BIGINT


def _asked(part: ValueOf | TotalOf) -> tuple[RowOf | TotalOf, str | None]:
    if isinstance(part, TotalOf):
        return TotalOf(part.function, part.variable, None), part.sql
    if part.row.base == "current":  # a match stands at its last row
        return RowOf("last", None, 0, part.row.back), part.sql
    return part.row, part.sql
