"""Measures of rules: what is said of each match, as JSON.

Most measures are a value of one row, or a total; these are gathered. Only what is computed of several of them goes through
DuckDB, once for all matches of a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
import pyarrow as pa

from riverrun import ddl
from riverrun.errors import Invalid, RiverrunError
from riverrun.expressions import Unverified, translate
from riverrun.expressions.safety import null_where_it_fails
from riverrun.expressions.statement import Statement
from riverrun.expressions.typing import column_types
from riverrun.flow.expressions import expression
from riverrun.flow.schema import Schema
from riverrun.patterns.kinds import is_nested
from riverrun.patterns.measures import MatchValue, MeasureSet
from riverrun.patterns.navigation import RowOf
from riverrun.patterns.results import MatchedRows
from riverrun.patterns.tree import MatchPattern
from riverrun.rules.columns import AskedColumns, RuleColumns
from riverrun.rules.growth import refuse_growth
from riverrun.rules.matches import RuleMatches
from riverrun.state.frames import frame_of, from_arrow, stack, to_arrow

_MATCHES = "matches"
_GATHERED, _COMPUTED = 1, 10  # steps of the search that take as long as a value


@dataclass(frozen=True, eq=False)
class RuleMeasures:
    """The measures of a rule by name, in their `order`: each is one of the `values` of a match, or an expression of DuckDB
    over them."""

    order: tuple[str, ...]
    values: Mapping[str, MatchValue]
    plain: Mapping[str, str]
    computed: Mapping[str, str]

    @classmethod
    def read(cls, measures: Mapping[str, str], pattern: MatchPattern, columns: RuleColumns) -> RuleMeasures:
        """The measures that are written; refused where one cannot be read."""
        made = MeasureSet(columns.columns, pattern.variables)
        plain, computed = {}, {}
        for name, sql in measures.items():
            try:
                text = made.add(name, sql)
                for value in made.values.values():
                    _settle(value, columns)
                outer = expression(text, Schema(tuple((one.name, one.type) for one in made.values.values())))
                if outer.plain is not None:
                    plain[name] = outer.plain
                else:
                    refuse_growth(text)
                    over = outer.over(lambda column: f"`{_MATCHES}`.{ddl.backquoted(column)}")
                    computed[name] = null_where_it_fails(translate(over, column_types(_fields(made.values))))
            except Unverified as error:
                raise Invalid(f"measure {name}: {error.message.replace(f'`{_MATCHES}`.', '')}") from None
            except RiverrunError as error:
                message = error.message.removeprefix(f"{name}: ")
                raise Invalid(f"measure {name}: {message}", hint=error.hint) from None
        if computed and not made.values:
            made.add("", "count(*)")  # something has to say how many matches there are
        return cls(tuple(measures), made.values, plain, computed)

    @property
    def back(self) -> int:
        """How many rows before a row of the match they ask for."""
        return max((value.asks.back for value in self.values.values() if isinstance(value.asks, RowOf)), default=0)

    @property
    def reads(self) -> list[str]:
        """The columns they need."""
        return [value.source for value in self.values.values() if value.source is not None]

    @property
    def cost(self) -> int:
        """What they take of each match, in steps of the search."""
        return _GATHERED * len(self.values) + _COMPUTED * len(self.computed)

    @cached_property
    def _statement(self) -> Statement:
        return Statement(_MATCHES, _fields(self.values), list(self.computed.values()))

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """What is alike in measures that can be computed together."""
        types = tuple((name, str(value.type)) for name, value in self.values.items())
        return self.order, types, tuple(self.plain.items()), tuple(self.computed.items())

    def known(self, matches: RuleMatches, columns: AskedColumns) -> pl.DataFrame:
        """The values of each match."""
        frame = frame_of([columns.values(name).alias(name) for name in dict.fromkeys(self.reads)])
        rows = MatchedRows(frame, matches.found, matches.names, matches.low, every_row=False)
        return frame_of([rows.value(value).alias(name) for name, value in self.values.items()])

    def texts(self, known: pl.DataFrame) -> pl.Series:
        """The measures of matches with these values, as JSON objects."""
        made = {name: known.get_column(value) for name, value in self.plain.items()}
        if self.computed:
            given = to_arrow(known, _fields(self.values))
            made |= dict(zip(self.computed, from_arrow(self._statement.run(given)).get_columns(), strict=True))
        columns = [_without_bytes(made[name]).alias(name) for name in self.order]
        return frame_of(columns).to_struct("").struct.json_encode()


def measured(found: Sequence[tuple[RuleMeasures, RuleMatches]], columns: AskedColumns) -> pl.Series:
    """The measures of the matches of several rules, as JSON objects, one rule after the other."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, (measures, _) in enumerate(found):
        kinds.setdefault(measures.kind, []).append(number)
    texts: dict[int, pl.Series] = {}
    for alike in kinds.values():
        measures = found[alike[0]][0]
        counts = [found[number][1].count for number in alike]
        if measures.order:
            every = measures.texts(stack([found[number][0].known(found[number][1], columns) for number in alike]))
        else:
            every = pl.Series(["{}"]).new_from_index(0, sum(counts))
        at = 0
        for number, count in zip(alike, counts, strict=True):
            texts[number] = every.slice(at, count).alias("")
            at += count
    return pl.concat([texts[number] for number in range(len(found))], rechunk=True)


def _without_bytes(column: pl.Series) -> pl.Series:
    """JSON has no bytes: they are written in base64."""
    return column.bin.encode("base64") if column.dtype == pl.Binary else column


def _has_bytes(kind: ddl.Type) -> bool:
    match kind:
        case ddl.Array(element):
            return _has_bytes(element)
        case ddl.Map(key, value):
            return _has_bytes(key) or _has_bytes(value)
        case ddl.Struct(fields):
            return any(_has_bytes(part.type) for part in fields)
    return str(kind) == "binary"


def _settle(value: MatchValue, columns: RuleColumns) -> None:
    if value.source is not None:
        columns.ask(value.source)
    if value.type is None:
        raise Invalid(f"the type of {columns.columns.expressions[str(value.source)]} is not known", hint="Cast it")
    if is_nested(value.type) and _has_bytes(value.type):
        raise Invalid(f"{value.type} has bytes inside, and JSON has none", hint="Take them out and write base64(…)")


def _fields(values: Mapping[str, MatchValue]) -> pa.Schema:
    return pa.schema([(name, ddl.to_arrow(value.type)) for name, value in values.items() if value.type is not None])
