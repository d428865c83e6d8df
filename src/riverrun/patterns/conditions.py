"""Conditions of variables: what looks at one row is left to the expressions of the flow, as a column that is true or
false; what compares rows becomes a program.

The parts of a condition that `and` joins are taken apart, so that as much as possible is known of a row before any match
is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from riverrun.errors import Invalid
from riverrun.flow.parser import parse
from riverrun.flow.schema import BOOLEAN
from riverrun.flow.syntax import Call, Tree, UnknownSyntax
from riverrun.patterns.assembly import ConditionAssembly
from riverrun.patterns.navigation import CURRENT, NavigatedText, RowOf, TotalOf, ValueOf, rewrite
from riverrun.patterns.program import (
    ColumnSet,
    RowProgram,
)


@dataclass(frozen=True)
class VariableCondition:
    """When a row is a variable: a column is true, and programs are."""

    column: str | None = None
    programs: tuple[RowProgram, ...] = ()


def read_condition(name: str, sql: str, variables: Collection[str], columns: ColumnSet) -> VariableCondition:
    """The condition of a variable; what it reads of single rows is added to `columns`."""
    rewritten = _seen_by(rewrite(sql, variables), name)
    try:
        tree = parse(rewritten.sql)
    except UnknownSyntax as error:
        if rewritten.parts:
            raise Invalid(f"{name}: {error.message}", hint=error.hint) from None
        return VariableCondition(_truth(name, [rewritten.sql], columns))
    reading = ConditionAssembly(name, rewritten, columns)
    single, programs = [], []
    for part in _conjuncts(tree):
        if reading.rows(part) <= {CURRENT}:
            single.append(reading.restored(part.text))
        else:
            programs.append(reading.program(part))
    return VariableCondition(_truth(name, single, columns) if single else None, tuple(programs))


def _truth(name: str, parts: Sequence[str], columns: ColumnSet) -> str:
    sql = parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)
    column = columns.add(sql)
    if columns.expressions[column].type not in (None, BOOLEAN):
        raise Invalid(
            f"{name}: {sql!r} is {columns.expressions[column].type}, not boolean", hint="A condition compares"
        )
    return column


def _seen_by(rewritten: NavigatedText, name: str) -> NavigatedText:
    """A row that is tried as a variable is the last row of it, and of the match."""
    parts: dict[str, ValueOf | TotalOf] = {}
    for key, part in rewritten.parts.items():
        parts[key] = part
        if isinstance(part, ValueOf) and part.row in (
            replace(part.row, base="last", variable=v, n=0) for v in (None, name)
        ):
            parts[key] = replace(part, row=RowOf(back=part.row.back))
    return replace(rewritten, parts=parts)


def _conjuncts(tree: Tree) -> list[Tree]:
    match tree:
        case Call("and", (one, other)):
            return [*_conjuncts(one), *_conjuncts(other)]
    return [tree]
