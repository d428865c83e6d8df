"""Arithmetic of decimals, exact and rounded half up to the digits that Spark's result type has.

DuckDB computes with up to 38 digits. Where more are needed on the way, rows with numbers that large are left to
the exact arithmetic of Python, the others are not.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as Exact

from riverrun.ddl import Decimal
from riverrun.expressions.forms import Given
from riverrun.expressions.term import Term, duckdb_type, failure, let, strict
from riverrun.flow.schema import BIGINT

_WIDE = 38


def arithmetic(given: Given, operator: str, left: Term, right: Term) -> Term:
    """Two decimals, each of its own type."""
    one, other = left.type, right.type
    assert isinstance(one, Decimal) and isinstance(other, Decimal)
    if operator in ("+", "-"):
        return _sum(given, operator, left, right, one, other)
    if operator == "*":
        return _product(given, left, right, one, other)
    return _divided(given, operator, left, right, one, other)


def _result(given: Given) -> Decimal:
    if not isinstance(given.type, Decimal):
        given.refuse()
    return given.type


def _sum(given: Given, operator: str, left: Term, right: Term, one: Decimal, other: Decimal) -> Term:
    result = _result(given)
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    if digits > _WIDE:
        given.refuse("needs more than 38 digits")
    aligned = duckdb_type(Decimal(min(digits + 1, _WIDE), scale))
    target = duckdb_type(result)

    def build(a: str, b: str) -> str:
        total = f"CAST({a} AS {aligned}) {operator} CAST({b} AS {aligned})"
        return f"CAST({total} AS {target})"

    if digits < _WIDE:
        return strict(result, [left, right], build)
    if result.scale == scale:
        return strict(result, [left, right], build, may_fail=True)

    def guarded(a: str, b: str) -> str:
        # Below half of what 38 digits hold, the sum has 38 digits too.
        limit = f"CAST({5 * 10 ** (_WIDE - 1 - scale) - 1} AS {aligned})"
        small = f"abs(CAST({a} AS {aligned})) < {limit} AND abs(CAST({b} AS {aligned})) < {limit}"
        return _guarded(small, build(a, b), operator, a, b, result)

    return strict(result, [left, right], guarded, may_fail=True, cost=6, repeats=True)


def _product(given: Given, left: Term, right: Term, one: Decimal, other: Decimal) -> Term:
    result = _result(given)
    target = duckdb_type(result)
    scale = one.scale + other.scale
    if scale > _WIDE:
        given.refuse("needs more than 38 digits after the point")

    def build(a: str, b: str) -> str:
        # DuckDB would take the smallest type for the product, and overflow.
        first = a if one.precision + other.precision <= 18 else f"CAST({a} AS DECIMAL(38, {one.scale}))"
        return f"CAST({first} * {b} AS {target})"

    if one.precision + other.precision <= _WIDE:
        fails = result.precision - result.scale < one.precision + other.precision - scale
        return strict(result, [left, right], build, may_fail=fails)

    def guarded(a: str, b: str) -> str:
        size = f"abs(CAST({a} AS DOUBLE)) * abs(CAST({b} AS DOUBLE)) < CAST('1e{_WIDE - 1 - scale}' AS DOUBLE)"
        return _guarded(size, build(a, b), "*", a, b, result)

    return strict(result, [left, right], guarded, may_fail=True, cost=6, repeats=True)


def _guarded(small: str, here: str, operator: str, a: str, b: str, result: Decimal) -> str:
    sides = f"CAST({a} AS VARCHAR), CAST({b} AS VARCHAR)"
    exact = f"spark_decimal_arithmetic('{operator}', {sides}, {result.precision}, {result.scale})"
    odd = f"CAST({exact} AS {duckdb_type(result)})"
    return f"(CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {small} THEN {here} ELSE {odd} END)"


def _divided(given: Given, operator: str, left: Term, right: Term, one: Decimal, other: Decimal) -> Term:
    """Division, remainder and whole quotient, in whole numbers of the smallest digit."""
    builders: dict[str, Callable[[Given, str, str, Decimal, Decimal], str]] = {"/": _quotient, "%": _remainder}
    if operator not in builders:
        given.refuse()
    build = builders[operator]

    def checked(b: str, a: str) -> str:
        zero = f"{b} = 0 AND {a} IS NOT NULL"
        return f"(CASE WHEN {zero} THEN {failure('division by zero')} ELSE {build(given, a, b, one, other)} END)"

    return strict(_result(given), [right, left], checked, may_fail=True, cost=8, repeats=True)


def unscaled(value: str, kind: Decimal) -> str:
    """The digits of a decimal, as a whole number."""
    return f"CAST(CAST({value} AS DECIMAL(38, {kind.scale})) * CAST({10**kind.scale} AS DECIMAL(38, 0)) AS HUGEINT)"


def scaled(digits: str, kind: Decimal) -> str:
    """The decimal that has these digits."""
    if kind.scale == 0:
        return f"CAST({digits} AS {duckdb_type(kind)})"
    step = f"CAST('0.{'1':0>{kind.scale}}' AS DECIMAL({kind.scale}, {kind.scale}))"
    return f"CAST(CAST({digits} AS DECIMAL(38, 0)) * {step} AS {duckdb_type(kind)})"


def _quotient(given: Given, a: str, b: str, one: Decimal, other: Decimal) -> str:
    result = _result(given)
    shift = result.scale - one.scale + other.scale
    if shift < 0 or one.precision + one.scale > _WIDE or other.precision + other.scale > _WIDE:
        given.refuse("needs more than 38 digits")
    dividend = Term(f"({unscaled(a, one)} * CAST({10**shift} AS HUGEINT))", BIGINT, cost=10)
    divisor = Term(unscaled(b, other), BIGINT, cost=10)

    def rounded(n: str, d: str) -> str:
        digits = f"(abs({n}) * 2 + abs({d})) // (abs({d}) * 2)"
        return scaled(f"CASE WHEN ({n} < 0) = ({d} < 0) THEN {digits} ELSE -({digits}) END", result)

    here = let(dividend, lambda n: let(divisor, lambda d: rounded(n, d)))
    if one.precision + shift <= _WIDE - 1:
        return here
    limit = _WIDE - 1 - shift - one.scale
    if limit < -one.scale:
        given.refuse("needs more than 38 digits")
    small = f"abs({a}) < CAST('{Exact(1).scaleb(limit):f}' AS {duckdb_type(one)})"
    return _guarded(small, here, "/", a, b, result)


def _remainder(given: Given, a: str, b: str, one: Decimal, other: Decimal) -> str:
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    if digits > _WIDE:
        given.refuse("needs more than 38 digits")
    aligned = duckdb_type(Decimal(digits, scale))
    return f"CAST(CAST({a} AS {aligned}) % CAST({b} AS {aligned}) AS {duckdb_type(_result(given))})"
