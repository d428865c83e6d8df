"""Comparisons, and what is built on them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal as Exact

from riverrun.ddl import Array, Map, Struct
from riverrun.expressions.casts import cast
from riverrun.expressions.conditions import check_nullable, conjunction, disjunction, negation
from riverrun.expressions.forms import Given, form
from riverrun.expressions.term import Term, eager, let, strict
from riverrun.flow.coercion import compared, widest
from riverrun.flow.schema import BOOLEAN, is_integral
from riverrun.flow.syntax import VOID, Constant, Tree

_OPERATORS = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@form(*_OPERATORS)
def comparison(given: Given) -> Term:
    left, right = _sides(given, given.expect(2), given.call.arguments)
    return compare(given.call.name, left, right)


@form("<=>", "equal_null")
def null_safe(given: Given) -> Term:
    left, right = _sides(given, given.expect(2), given.call.arguments)
    if left.sql == right.sql and left.may_fail:
        given.refuse("compares something with itself, which Spark may skip")
    return eager(BOOLEAN, [left, right], lambda one, other: f"({one} IS NOT DISTINCT FROM {other})")


def compare(operator: str, left: Term, right: Term) -> Term:
    """Two terms of one type."""
    return strict(BOOLEAN, [left, right], lambda one, other: f"({one} {_OPERATORS[operator]} {other})")


def _sides(given: Given, sides: Sequence[Term], trees: Sequence[Tree]) -> tuple[Term, Term]:
    """Both sides in the type in which Spark compares them."""
    left, right = sides
    one, other = trees
    for whole, tree in ((left, other), (right, one)):
        if (
            is_integral(whole.type)
            and isinstance(tree, Constant)
            and isinstance(tree.value, Exact)
            and abs(tree.value) >= 1 << 63
        ):
            given.refuse("compares a whole number with one that is too large, which Spark answers even for null")
    kind = compared(left.type, right.type, (one, other))
    if kind is None or kind == VOID or isinstance(kind, Array | Map | Struct):
        given.refuse(f"compares {left.type} with {right.type}")
    return cast(left, kind), cast(right, kind)


@form("between")
def between(given: Given) -> Term:
    value, low, high = given.expect(3)
    trees = given.call.arguments
    name = Term("\2", value.type)

    def sides(subject: Term) -> Term:
        above = compare(">=", *_sides(given, (subject, low), trees[:2]))
        below = compare("<=", *_sides(given, (subject, high), (trees[0], trees[2])))
        return conjunction(above, below)

    if value.cost <= 2:
        return sides(value)
    whole = sides(name)
    sql = let(value, lambda variable: whole.sql.replace(name.sql, variable))
    return Term(sql, BOOLEAN, value.may_fail or whole.may_fail, value.cost + whole.cost)


@form("in")
def listed(given: Given) -> Term:
    """IN is a chain of comparisons: those after the first that holds are not made."""
    if len(given.arguments) < 2:
        given.refuse()
    kind = widest(term.type for term in given.arguments)
    if kind is None or kind == VOID or isinstance(kind, Array | Map | Struct):
        given.refuse("compares values of different types")
    value, *others = (cast(term, kind) for term in given.arguments)
    if not any(term.may_fail for term in others):
        return strict(BOOLEAN, [value], lambda one: f"({one} IN ({', '.join(term.sql for term in others)}))")
    if value.cost > 2:
        given.refuse("has values in its list that may fail")
    found = compare("=", value, others[0])
    for other in others[1:]:
        found = disjunction(found, compare("=", value, other))
    return found


@form("not", "!")
def inverse(given: Given) -> Term:
    (value,) = given.expect(1)
    return negation(cast(value, BOOLEAN))


@form("isnull")
def is_null(given: Given) -> Term:
    (value,) = given.expect(1)
    check_nullable(given, value)
    return eager(BOOLEAN, [value], lambda one: f"({one} IS NULL)")


@form("isnotnull")
def is_not_null(given: Given) -> Term:
    (value,) = given.expect(1)
    check_nullable(given, value)
    return eager(BOOLEAN, [value], lambda one: f"({one} IS NOT NULL)")


@form("nullif")
def null_if(given: Given) -> Term:
    value, other = given.expect(2)
    kind = compared(value.type, other.type, (given.call.arguments[0], given.call.arguments[1]))
    if kind is None or VOID in (value.type, other.type):
        given.refuse()

    def build(one: str) -> str:
        same = compare("=", cast(Term(one, value.type), kind), cast(other, kind))
        return f"CASE WHEN {same.sql} THEN NULL ELSE {one} END"

    fails = value.may_fail or compare("=", cast(value, kind), cast(other, kind)).may_fail
    return Term(let(value, build), value.type, fails, value.cost + other.cost + 2)
