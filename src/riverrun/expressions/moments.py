"""Dates and timestamps: their casts, and their parts as whole numbers.

DuckDB computes with timestamps of a time zone by way of a calendar library, which is slow and changes to the Julian
calendar in 1582. Here they are microseconds, or timestamps without a time zone, which in UTC show the same clock.
"""

from __future__ import annotations

from collections.abc import Callable

from riverrun.ddl import Decimal, Type
from riverrun.expressions.constants import double
from riverrun.expressions.term import duckdb_type
from riverrun.flow.coercion import FLOAT, TIMESTAMP_NTZ
from riverrun.flow.schema import BIGINT, DATE, DOUBLE, STRING, TIMESTAMP, is_integral

Rule = tuple[Callable[[str], str], bool, int]
DAY = 86_400_000_000
EPOCH = "DATE '1970-01-01'"
FIRST, END = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The years 1 to 9999, in which dates are written in the usual way."""


def micros(value: str) -> str:
    """Microseconds since 1970 of a timestamp."""
    for make in ("make_timestamptz(", "make_timestamp("):
        if value.startswith(make) and _closes_at_the_end(value, len(make) - 1):
            return f"({value[len(make) : -1]})"
    return f"epoch_us({value})"


def _closes_at_the_end(value: str, opening: int) -> bool:
    """Whether the bracket that opens there is closed by the last character. Strings make it uncertain: then no."""
    depth = 0
    for at in range(opening, len(value)):
        depth += {"(": 1, ")": -1}.get(value[at], 0)
        if depth == 0 or value[at] in "'\"":
            return at == len(value) - 1
    return False


def clock(value: str) -> str:
    """A timestamp with a time zone as one without, in UTC."""
    return f"make_timestamp({micros(value)})"


def days(value: str) -> str:
    """Days since 1970 of a date."""
    return f"CAST({value} - {EPOCH} AS INTEGER)"


def date(value: str) -> str:
    """The date so many days after 1970."""
    return f"CAST({EPOCH} + {value} AS DATE)"


def moment(value: str, kind: Type) -> str:
    """The timestamp so many microseconds after 1970."""
    return f"make_timestamptz({value})" if kind == TIMESTAMP else f"make_timestamp({value})"


def floor_divided(value: str, unit: int) -> str:
    """How many whole units there are, also before 1970."""
    return f"({value} // {unit} - CAST({value} % {unit} < 0 AS BIGINT))"


def from_moment(before: Type, after: Type, word: str) -> Rule | None:
    """Casts of dates and timestamps."""
    if before == DATE:
        return _from_date(after)
    if after in (TIMESTAMP, TIMESTAMP_NTZ):
        return (lambda value: moment(micros(value), after)), False, 1
    if after == DATE:
        return (lambda value: f"CAST({clock(value)} AS DATE)"), False, 1
    if after == STRING:
        return (lambda value: timestamp_string(micros(value))), False, 4
    return _to_number(after, word) if before == TIMESTAMP else None


def _from_date(after: Type) -> Rule | None:
    if after in (TIMESTAMP, TIMESTAMP_NTZ):
        return (lambda value: moment(f"CAST({value} - {EPOCH} AS BIGINT) * {DAY}", after)), True, 1
    if after == STRING:
        return date_string, False, 4
    return None


def date_string(value: str) -> str:
    usual = f"{value} >= DATE '0001-01-01' AND {value} <= DATE '9999-12-31'"
    return f"CASE WHEN {usual} THEN CAST({value} AS VARCHAR) ELSE spark_date_string({days(value)}) END"


def timestamp_string(value: str) -> str:
    """How Spark writes microseconds since 1970."""
    usual = f"{value} >= {FIRST} AND {value} < {END}"
    written = f"CAST(make_timestamp({value}) AS VARCHAR)"
    return f"CASE WHEN {usual} THEN {written} ELSE spark_timestamp_string({value}) END"


def _to_number(after: Type, word: str) -> Rule | None:
    target = duckdb_type(after)
    if is_integral(after):

        def seconds(value: str) -> str:
            whole = floor_divided(micros(value), 1_000_000)
            return whole if after == BIGINT else f"{word}({whole} AS {target})"

        return seconds, after != BIGINT, 2
    if after in (DOUBLE, FLOAT):

        def fraction(value: str) -> str:
            quotient = f"(CAST({micros(value)} AS DOUBLE) / {double(1e6)})"
            return quotient if after == DOUBLE else f"CAST({quotient} AS FLOAT)"

        return fraction, False, 1
    if isinstance(after, Decimal):

        def exact(value: str) -> str:
            scaled = f"CAST({micros(value)} AS DECIMAL(38, 0)) * CAST('0.000001' AS DECIMAL(6, 6))"
            return f"{word}({scaled} AS {target})"

        return exact, True, 1
    return None


def from_seconds(before: Type) -> Rule:
    """Whole seconds since 1970 as a timestamp."""
    return (lambda value: f"make_timestamptz(CAST({value} AS BIGINT) * 1000000)"), before == BIGINT, 1


def from_double(safe: bool) -> Rule:
    """Seconds since 1970 as a timestamp; what is below a microsecond is cut off."""
    word = "TRY_CAST" if safe else "CAST"
    return (
        (lambda value: f"make_timestamptz({word}(trunc(CAST({value} AS DOUBLE) * {double(1e6)}) AS BIGINT))"),
        True,
        1,
    )
