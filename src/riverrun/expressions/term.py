"""Translated parts of an expression, and how they are put together so that DuckDB computes what Spark would compute.

Spark evaluates arguments from left to right and stops at the first that is null; branches that are not taken are never
evaluated. DuckDB evaluates a whole vector of every argument. It only matters where something may fail, and there the
order is forced with CASE, whose branches DuckDB computes for their own rows only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from riverrun.ddl import Array, Decimal, Map, Struct, Type
from riverrun.flow.coercion import is_interval, is_months
from riverrun.flow.syntax import Constant

LIGHT = 2
"""What may be computed twice: up to so many operations."""

_places = count()  # stand for variables until it is known which names are free


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression in DuckDB's SQL. Its value has the DuckDB type of its Spark type."""

    sql: str
    type: Type
    may_fail: bool = False
    cost: int = 0  # operations, roughly
    constant: Constant | None = None
    nullable: bool = False  # whether Spark takes it for something that may be null; if in doubt, no
    rowless: bool = False  # whether it is the same for every row
    folds: bool = (
        False  # whether a part is that is no literal: Spark may find it null before it sees a row, and all of this
    )
    operands: tuple[str, tuple[Term, ...]] | None = None  # of a sum or product of whole numbers, what is added up
    widened: Term | None = None  # the whole number that it is, as a float

    @property
    def is_null(self) -> bool:
        """Whether it is null whatever the row."""
        return self.constant is not None and self.constant.value is None


def duckdb_type(kind: Type) -> str:
    """The type of DuckDB that values of a Spark type are computed in. Intervals are whole numbers."""
    match kind:
        case Decimal(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case Array(element):
            return f"{duckdb_type(element)}[]"
        case Map(key, value):
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case Struct(fields):
            return f"STRUCT({', '.join(f'{quoted(field.name)} {duckdb_type(field.type)}' for field in fields)})"
    if is_interval(kind):
        return "INTEGER" if is_months(kind) else "BIGINT"
    return {
        "string": "VARCHAR",
        "int": "INTEGER",
        "binary": "BLOB",
        "timestamp": "TIMESTAMPTZ",
        "timestamp_ntz": "TIMESTAMP",
        "void": "INTEGER",
    }.get(str(kind), str(kind).upper())


def quoted(name: str) -> str:
    """A name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def string(text: str) -> str:
    """A string as DuckDB reads it."""
    whole = "'" + text.replace("'", "''") + "'"
    return whole if "\0" not in text else "(" + " || chr(0) || ".join(f"'{part}'" for part in _split(text)) + ")"


def _split(text: str) -> list[str]:
    return text.replace("'", "''").split("\0")


def failure(message: str) -> str:
    return f"error({string(message)})"


def null(kind: Type) -> Term:
    return Term(f"CAST(NULL AS {duckdb_type(kind)})", kind, constant=Constant(kind, None))


def let(term: Term, body: Callable[[str], str]) -> str:
    """`body` of the term's value, which is computed once."""
    if term.cost <= LIGHT:
        return body(term.sql)
    return _bound(term.sql, body)


def _bound(sql: str, body: Callable[[str], str]) -> str:
    """DuckDB has no `let`; a list of one value and a lambda over it are one, and stay vectors."""
    place = f"\1{next(_places)}\1"
    inside = body(place)
    numbers = [int(number) for number in re.findall(r"\bv(\d+)\b", inside + sql)]
    variable = f"v{max(numbers, default=0) + 1}"
    return f"list_transform([{sql}], lambda {variable}: {inside.replace(place, variable)})[1]"


def strict(
    kind: Type,
    terms: Sequence[Term],
    build: Callable[..., str],
    *,
    may_fail: bool = False,
    cost: int = 1,
    repeats: bool = False,
    reordered: bool = False,
) -> Term:
    """A function that is null when an argument is null, with its arguments in the order in which Spark evaluates them.

    `repeats` says that `build` uses its arguments more than once, `reordered` that the first does not come first there.
    """
    if any(term.is_null for term in terms):
        return null(kind)  # Spark knows it before it looks at any row

    def step(values: list[str]) -> str:
        rest = terms[len(values) :]
        guarded = any(term.may_fail for term in rest[1:]) or (reordered and not values and rest[0].may_fail)
        if not rest or not (guarded or repeats):
            return build(*values, *(term.sql for term in rest))
        term = rest[0]
        if not guarded or term.constant is not None:
            return let(term, lambda value: step([*values, value])) if repeats else step([*values, term.sql])
        return let(term, lambda value: f"CASE WHEN {value} IS NULL THEN NULL ELSE {step([*values, value])} END")

    fails = may_fail or any(term.may_fail for term in terms)
    nullable = any(term.nullable for term in terms)
    return Term(step([]), kind, fails, cost + sum(term.cost for term in terms), nullable=nullable)


def eager(kind: Type, terms: Sequence[Term], build: Callable[..., str], cost: int = 1) -> Term:
    """A function that looks at all of its arguments, null or not."""
    fails = any(term.may_fail for term in terms)
    return Term(build(*(term.sql for term in terms)), kind, fails, cost + sum(term.cost for term in terms))


def unskipped(kind: Type, terms: Sequence[Term], build: Callable[..., str], cost: int = 1) -> Term:
    """A function that is null when an argument is null, but looks at all of them: a later one may fail all the same."""

    def step(values: list[str]) -> str:
        rest = terms[len(values) :]
        if not any(term.may_fail for term in rest[1:]):
            return build(*values, *(term.sql for term in rest))
        if rest[0].constant is not None and not rest[0].is_null:
            return step([*values, rest[0].sql])
        return let(
            rest[0],
            lambda value: f"CASE WHEN {value} IS NULL THEN {_looked_at(rest[1:])} ELSE {step([*values, value])} END",
        )

    fails = any(term.may_fail for term in terms)
    nullable = any(term.nullable for term in terms)
    return Term(step([]), kind, fails, cost + sum(term.cost for term in terms), nullable=nullable)


def _looked_at(terms: Sequence[Term]) -> str:
    """Null, after the terms that may fail have been evaluated."""
    made = "NULL"
    for term in terms:
        if term.may_fail:
            made = f"CASE WHEN {term.sql} IS NULL THEN {made} ELSE {made} END"
    return made
