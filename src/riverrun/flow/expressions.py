"""Spark SQL expressions over one row: parsed, checked against the columns, and typed, without Spark.

An expression is refused when it names a column that is not there, or when it could not be computed row by row and again
with the same result. What Spark alone can decide is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp

from riverrun.ddl import Array, Map, Struct, Type, quoted
from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.flow import text
from riverrun.flow.functions import AGGREGATES, GENERATORS, NONDETERMINISTIC, WINDOWS
from riverrun.flow.inference import infer
from riverrun.flow.parser import parse
from riverrun.flow.schema import BOOLEAN, HIDDEN, Schema
from riverrun.flow.syntax import TooDeep, UnknownSyntax
from riverrun.flow.text import Reference
from riverrun.habits import COLUMN_METHODS

_CALLS = 'SQL has functions: "upper(name)"'


@dataclass(frozen=True, slots=True)
class Expression:
    """One value per row. `sql` is as it was written, without comments; `canonical` the same whatever spaces and case."""

    sql: str
    type: Type | None
    columns: tuple[str, ...]
    canonical: str
    references: tuple[Reference, ...]

    @property
    def plain(self) -> str | None:
        """The column's name, if it is just a column."""
        if len(self.columns) != 1:
            return None
        name = self.columns[0]
        return name if self.canonical.lower() in (name.lower(), "`" + name.lower().replace("`", "``") + "`") else None

    def over(self, value: Callable[[str], str]) -> str:
        """The text with `value(column)` in the place of every column, and else as it was written."""
        parts, at = [], 0
        for place in self.references:
            called = f" AS {self.sql[place.start : place.end]}" if place.field else ""
            parts += [self.sql[at : place.start], value(place.column), called]
            at = place.end
        return "".join([*parts, self.sql[at:]])

    def __str__(self) -> str:
        return self.sql


Wanted = list[tuple[str, Expression | None]]
"""The columns that are read of a node: (name, expression over the node's columns; None: the column itself)."""


@dataclass(frozen=True, slots=True)
class Order:
    """One part of an ordering: "amount desc"."""

    expression: Expression
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        return (
            f"{self.expression} {'desc' if self.descending else 'asc'} nulls {'first' if self.nulls_first else 'last'}"
        )


def column(name: str, schema: Schema) -> Expression:
    """The expression that is just this column."""
    known = schema.resolve(name)
    sql = quoted(known)
    return Expression(sql, schema[known], (known,), sql.lower(), (Reference(0, len(sql), known),))


