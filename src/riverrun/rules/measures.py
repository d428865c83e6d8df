"""Measures of rules: what is said of each match, as JSON.

Most measures are a value of one row, or a total; these are gathered. Only what is computed of several of them goes through
DuckDB, once for all matches of a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.ddl import Decimal, Type
from riverrun.errors import Invalid, RiverrunError
from riverrun.expressions import Unverified, translate
from riverrun.expressions.safety import null_where_it_fails
from riverrun.expressions.statement import Statement
from riverrun.expressions.typing import column_types
from riverrun.flow.expressions import expression
from riverrun.flow.schema import BIGINT, DOUBLE, Schema
from riverrun.patterns.navigation import CURRENT, RowOf, TotalOf, ValueOf, rewrite
from riverrun.patterns.program import is_number, is_real
from riverrun.patterns.tables import Whole
from riverrun.patterns.tree import Pattern
from riverrun.rules.columns import AskedColumns, RuleColumns
from riverrun.state.frames import frame_of, from_arrow, series, take, take_or_null, to_arrow

_MATCHES = "matches"
_OWNER, _VALUE, _SEEN = "owner", "value", "seen"


@dataclass(frozen=True)
class Part:
    """Something that is known of a match: the value of a column in one of its rows, or a total; `column` is one that was
    asked for, None where rows are counted."""

    of: RowOf | TotalOf
    column: str | None
    type: Type


@dataclass(frozen=True)
class MatchedRows:
    """Matches, and the rows of an epoch they have: match m has `rows[first[m]:first[m + 1]]`, which are the variables
    `variables`; `low` is the first row of its sequence, `key` the number of it."""

    names: tuple[str, ...]
    first: Whole
    rows: Whole
    variables: Whole
    low: Whole
    key: Whole

    @cached_property
    def owner(self) -> Whole:
        """The match that each row is of."""
        return np.repeat(np.arange(len(self.low)), np.diff(self.first))

    def of(self, variable: str | None) -> tuple[Whole, Whole]:
        """The rows that are a variable, and whose they are."""
        if variable is None:
            return self.rows, self.owner
        chosen = self.variables == self.names.index(variable)
        return self.rows[chosen], self.owner[chosen]

    def place(self, row: RowOf) -> Whole:
        """The row of each match that is meant; -1 where there is none."""
        if row.base == "current":
            places = self.rows[self.first[1:] - 1]
        else:
            rows, owner = self.of(row.variable)
            count = np.bincount(owner, minlength=len(self.low))
            begin = np.cumsum(count) - count
            at = begin + row.n if row.base == "first" else begin + count - 1 - row.n
            places = np.full(len(self.low), -1)
            there = count > row.n
            places[there] = rows[at[there]]
        back = places - row.back
        return np.where((places >= 0) & (back >= self.low), back, -1)


@dataclass(frozen=True, eq=False)
class RuleMeasures:
    """The measures of a rule by name, each a name of a part or an expression of DuckDB over parts."""

    order: tuple[str, ...]
    parts: Mapping[str, Part]
    plain: Mapping[str, str]
    computed: Mapping[str, str]

    @classmethod
    def read(cls, measures: Mapping[str, str], pattern: Pattern, columns: RuleColumns) -> RuleMeasures:
        """The measures that are written; refused where one cannot be read."""
        reading = _Reading(pattern, columns)
        for name, sql in measures.items():
            try:
                reading.add(name, sql)
            except RiverrunError as error:
                raise Invalid(f"measure {name}: {error.message}", hint=error.hint) from None
        return cls(tuple(measures), reading.parts, reading.plain, reading.computed)

    @property
    def back(self) -> int:
        """How many rows before a row of the match they ask for."""
        return max((part.of.back for part in self.parts.values() if isinstance(part.of, RowOf)), default=0)

    @property
    def reads(self) -> list[str]:
        """The columns they need."""
        return [part.column for part in self.parts.values() if part.column is not None]

    @cached_property
    def _fields(self) -> pa.Schema:
        return pa.schema([(name, ddl.to_arrow(part.type)) for name, part in self.parts.items()])

    @cached_property
    def _statement(self) -> Statement:
        return Statement(_MATCHES, self._fields, list(self.computed.values()))

    def texts(self, matches: MatchedRows, columns: AskedColumns) -> pl.Series:
        """The measures of each match, as a JSON object."""
        if not self.parts:
            return pl.Series(["{}"]).new_from_index(0, len(matches.low))
        known = {name: _part(part, matches, columns).alias(name) for name, part in self.parts.items()}
        made = {name: known[part] for name, part in self.plain.items()}
        if self.computed:
            rows = to_arrow(frame_of(list(known.values())), self._fields)
            made |= dict(zip(self.computed, from_arrow(self._statement.run(rows)).get_columns(), strict=True))
        frame = frame_of([made[name].alias(name) for name in self.order])
        return frame.to_struct("").struct.json_encode()


class _Reading:
    def __init__(self, pattern: Pattern, columns: RuleColumns) -> None:
        self.pattern = pattern
        self.columns = columns
        self.parts: dict[str, Part] = {}
        self.plain: dict[str, str] = {}
        self.computed: dict[str, str] = {}
        self._named: dict[tuple[RowOf | TotalOf, str | None], str] = {}

    def add(self, name: str, sql: str) -> None:
        rewritten = rewrite(sql, self.pattern.variables)
        own = {part: self.part(value) for part, value in rewritten.parts.items()}
        types = {part: self.parts[known].type for part, known in own.items()}
        schema = Schema((*self.columns.schema.columns, *types.items()))
        outer = expression(rewritten.sql, schema)
        for column in outer.columns:
            if column not in own:
                own[column] = self.part(ValueOf(CURRENT, ddl.quoted(column)))
        if outer.plain is not None:
            self.plain[name] = own[outer.plain]
            return
        fields = pa.schema([(part, ddl.to_arrow(self.parts[part].type)) for part in dict.fromkeys(own.values())])
        text = outer.over(lambda column: f"`{_MATCHES}`.{ddl.backquoted(own[column])}")
        try:
            translated = translate(text, column_types(fields))
        except Unverified as error:
            raise Invalid(error.message.replace(f"`{_MATCHES}`.", ""), hint=error.hint) from None
        self.computed[name] = null_where_it_fails(translated)

    def part(self, value: ValueOf | TotalOf) -> str:
        """The name of a part, which is there once."""
        column = self.columns.columns.add(value.sql) if value.sql is not None else None
        of = value.row if isinstance(value, ValueOf) else value
        name = self._named.setdefault((of, column), f"_p{len(self._named)}")
        if name not in self.parts:
            kind: Type = BIGINT
            if column is not None:
                self.columns.ask(column)
                kind = self.columns.columns.type_of(column)
            if isinstance(of, TotalOf):
                kind = _total_type(of, kind)
            self.parts[name] = Part(of, column, kind)
        return name


def _total_type(total: TotalOf, kind: Type) -> Type:
    if total.function == "count":
        return BIGINT
    if total.function in ("sum", "avg"):
        if not is_number(kind):
            raise Invalid(f"{total.function} of {kind}", hint="Cast it to a number")
        return DOUBLE if total.function == "avg" or is_real(kind) or isinstance(kind, Decimal) else BIGINT
    return kind


def _part(part: Part, matches: MatchedRows, columns: AskedColumns) -> pl.Series:
    if isinstance(part.of, RowOf):
        assert part.column is not None
        return take_or_null(frame_of([columns.values(part.column).alias(_VALUE)]), matches.place(part.of)).to_series()
    rows, owner = matches.of(part.of.variable)
    many = len(matches.low)
    if part.column is None:
        return series(_VALUE, np.bincount(owner, minlength=many))
    values = take(frame_of([columns.values(part.column).alias(_VALUE)]), rows).to_series()
    entries = frame_of([series(_OWNER, owner), values])
    if part.of.function == "count":
        return series(_VALUE, np.bincount(owner[values.is_not_null().to_numpy()], minlength=many))
    value = pl.col(_VALUE)
    if part.of.function in ("sum", "avg"):
        value = value.cast(pl.Float64) if part.type == DOUBLE else value.cast(pl.Int64)
    totals = {"sum": value.sum(), "avg": value.mean(), "min": value.min(), "max": value.max()}
    if values.dtype.is_float():
        totals["max"] = value.nan_max()  # as in Spark, NaN is larger than every number
    found = entries.drop_nulls(_VALUE).group_by(_OWNER).agg(totals[part.of.function].alias(_VALUE))
    places = np.full(many, -1)
    places[found.get_column(_OWNER).to_numpy()] = np.arange(found.height)
    return take_or_null(found.select(_VALUE), places).to_series()
