"""Casts: what fails in Spark fails here, what is cut off there is cut off here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from riverrun.ddl import Decimal, Type
from riverrun.expressions import moments, parsing
from riverrun.expressions.constants import constant, double
from riverrun.expressions.folding import BITS, folded_cast
from riverrun.expressions.forms import Given, form, refusal
from riverrun.expressions.term import Term, duckdb_type, null, strict
from riverrun.flow.coercion import FLOAT, TIMESTAMP_NTZ, is_interval, is_months
from riverrun.flow.functions import CASTS
from riverrun.flow.schema import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, as_decimal, is_integral
from riverrun.flow.syntax import VOID


def cast(term: Term, kind: Type, safe: bool = False) -> Term:
    """The term in another type; where Spark's cast would fail, an error, or null if it is `safe`."""
    if term.type == kind:
        return term
    if term.is_null or term.type == VOID:
        return null(kind)
    if is_interval(term.type) and is_interval(kind) and is_months(term.type) == is_months(kind):
        return replace(term, type=kind)  # the same number
    if term.widened is not None and kind == DOUBLE:
        return cast(term.widened, DOUBLE)  # Spark leaves out the cast to float between, and so keeps all digits
    folded = folded_cast(term.constant, kind)
    if folded is not None:
        return constant(folded)
    rule = _rule(term.type, kind, safe)
    if rule is None:
        raise refusal(f"a cast from {term.type} to {kind}")
    build, may_fail, cost = rule
    if may_fail and not safe and (term.rowless or term.constant is not None):
        raise refusal(f"a cast of {term.sql} to {kind}", "may fail before Spark has seen a row")
    result = strict(kind, [term], build, may_fail=may_fail and not safe, cost=cost, repeats=cost > 1)
    result = replace(result, rowless=term.rowless or term.constant is not None, folds=term.folds)
    is_widened = kind == FLOAT and is_integral(term.type) and term.constant is None and not term.rowless
    return replace(result, widened=term) if is_widened else result


Rule = tuple[Callable[[str], str], bool, int]
"""How it is written, whether it may fail, and its cost: those above 1 use the value several times."""


def _rule(before: Type, after: Type, safe: bool) -> Rule | None:
    word = "TRY_CAST" if safe else "CAST"
    target = duckdb_type(after)

    def plain(value: str) -> str:
        return f"{word}({value} AS {target})"

    if before == STRING:
        return parsing.from_string(after, safe)
    if before == BOOLEAN:
        return _from_boolean(after, plain)
    if is_integral(before):
        return _from_integer(before, after, plain)
    if isinstance(before, Decimal):
        return _from_decimal(before, after, plain, word)
    if before in (DOUBLE, FLOAT):
        return _from_double(before, after, word, safe)
    if before in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return moments.from_moment(before, after, word)
    return None


def _from_boolean(after: Type, plain: Callable[[str], str]) -> Rule | None:
    if is_integral(after) or after in (DOUBLE, FLOAT, STRING):
        return plain, False, 1
    if isinstance(after, Decimal):
        return plain, after.precision == after.scale, 1
    return None


def _from_integer(before: Type, after: Type, plain: Callable[[str], str]) -> Rule | None:
    if is_integral(after):
        return plain, BITS[str(after)] < BITS[str(before)], 1
    if after in (DOUBLE, FLOAT, STRING):
        return plain, False, 1
    if after == BOOLEAN:
        return (lambda value: f"({value} <> 0)"), False, 1
    if isinstance(after, Decimal):
        digits = as_decimal(before)
        return plain, digits is None or after.precision - after.scale < digits.precision, 1
    if after == TIMESTAMP:
        return moments.from_seconds(before)
    return None


def _from_decimal(before: Decimal, after: Type, plain: Callable[[str], str], word: str) -> Rule | None:
    if isinstance(after, Decimal):
        loses = after.scale < before.scale or after.precision - after.scale < before.precision - before.scale
        return plain, loses, 1
    if is_integral(after):
        return _decimal_to_integer(before, after, plain, word)
    if after == BOOLEAN:
        return (lambda value: f"({value} <> 0)"), False, 1
    if after == STRING:
        return (lambda value: decimal_string(value, before)), False, 1 if before.scale < before.precision else 2
    if after in (DOUBLE, FLOAT):
        return _decimal_to_double(before, after)
    return None


