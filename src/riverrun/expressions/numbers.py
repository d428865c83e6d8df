"""Functions of numbers: rounding, roots, logarithms.

What `APPROXIMATE` lists is computed by other libraries than Java's, and may differ in the last digit.
"""

from __future__ import annotations

from math import isfinite

from riverrun.ddl import Decimal
from riverrun.expressions.casts import argument, cast
from riverrun.expressions.constants import double, whole
from riverrun.expressions.forms import Given, form
from riverrun.expressions.term import Term, duckdb_type, eager, strict
from riverrun.flow.coercion import FLOAT
from riverrun.flow.schema import BIGINT, BOOLEAN, DOUBLE, STRING, is_integral

APPROXIMATE = ("exp", "ln", "log", "log2", "log10", "pow", "power", "cbrt")
"""Within 2 units of the last place of Spark's results."""


@form("sqrt", "exp", "cbrt")
def plain_function(given: Given) -> Term:
    given.expect(1)
    return strict(DOUBLE, [argument(given, 0, DOUBLE)], lambda a: f"{given.call.name}({a})", cost=3)


@form("ln", "log10", "log2")
def logarithm(given: Given) -> Term:
    given.expect(1)
    return _logarithm(given.call.name, argument(given, 0, DOUBLE))


def _logarithm(name: str, value: Term) -> Term:
    """Null for what has no logarithm."""
    return strict(
        DOUBLE, [value], lambda a: f"(CASE WHEN {a} <= 0 THEN NULL ELSE {name}({a}) END)", cost=5, repeats=True
    )


@form("log")
def logarithm_to_base(given: Given) -> Term:
    given.expect(1, 2)
    if len(given.arguments) == 1:
        return _logarithm("ln", argument(given, 0, DOUBLE))
    base, value = argument(given, 0, DOUBLE), argument(given, 1, DOUBLE)

    def build(b: str, a: str) -> str:
        # Spark looks at the number whatever the base is.
        return f"(CASE WHEN {a} <= 0 OR {b} <= 0 THEN NULL ELSE ln({a}) / ln({b}) END)"

    return strict(DOUBLE, [base, value], build, cost=10, repeats=True, reordered=True)


@form("pow", "power")
def power(given: Given) -> Term:
    given.expect(2)
    base, exponent = argument(given, 0, DOUBLE), argument(given, 1, DOUBLE)
    nan = double(float("nan"))

    def build(a: str, b: str) -> str:
        # C has 1 for 1 to the power of NaN, and for -1 to an infinite one; Java has NaN.
        odd = f"{a} IS NOT NULL AND (isnan({b}) OR (abs({a}) = 1 AND isinf({b})))"
        return f"(CASE WHEN {odd} THEN {nan} ELSE pow({a}, {b}) END)"

    if (
        exponent.constant is not None
        and isinstance(exponent.constant.value, float)
        and isfinite(exponent.constant.value)
    ):
        return strict(DOUBLE, [base, exponent], lambda a, b: f"pow({a}, {b})", cost=5)
    return strict(DOUBLE, [base, exponent], build, cost=8, repeats=True)


@form("sign", "signum")
def sign(given: Given) -> Term:
    given.expect(1)

    def build(a: str) -> str:
        return f"(CASE WHEN isnan({a}) OR {a} = 0 THEN {a} WHEN {a} > 0 THEN {double(1.0)} WHEN {a} < 0 THEN {double(-1.0)} END)"

    return strict(DOUBLE, [argument(given, 0, DOUBLE)], build, cost=4, repeats=True)


@form("isnan")
def is_nan(given: Given) -> Term:
    """Of null, it is false."""
    (value,) = given.expect(1)
    if value.type not in (DOUBLE, FLOAT):
        given.refuse()
    return eager(BOOLEAN, [value], lambda a: f"coalesce(isnan({a}), FALSE)", cost=2)