def expression(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> Expression:
    """A checked expression over `schema`; of the columns every row carries, it may read those in `hidden`."""
    return _Reading(sql, schema, hidden).whole()


def condition(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> Expression:
    """An expression that is true or false."""
    made = expression(sql, schema, hidden)
    if made.type not in (None, BOOLEAN):
        hint = "|| joins texts: write or" if "||" in sql else 'A condition compares: "amount > 0"'
        raise Invalid(f"{sql!r} is {made.type}, not boolean", hint=hint)
    return made


def item(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> list[tuple[str, Expression]]:
    """What one item of a select gives: (name, expression); a star gives every column."""
    return _Reading(sql, schema, hidden).item()


def ordering(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> tuple[Order, ...]:
    """The parts of an SQL ordering; nulls come first going up and last going down, unless it says otherwise."""
    reading = _Reading(sql, schema, hidden)
    return tuple(_order(part, schema, hidden) for part in reading.split())


def _order(sql: str, schema: Schema, hidden: frozenset[str]) -> Order:
    tokens = text.tokens(sql)
    if not tokens:
        raise Invalid("a part of the ordering is empty", hint='Write "amount desc, name"')
    words = [token.text.lower() for token in tokens]
    nulls = words[-1] if len(words) > 2 and words[-2] == "nulls" and words[-1] in ("first", "last") else None
    if nulls:
        del tokens[-2:], words[-2:]
    way = words.pop() if len(words) > 1 and words[-1] in ("asc", "desc") else "asc"
    made = expression(sql[: tokens[len(words) - 1].end + 1], schema, hidden)
    return Order(made, way == "desc", nulls == "first" if nulls else way == "asc")


def refuse_deep(sql: str) -> None:
    """Refuse a text that is nested deeper than it can be read; what only Spark reads may pass."""
    try:
        parse(sql)
    except TooDeep:
        raise
    except UnknownSyntax:
        return


class _Reading:
    """One text on its way to an expression."""

    def __init__(self, sql: str, schema: Schema, hidden: frozenset[str]) -> None:
        if not isinstance(sql, str):
            raise Invalid(f"an expression is a string of Spark SQL, not {sql!r}")
        if not sql.strip():
            raise Invalid("an expression is empty")
        self.sql, self.schema, self.hidden = text.cleaned(sql), schema, hidden
        if not self.sql:
            raise Invalid(f"{sql!r} is only a comment")
        refuse_deep(self.sql)
        self.tokens = text.tokens(self.sql)
        self.used: dict[str, None] = {}

    def split(self) -> list[str]:
        """The parts between the commas that stand outside of every bracket."""
        parts, start, depth = [], 0, 0
        for token in self.tokens:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
            if token.text == "," and depth == 0:
                parts.append(self.sql[start : token.start])
                start = token.end + 1
        return [*parts, self.sql[start:]]

    def parsed(self) -> exp.Expression:
        try:
            select = text.parsed(self.sql)
        except Invalid:
            parse(self.sql)  # which says where it ceases to be an expression
            raise
        extra = [name for name, value in select.args.items() if value and name != "expressions"]
        if not isinstance(select, exp.Select) or extra or len(select.expressions) != 1 or select.find(exp.Command):
            self.refuse("is not one expression", hint="Write one Spark SQL expression, without FROM or a comma")
        return select.expressions[0]

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        raise Invalid(f"{self.sql!r} {why}", hint=hint)

    def whole(self) -> Expression:
        tree = self.parsed()
        if isinstance(tree, exp.Alias):
            self.refuse("has a name of its own", hint='Only select takes "… as name"')
        return self.checked(tree, self.tokens)

    def item(self) -> list[tuple[str, Expression]]:
        tree = self.parsed()
        if isinstance(tree, exp.Star):
            return self.star(tree)
        if isinstance(tree, exp.Alias):
            words = [token.text.lower() for token in self.tokens]
            kept = len(words) - (2 if words[-2] == "as" else 1)
            return [(tree.alias, self.checked(tree.this, self.tokens[:kept]))]
        made = self.checked(tree, self.tokens)
        if isinstance(tree, exp.Column):
            names = [part.name for part in tree.parts]
            return [(self.schema.resolve(names[0]) if len(names) == 1 and names[0] in self.schema else names[-1], made)]
        if isinstance(tree, exp.Dot):
            return [(tree.expression.name, made)]
        return self.refuse("has no name", hint=f'Write "{self.sql} as name"')

    def star(self, tree: exp.Expression) -> list[tuple[str, Expression]]:
        if any(value for name, value in tree.args.items() if name != "except_"):
            self.refuse("is more than a star", hint='Write "*" or "* except (a, b)"')
        left_out = {self.schema.resolve(part.name) for part in tree.args.get("except_") or ()}
        return [(name, column(name, self.schema)) for name in self.schema if name not in left_out]

    def checked(self, tree: exp.Expression, tokens: Sequence[Any]) -> Expression:
        """The expression that these tokens are, from the first of the text."""
        self.check_calls(tree, tokens)
        for part in tree.find_all(exp.Column):
            self.type_of(tuple(step.name for step in part.parts))
        sql = self.sql[: tokens[-1].end + 1]
        places = text.references(tree, self.sql, tokens, {name.lower() for name in (*self.schema, *self.hidden)})
        found = tuple(replace(place, column=self.known(place.column)) for place in places)
        return Expression(
            sql=sql,
            type=infer(sql, self.type_of),
            columns=tuple(self.used),
            canonical=" ".join(text.normal(token, self.sql) for token in tokens),
            references=found,
        )

    def check_calls(self, tree: exp.Expression, tokens: Sequence[Any]) -> None:
        calls = text.calls(self.sql, tokens)
        for name in calls:
            if name in NONDETERMINISTIC or (name == "unix_timestamp" and tree.find(exp.CurrentTimestamp)):
                self.nondeterministic(name)
            if name in GENERATORS:
                self.refuse(f"makes several rows of one: {name}")
        if tree.find(exp.Query, exp.Subquery):
            self.refuse("has a query inside", hint="Join the other table instead")
        if tree.find(exp.Window) or WINDOWS & set(calls):
            self.refuse("is about other rows too (a window function)", hint="Use .window(…), .top(…) or .group(…)")
        for one, other in pairwise(tokens):
            if one.text.lower() == "in" and other.text == "[":
                self.refuse("has a list in brackets", hint='Write in (…): "status in (1, 2)"')
        for part in tree.find_all(exp.Dot):
            of = next(part.find_all(exp.Identifier, bfs=False)).name
            if isinstance(part.expression, exp.Func) and of in self.schema:
                self.refuse(f"calls a method of {of!r}", hint=COLUMN_METHODS.get(part.expression.name.lower(), _CALLS))
        any_of = any(not isinstance(part.parent, exp.Binary) for part in tree.find_all(exp.Any))
        if any_of or tree.find(exp.AggFunc) or AGGREGATES & set(calls):
            self.refuse("aggregates, and this is about one row", hint="Use .group(…).agg(…) or .window(…).agg(…)")
        for part in tree.find_all(exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser, exp.SessionUser):
            self.nondeterministic(part.sql_name().lower())
        if tree.find(exp.Placeholder, exp.Parameter):
            self.refuse("has a parameter", hint="Put the value into the text")
        if tree.find(exp.Star):
            self.refuse("has a star inside")

    def nondeterministic(self, name: str) -> NoReturn:
        self.refuse(
            f"is not deterministic: {name}",
            hint="Read again, the same rows must give the same results; _received is the time a row came in",
        )

    def type_of(self, names: tuple[str, ...]) -> Type | None:
        """The type of a column or of a field inside it; marks the column as used."""
        known = self.known(names[0])
        return HIDDEN[known] if self.carried(known) else self.field(self.schema[known], names)

    def known(self, name: str) -> str:
        """The column of this name, which is used."""
        if not self.carried(name) and name not in self.schema and not self.schema.open:
            self.unknown(name)
        known = name.lower() if self.carried(name) else self.schema.resolve(name)
        self.used[known] = None
        return known

    def carried(self, name: str) -> bool:
        return name.lower() in HIDDEN and name.lower() in self.hidden

    def unknown(self, name: str) -> NoReturn:
        if name.lower() in NONDETERMINISTIC:
            self.nondeterministic(name)
        if name.lower() in HIDDEN:
            self.refuse(
                f"reads {name}, which only streams have, before anything stateful",
                hint="Select it earlier under a name; here is _time",
            )
        if name == "None":
            raise NotFound(f"there is no column {name!r} in {self.sql!r}", hint='Write null: "amount is null"')
        known = [*self.schema, *(sorted(self.hidden) if name.startswith("_") else ())]
        raise NotFound(f"there is no column {name!r} in {self.sql!r}", hint=did_you_mean(name, known))

    def field(self, known: Type | None, names: tuple[str, ...]) -> Type | None:
        for above, name in pairwise(names):
            inner = known.element if isinstance(known, Array) else known
            if isinstance(inner, Struct):
                fields = {part.name.lower(): part for part in inner.fields}
                if name.lower() not in fields:
                    hint = did_you_mean(name, [part.name for part in inner.fields])
                    raise NotFound(f"{above!r} has no field {name!r} in {self.sql!r}", hint=hint)
                found = fields[name.lower()].type
                known = Array(found) if isinstance(known, Array) else found
            elif isinstance(known, Map):
                known = known.value
            elif known is None:
                return None
            else:
                raise NotFound(f"{above!r} is {known} and has no field {name!r} in {self.sql!r}")
        return known