def _decimal_to_integer(before: Decimal, after: Type, plain: Callable[[str], str], word: str) -> Rule | None:
    """To a type below bigint, large decimals become doubles on the way; of those with 16 to 18 digits, some do."""
    if before.precision <= 15 or after == BIGINT:
        return (lambda value: plain(f"trunc({value})")), True, 1
    if before.precision <= 18:
        return None
    double_of, _, _ = _decimal_to_double(before, DOUBLE)
    from_double = _double_to_integer(after, word)
    return (lambda value: from_double(double_of(value))), True, 2


def decimal_string(value: str, kind: Decimal) -> str:
    """DuckDB leaves out a zero before the point where there can be no other digit."""
    if kind.scale < kind.precision:
        return f"CAST({value} AS VARCHAR)"
    return f"replace(CAST({value} AS VARCHAR), '.', '0.')"


def _decimal_to_double(before: Decimal, after: Type) -> Rule:
    target = duckdb_type(after)
    if after == DOUBLE and before.precision <= 15:  # both parts of the quotient are exact
        return (lambda value: f"CAST({value} AS DOUBLE)"), False, 1
    digits = 15 - before.scale

    def build(value: str) -> str:
        written = f"CAST(CAST({value} AS VARCHAR) AS {target})"
        if after == FLOAT or digits < 1 or before.scale > 22:
            return written
        limit = f"CAST({10**digits} AS {duckdb_type(before)})"
        small = f"{value} > -{limit} AND {value} < {limit}"
        return f"CASE WHEN {small} THEN CAST({value} AS DOUBLE) ELSE {written} END"

    return build, False, 2


def _from_double(before: Type, after: Type, word: str, safe: bool) -> Rule | None:
    if after == DOUBLE:
        return (lambda value: f"CAST({value} AS DOUBLE)"), False, 1
    if after == FLOAT:
        return _narrowed, False, 4
    if after == BOOLEAN:
        return (lambda value: f"({value} <> 0)"), False, 1
    if is_integral(after):
        return _double_to_integer(after, word), True, 1 if after != BIGINT else 2
    if after == TIMESTAMP:
        return moments.from_double(safe)
    return None


def _double_to_integer(after: Type, word: str) -> Callable[[str], str]:
    def build(value: str) -> str:
        whole = f"{word}(trunc({value}) AS {duckdb_type(after)})"
        if after != BIGINT:
            return whole
        # The largest long is no double; Spark lets the double next to it pass.
        return f"CASE WHEN {value} = {double(2.0**63)} THEN 9223372036854775807 ELSE {whole} END"

    return build


def _narrowed(value: str) -> str:
    """A double as a float; what is too large becomes infinite."""
    # Halfway between the largest float and the next power of two, numbers are rounded up.
    limit = double(2.0**128 - 2.0**103)
    infinite = f"CASE WHEN isnan({value}) THEN 'nan' WHEN {value} > 0 THEN 'inf' WHEN {value} < 0 THEN '-inf' END"
    return f"CASE WHEN abs({value}) < {limit} THEN CAST({value} AS FLOAT) ELSE CAST({infinite} AS FLOAT) END"


@form(*CASTS)
def by_function(given: Given) -> Term:
    """int(x), double(x), …"""
    (value,) = given.expect(1)
    return cast(value, given.type)


def argument(given: Given, index: int, kind: Type) -> Term:
    """An argument as a function wants it: Spark casts numbers to numbers, strings to anything, anything to a string."""
    term = given.arguments[index]
    if term.type in (kind, VOID):
        return cast(term, kind)
    is_number = is_integral(term.type) or isinstance(term.type, Decimal) or term.type in (DOUBLE, FLOAT)
    wants_number = is_integral(kind) or isinstance(kind, Decimal) or kind in (DOUBLE, FLOAT)
    scalar = is_number or term.type in (STRING, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ)
    if not ((is_number and wants_number) or (term.type == STRING and kind != BINARY) or (kind == STRING and scalar)):
        given.refuse(f"has {term.type} where {kind} is expected")
    return cast(term, kind)
