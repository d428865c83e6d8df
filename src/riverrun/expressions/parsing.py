"""Casts from strings. DuckDB reads what is written in the usual way; the rest is left to `readers`."""

from __future__ import annotations

from collections.abc import Callable

from riverrun.ddl import Decimal, Type
from riverrun.expressions.readers import BLANKS
from riverrun.expressions.term import duckdb_type, string
from riverrun.flow.coercion import FLOAT, TIMESTAMP_NTZ
from riverrun.flow.schema import BINARY, BOOLEAN, DATE, DOUBLE, TIMESTAMP, is_integral

Rule = tuple[Callable[[str], str], bool, int]
_BLANK = r"[\x00-\x20\x7F]*"
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_DECIMAL = r"[+-]?[0-9]{1,18}([.][0-9]{1,18})?"
_DATE = r"[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?"
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def from_string(after: Type, safe: bool) -> Rule | None:
    """How a string becomes something else, whether it may fail, and its cost."""
    target = duckdb_type(after)
    prefix = "spark_try" if safe else "spark"
    if is_integral(after):
        return _integer(target, safe), True, 10
    if after in (DOUBLE, FLOAT):

        def number(value: str) -> str:
            return _either(value, _NUMBER, f"CAST({value} AS {target})", f"CAST({prefix}_number({value}) AS {target})")

        return number, True, 10
    if isinstance(after, Decimal):
        word = "TRY_CAST" if safe else "CAST"
        read = f"{after.precision}, {after.scale}"

        def decimal(value: str) -> str:
            odd = f"CAST({prefix}_decimal({value}, {read}) AS {target})"
            return _either(value, _DECIMAL, f"{word}({value} AS {target})", odd)

        return decimal, True, 10
    if after == BOOLEAN:
        return _boolean(safe), True, 10
    if after == BINARY:
        return (lambda value: f"encode({value})"), False, 1
    if after in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _moment(after, safe), True, 10
    return None


def _either(value: str, usual: str, one: str, other: str) -> str:
    """`one` for strings like `usual`, `other` for the rest."""
    matches = f"regexp_full_match({value}, {string(usual)})"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {matches} THEN {one} ELSE {other} END"


def invalid(value: str, what: str, safe: bool) -> str:
    return "NULL" if safe else f"error({string(f'not {what}: ')} || {value})"


def _integer(target: str, safe: bool) -> Callable[[str], str]:
    word = "TRY_CAST" if safe else "CAST"

    def build(value: str) -> str:
        trimmed = f"trim({value}, {string(BLANKS)})"
        blank = f"regexp_full_match({value}, {string(_BLANK + _INTEGER + _BLANK)})"
        odd = f"CASE WHEN {blank} THEN {word}({trimmed} AS {target}) ELSE {invalid(value, 'a whole number', safe)} END"
        return _either(value, _INTEGER, f"{word}({value} AS {target})", odd)

    return build


def _boolean(safe: bool) -> Callable[[str], str]:
    def listed(words: tuple[str, ...]) -> str:
        return ", ".join(map(string, words))

    def build(value: str) -> str:
        trimmed = f"lower(trim({value}, {string(BLANKS)}))"
        true, false = f"{trimmed} IN ({listed(_TRUE)})", f"{trimmed} IN ({listed(_FALSE)})"
        wrong = f"WHEN {value} IS NULL THEN NULL ELSE {invalid(value, 'true or false', safe)}"
        return f"CASE WHEN {true} THEN TRUE WHEN {false} THEN FALSE {wrong} END"

    return build


def _moment(after: Type, safe: bool) -> Callable[[str], str]:
    prefix = "spark_try" if safe else "spark"

    def date(value: str) -> str:
        usual = f"coalesce(TRY_CAST({value} AS DATE), {invalid(value, 'a date', safe)})"
        return _either(value, _DATE, usual, f"CAST(DATE '1970-01-01' + {prefix}_date({value}) AS DATE)")

    def timestamp(value: str) -> str:
        pattern = f"{_DATE}([ T]{_TIME}Z?)?" if after == TIMESTAMP else f"{_DATE}([ T]{_TIME})?"
        moment = f"epoch_us(TRY_CAST(rtrim({value}, 'Z') AS TIMESTAMP))"
        make, name = ("make_timestamptz", "timestamp") if after == TIMESTAMP else ("make_timestamp", "timestamp_ntz")
        usual = f"{make}(coalesce({moment}, {invalid(value, 'a timestamp', safe)}))"
        return _either(value, pattern, usual, f"{make}({prefix}_{name}({value}))")

    return date if after == DATE else timestamp