@form("nanvl")
def unless_nan(given: Given) -> Term:
    value, other = given.expect(2)
    if given.type not in (DOUBLE, FLOAT) or value.type not in (DOUBLE, FLOAT) or other.type not in (DOUBLE, FLOAT):
        given.refuse()
    value, other = cast(value, given.type), cast(other, given.type)
    made = strict(given.type, [value], lambda a: f"(CASE WHEN isnan({a}) THEN {other.sql} ELSE {a} END)", repeats=True)
    return Term(made.sql, made.type, made.may_fail or other.may_fail, made.cost + other.cost)


@form("floor", "ceil", "ceiling")
def whole_number(given: Given) -> Term:
    """The whole number below or above. NaN becomes 0."""
    (value,) = given.expect(1)
    name = {"ceiling": "ceil"}.get(given.call.name, given.call.name)
    if isinstance(given.type, Decimal):
        target = duckdb_type(given.type)
        if given.type == value.type:
            return value
        return strict(given.type, [value], lambda a: f"CAST({name}(CAST({a} AS {_roomy(value)})) AS {target})")
    if value.type == BIGINT:
        return value

    def build(a: str) -> str:
        return f"(CASE WHEN isnan({a}) THEN {whole(0, BIGINT)} ELSE CAST({name}({a}) AS BIGINT) END)"

    if is_integral(value.type):
        return cast(value, BIGINT)
    return strict(BIGINT, [argument(given, 0, DOUBLE)], build, may_fail=True, cost=3, repeats=True)


def _roomy(value: Term) -> str:
    """A type with room for one more digit, for 9.9 becomes 10."""
    assert isinstance(value.type, Decimal)
    return duckdb_type(Decimal(min(value.type.precision + 1, 38), value.type.scale))


@form("round")
def rounded(given: Given) -> Term:
    """Half up, in the decimal digits that a double is written with."""
    value, *_ = given.expect(1, 2)
    digits = given.whole(1) if len(given.arguments) == 2 else 0
    if digits is None:
        given.refuse("is in the verified set only with a number that is written out")
    if isinstance(given.type, Decimal):
        if digits < 0:
            given.refuse()
        return cast(value, given.type)
    if is_integral(value.type):
        return value if digits >= 0 else _rounded_integer(value, -digits)
    if value.type not in (DOUBLE, STRING) or not 0 <= digits <= 12:
        given.refuse()
    return _rounded_double(cast(value, DOUBLE), digits)


def _rounded_integer(value: Term, zeros: int) -> Term:
    if zeros > 18:
        return strict(value.type, [value], lambda a: f"({a} - {a})", repeats=True)
    wide = "HUGEINT" if value.type == BIGINT else "BIGINT"
    unit = f"CAST({10**zeros} AS {wide})"

    def build(a: str) -> str:
        half = f"CASE WHEN {a} < 0 THEN -5 ELSE 5 END * CAST({10 ** (zeros - 1)} AS {wide})"
        return f"CAST((CAST({a} AS {wide}) + {half}) // {unit} * {unit} AS {duckdb_type(value.type)})"

    return strict(value.type, [value], build, may_fail=True, cost=6, repeats=True)


def _rounded_double(value: Term, digits: int) -> Term:
    """Where the next digits are clearly not a half, multiplying is exact enough; else the digits decide."""
    unit = double(10.0**digits)

    def build(a: str) -> str:
        scaled = f"(abs({a}) * {unit})"
        part = f"({scaled} - floor({scaled}))"
        clear = f"{scaled} < {double(1e11)} AND ({part} < {double(0.4999)} OR {part} > {double(0.5001)})"
        quick = f"(floor({scaled} + {double(0.5)}) / {unit})"
        written = f"CAST(CAST({a} AS VARCHAR) AS DECIMAL(38, {18 + digits}))"
        near = f"CAST(CAST(round({written}, {digits}) AS VARCHAR) AS DOUBLE)"
        ordinary = f"abs({a}) < {double(1e7)} AND {part} > {double(0.4)} AND {part} < {double(0.6)}"
        return (
            f"(CASE WHEN {clear} THEN CASE WHEN {a} < 0 THEN {double(0.0)} - {quick} ELSE {quick} END"
            f" WHEN {ordinary} THEN {near} WHEN isfinite({a}) THEN spark_round({a}, {digits}) ELSE {a} END)"
        )

    return strict(DOUBLE, [value], build, cost=20, repeats=True)
