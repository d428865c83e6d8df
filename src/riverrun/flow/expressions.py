"""Spark SQL expressions over one row: parsed, checked against the columns, and typed, without Spark.

An expression is refused when it names a column that is not there, or when it could not be computed row by row and again
with the same result. What Spark alone can decide is left to Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from riverrun.ddl import Array, Map, Struct, Type, quoted
from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.flow.functions import AGGREGATES, GENERATORS, NONDETERMINISTIC, WINDOWS
from riverrun.flow.inference import infer
from riverrun.flow.schema import BOOLEAN, HIDDEN, Schema

DIALECT = "spark"


@dataclass(frozen=True, slots=True)
class Expression:
    """One value per row. `sql` is as it was written, `canonical` the same whatever its spaces, comments and case."""

    sql: str
    type: Type | None
    columns: tuple[str, ...]
    canonical: str

    @property
    def plain(self) -> str | None:
        """The column's name, if it is just a column."""
        if len(self.columns) != 1:
            return None
        name = self.columns[0]
        return name if self.canonical.lower() in (name.lower(), "`" + name.lower().replace("`", "``") + "`") else None

    def __str__(self) -> str:
        return self.sql


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
    return Expression(quoted(known), schema[known], (known,), quoted(known).lower())


def expression(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> Expression:
    """A checked expression over `schema`; of the columns every row carries, it may read those in `hidden`."""
    return _Reading(sql, schema, hidden).whole()


def condition(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> Expression:
    """An expression that is true or false."""
    made = expression(sql, schema, hidden)
    if made.type not in (None, BOOLEAN):
        raise Invalid(f"{sql!r} is {made.type}, not boolean", hint='A condition compares: "amount > 0"')
    return made


def item(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> list[tuple[str, Expression]]:
    """What one item of a select gives: (name, expression); a star gives every column."""
    return _Reading(sql, schema, hidden).item()


def ordering(sql: str, schema: Schema, hidden: frozenset[str] = frozenset()) -> tuple[Order, ...]:
    """The parts of an SQL ordering; nulls come first going up and last going down, unless it says otherwise."""
    reading = _Reading(sql, schema, hidden)
    return tuple(_order(part, schema, hidden) for part in reading.split())


def _order(sql: str, schema: Schema, hidden: frozenset[str]) -> Order:
    tokens = _tokens(sql)
    if not tokens:
        raise Invalid("a part of the ordering is empty", hint='Write "amount desc, name"')
    words = [token.text.lower() for token in tokens]
    nulls = words[-1] if len(words) > 2 and words[-2] == "nulls" and words[-1] in ("first", "last") else None
    if nulls:
        del tokens[-2:], words[-2:]
    way = words.pop() if len(words) > 1 and words[-1] in ("asc", "desc") else "asc"
    made = expression(sql[: tokens[len(words) - 1].end + 1], schema, hidden)
    return Order(made, way == "desc", nulls == "first" if nulls else way == "asc")


def _tokens(sql: str) -> list[Any]:
    try:
        tokens = list(sqlglot.tokenize(sql, read=DIALECT))
    except SqlglotError as error:
        raise Invalid(f"cannot read {sql!r}: {str(error).splitlines()[0]}") from None
    # A literal such as 1L comes as three tokens in one place.
    return [
        token
        for token, before in zip(tokens, [None, *tokens], strict=False)
        if not before or token.start > before.start
    ]


def _parsed(sql: str) -> exp.Expression:
    # The parser writes warnings about text it does not understand to a log; here that is an error with a place.
    log = logging.getLogger("sqlglot")
    silent, log.disabled = log.disabled, True
    try:
        return sqlglot.parse_one(f"SELECT {sql}\n", dialect=DIALECT)
    except SqlglotError as error:
        why = str(error).splitlines()[0].split(". Line")[0]
        raise Invalid(f"cannot read {sql!r}: {'something is missing' if 'missing for' in why else why}") from None
    except (IndexError, AttributeError, TypeError, RecursionError):
        raise Invalid(f"cannot read {sql!r}") from None  # half-written calls trip the parser itself
    finally:
        log.disabled = silent


class _Reading:
    """One text on its way to an expression."""

    def __init__(self, sql: str, schema: Schema, hidden: frozenset[str]) -> None:
        if not isinstance(sql, str):
            raise Invalid(f"an expression is a string of Spark SQL, not {sql!r}")
        if not sql.strip():
            raise Invalid("an expression is empty")
        self.sql, self.schema, self.hidden = sql, schema, hidden
        self.tokens = _tokens(sql)
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
        select = _parsed(self.sql)
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
        return self.checked(tree, self.sql.strip(), self.tokens)

    def item(self) -> list[tuple[str, Expression]]:
        tree = self.parsed()
        if isinstance(tree, exp.Star):
            return self.star(tree)
        if isinstance(tree, exp.Alias):
            words = [token.text.lower() for token in self.tokens]
            kept = len(words) - (2 if words[-2] == "as" else 1)
            text = self.sql[: self.tokens[kept - 1].end + 1].strip()
            return [(tree.alias, self.checked(tree.this, text, self.tokens[:kept]))]
        made = self.checked(tree, self.sql.strip(), self.tokens)
        if isinstance(tree, exp.Column):
            names = [part.name for part in tree.parts]
            return [(self.schema.resolve(names[0]) if len(names) == 1 and names[0] in self.schema else names[-1], made)]
        if isinstance(tree, exp.Dot):
            return [(tree.expression.name, made)]
        return self.refuse("has no name", hint=f'Write "{self.sql.strip()} as name"')

    def star(self, tree: exp.Expression) -> list[tuple[str, Expression]]:
        if any(value for name, value in tree.args.items() if name != "except_"):
            self.refuse("is more than a star", hint='Write "*" or "* except (a, b)"')
        left_out = {self.schema.resolve(part.name) for part in tree.args.get("except_") or ()}
        return [(name, column(name, self.schema)) for name in self.schema if name not in left_out]

    def checked(self, tree: exp.Expression, text: str, tokens: Sequence[Any]) -> Expression:
        self.check_calls(tree, tokens)
        made = infer(tree, self.type_of, {})
        for part in tree.find_all(exp.Column):
            self.type_of(part)
        return Expression(text, made, tuple(self.used), " ".join(_normal(token, self.sql) for token in tokens))

    def check_calls(self, tree: exp.Expression, tokens: Sequence[Any]) -> None:
        calls = [
            token.text.lower()
            for token, after in pairwise(tokens)
            if after.text == "(" and self.sql[token.start] != "`"
        ]
        for name in calls:
            if name in NONDETERMINISTIC or (name == "unix_timestamp" and tree.find(exp.CurrentTimestamp)):
                self.nondeterministic(name)
            if name in GENERATORS:
                self.refuse(f"makes several rows of one: {name}")
        if tree.find(exp.Query, exp.Subquery):
            self.refuse("has a query inside", hint="Join the other table instead")
        if tree.find(exp.Window) or WINDOWS & set(calls):
            self.refuse("is about other rows too (a window function)", hint="Use .window(…), .top(…) or .group(…)")
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

    def type_of(self, tree: exp.Expression | None) -> Type | None:
        """The type of a column or of a field inside it; marks the column as used."""
        assert tree is not None
        names = [part.name for part in tree.parts]
        root = names[0]
        if root.lower() in HIDDEN and root.lower() in self.hidden:
            self.used[root.lower()] = None
            return HIDDEN[root.lower()]
        if root not in self.schema and not self.schema.open:
            self.unknown(root)
        known = self.schema.resolve(root)
        self.used[known] = None
        return self.field(self.schema[known], names)

    def unknown(self, name: str) -> NoReturn:
        if name.lower() in NONDETERMINISTIC:
            self.nondeterministic(name)
        if name.lower() in HIDDEN:
            self.refuse(
                f"reads {name}, which is only there before anything stateful", hint="Select it earlier under a name"
            )
        known = [*self.schema, *(sorted(self.hidden) if name.startswith("_") else ())]
        raise NotFound(f"there is no column {name!r} in {self.sql!r}", hint=did_you_mean(name, known))

    def field(self, known: Type | None, names: list[str]) -> Type | None:
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


def _normal(token: Any, sql: str) -> str:
    text = sql[token.start : token.end + 1]
    return text if text[:1] in "'\"`" else text.lower()
