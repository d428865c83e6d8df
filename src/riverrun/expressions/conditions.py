"""Truth and choice: what Spark does not evaluate, is not evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.ddl import Type
from riverrun.expressions.casts import cast
from riverrun.expressions.forms import Given, form
from riverrun.expressions.term import Term, let, null, strict
from riverrun.flow.schema import BOOLEAN, STRING
from riverrun.flow.syntax import VOID


def _truth(term: Term) -> object:
    """The value of TRUE and FALSE, None for anything else."""
    return term.constant.value if term.constant is not None else None


def negation(value: Term) -> Term:
    return strict(BOOLEAN, [value], lambda one: f"(NOT {one})")


def conjunction(left: Term, right: Term) -> Term:
    """AND: the right side counts where the left is not false. Spark drops a side beside a literal."""
    if _truth(left) is False or _truth(right) is True:
        return left
    if _truth(right) is False or _truth(left) is True:
        return right
    return _connected(left, right, "AND", "FALSE")


def disjunction(left: Term, right: Term) -> Term:
    """OR: the right side counts where the left is not true."""
    if _truth(left) is True or _truth(right) is False:
        return left
    if _truth(right) is True or _truth(left) is False:
        return right
    return _connected(left, right, "OR", "TRUE")


def _connected(left: Term, right: Term, operator: str, decided: str) -> Term:
    cost = left.cost + right.cost + 1
    if not left.may_fail and not right.may_fail:
        return Term(f"({left.sql} {operator} {right.sql})", BOOLEAN, cost=cost)
    # DuckDB evaluates the sides of AND and OR in an order of its own.
    sql = let(left, lambda one: f"CASE WHEN {one} = {decided} THEN {decided} ELSE ({one} {operator} {right.sql}) END")
    return Term(f"({sql})", BOOLEAN, True, cost + 1)


@form("and")
def both(given: Given) -> Term:
    left, right = (_condition(given, term) for term in given.expect(2))
    return conjunction(left, right)


@form("or")
def either(given: Given) -> Term:
    left, right = (_condition(given, term) for term in given.expect(2))
    return disjunction(left, right)


def _condition(given: Given, term: Term) -> Term:
    if term.type not in (BOOLEAN, STRING, VOID):
        given.refuse(f"has {term.type} where a condition is expected")
    return cast(term, BOOLEAN)


def choice(given: Given, kind: Type, cases: Sequence[tuple[Term, Term]], otherwise: Term | None) -> Term:
    """CASE WHEN … THEN … ELSE … END."""
    last = null(kind) if otherwise is None else cast(otherwise, kind)
    conditions, values = [], []
    for condition, value in cases:
        if condition.constant is None:
            conditions.append(condition)
            values.append(cast(value, kind))
        elif condition.constant.value is True:  # Spark leaves out what cannot be reached
            last = cast(value, kind)
            break
    if all(value.sql == last.sql for value in values):
        if any(term.may_fail for term in conditions):
            given.refuse("has only one result, for which Spark does not look at the conditions")
        return last
    branches = " ".join(f"WHEN {c.sql} THEN {v.sql}" for c, v in zip(conditions, values, strict=True))
    terms = [*conditions, *values, last]
    sql = f"CASE {branches} ELSE {last.sql} END"
    nullable = any(term.nullable or term.is_null for term in (*values, last))
    fails, cost = any(term.may_fail for term in terms), 1 + sum(term.cost for term in terms)
    return Term(f"({sql})", kind, fails, cost, nullable=nullable)


@form("case")
def case(given: Given) -> Term:
    arguments = given.arguments
    otherwise = arguments[-1] if len(arguments) % 2 else None
    pairs = zip(arguments[::2], arguments[1::2], strict=False)
    return choice(given, given.type, [(_strictly(given, one), value) for one, value in pairs], otherwise)


@form("if")
def conditional(given: Given) -> Term:
    condition, value, otherwise = given.expect(3)
    return choice(given, given.type, [(_strictly(given, condition), value)], otherwise)


@form("nvl2")
def if_not_null(given: Given) -> Term:
    subject, value, otherwise = given.expect(3)
    check_nullable(given, subject)
    condition = Term(f"({subject.sql} IS NOT NULL)", BOOLEAN, subject.may_fail, subject.cost + 1)
    return choice(given, given.type, [(condition, value)], otherwise)


def check_nullable(given: Given, value: Term) -> None:
    """Whether Spark looks at a value to see whether it is null. What it knows not to be null is not evaluated."""
    if value.type == VOID or (value.may_fail and not value.nullable):
        given.refuse("is about something that may fail and is never null, at which Spark does not look")


def _strictly(given: Given, term: Term) -> Term:
    """A condition of a choice, which Spark does not cast from strings."""
    if term.type not in (BOOLEAN, VOID):
        given.refuse(f"has {term.type} where a condition is expected")
    return cast(term, BOOLEAN)


@form("coalesce", "nvl", "ifnull")
def coalesce(given: Given) -> Term:
    terms = [cast(term, given.type) for term in given.arguments]
    if given.call.name != "coalesce":
        given.expect(2)
    first = next((term for term in terms if not term.is_null), terms[0])
    if first.rowless and first.constant is None:
        given.refuse("begins with something that is the same for every row, and perhaps null")
    if len(terms) == 1 or first.constant is not None:
        return first  # Spark leaves out the rest as well, and takes the whole for a literal
    cost = 1 + sum(term.cost for term in terms)
    nullable = all(term.nullable or term.is_null for term in terms)
    if not any(term.may_fail for term in terms[1:]):
        sql = f"coalesce({', '.join(term.sql for term in terms)})"
        return Term(sql, given.type, terms[0].may_fail, cost, nullable=nullable)
    return Term(_first_of(terms), given.type, True, cost, nullable=nullable)


def _first_of(terms: Sequence[Term]) -> str:
    """The first that is not null; what comes after it is not evaluated."""
    if len(terms) == 1:
        return terms[0].sql
    rest = _first_of(terms[1:])
    return let(terms[0], lambda value: f"CASE WHEN {value} IS NOT NULL THEN {value} ELSE {rest} END")
