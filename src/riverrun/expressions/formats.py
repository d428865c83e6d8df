"""Times written and read by a pattern."""

from __future__ import annotations

from riverrun.expressions.casts import argument, cast
from riverrun.expressions.datetime_patterns import DatetimePattern, to_read, to_write
from riverrun.expressions.forms import Given, form
from riverrun.expressions.moments import END, FIRST, clock, micros, moment
from riverrun.expressions.temporal import as_date, as_timestamp
from riverrun.expressions.term import Term, let, strict, string
from riverrun.flow.coercion import is_datetime
from riverrun.flow.schema import BIGINT, DATE, STRING, TIMESTAMP, is_integral

_DEFAULT = "yyyy-MM-dd HH:mm:ss"


@form("date_format")
def date_format(given: Given) -> Term:
    value, _ = given.expect(2)
    if not (is_datetime(value.type) or value.type == STRING):
        given.refuse()
    return _written(given, as_timestamp(given, 0), given.text(1))


@form("from_unixtime")
def from_unixtime(given: Given) -> Term:
    value, *_ = given.expect(1, 2)
    if not is_integral(value.type):
        given.refuse()
    seconds = cast(value, BIGINT)
    pattern = given.text(1) if len(given.arguments) == 2 else _DEFAULT
    at = strict(TIMESTAMP, [seconds], lambda a: moment(f"{a} * 1000000", TIMESTAMP), may_fail=True)
    return _written(given, at, pattern)


def _written(given: Given, value: Term, text: str) -> Term:
    pattern = to_write(text)
    if pattern is None:
        given.refuse("has a pattern that is not in the verified set")

    def build(a: str) -> str:
        at = micros(a)
        usual = f"{at} >= {FIRST} AND {at} < {END}"
        return f"(CASE WHEN {usual} THEN {_strftime(a, pattern)} ELSE spark_date_format({at}, {string(text)}) END)"

    return strict(STRING, [value], build, cost=15, repeats=True)


def _strftime(value: str, pattern: DatetimePattern) -> str:
    if pattern.strftime() == "%Y-%m-%d":
        return f"CAST(CAST({clock(value)} AS DATE) AS VARCHAR)"
    return f"strftime({clock(value)}, {string(pattern.strftime())})"


@form("to_timestamp")
def to_timestamp(given: Given) -> Term:
    value, *_ = given.expect(1, 2)
    if len(given.arguments) == 1:
        return as_timestamp(given, 0)
    if value.type != STRING:
        given.refuse()
    return _read(given, 1)


@form("to_date")
def to_date(given: Given) -> Term:
    value, *_ = given.expect(1, 2)
    if len(given.arguments) == 1:
        return as_date(given, 0)
    if value.type != STRING:
        given.refuse()
    return cast(_read(given, 1), DATE)


@form("unix_timestamp", "to_unix_timestamp")
def unix_timestamp(given: Given) -> Term:
    """Seconds since 1970 of a time, or of a string by a pattern. Before 1970, a fraction is cut off upwards."""
    value, *_ = given.expect(1, 2)
    if (is_datetime(value.type) and value.type != DATE) or value.type == DATE:
        at = cast(value, TIMESTAMP)
    elif value.type == STRING:
        at = _read(given, 1)
    else:
        given.refuse()
    return strict(BIGINT, [at], lambda a: f"({micros(a)} // 1000000)", cost=2)


def _read(given: Given, index: int) -> Term:
    """The timestamp that a string is by the pattern at this argument."""
    text = given.text(index) if len(given.arguments) > index else _DEFAULT
    pattern = to_read(text)
    if pattern is None:
        given.refuse("has a pattern that is not in the verified set")

    def build(a: str) -> str:
        usual = f"regexp_full_match({a}, {string(pattern.regex())})"
        odd = f"spark_to_timestamp({a}, {string(text)})"  # also says what is wrong
        here = Term(f"epoch_us(try_strptime({a}, {string(pattern.strftime())}))", BIGINT, cost=10)
        known = let(here, lambda at: f"CASE WHEN {at} IS NULL THEN {odd} ELSE {at} END")
        return moment(f"CASE WHEN {a} IS NULL THEN NULL WHEN {usual} THEN {known} ELSE {odd} END", TIMESTAMP)

    return strict(TIMESTAMP, [argument(given, 0, STRING)], build, may_fail=True, cost=20, repeats=True)
