"""Arithmetic of dates, timestamps and intervals. An interval is a number of months, or of microseconds."""

from __future__ import annotations

from riverrun.expressions.casts import cast
from riverrun.expressions.forms import Given, form
from riverrun.expressions.moments import DAY, EPOCH, days, floor_divided, micros, moment
from riverrun.expressions.term import Term, strict
from riverrun.flow.coercion import INTERVAL_DAY, TIMESTAMP_NTZ, is_datetime, is_interval, is_months
from riverrun.flow.literals import DAY_TIME
from riverrun.flow.schema import BIGINT, DATE, INT, STRING, TIMESTAMP, is_integral

_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def arithmetic(given: Given, operator: str, left: Term, right: Term) -> Term:
    """A sum, a difference or a product in which there is a date, a timestamp or an interval."""
    if operator == "+" and is_datetime(right.type):
        left, right = right, left
    if operator == "*" and is_interval(right.type):
        left, right = right, left
    if operator in ("*", "/"):
        return _multiplied(given, operator, left, right)
    if is_interval(left.type):
        kind = given.type
        return strict(kind, [left, right], lambda a, b: f"({a} {operator} {b})", may_fail=True)
    if is_datetime(right.type):
        return _difference(given, left, right)
    if is_integral(right.type):
        return add_days(left, cast(right, INT), operator)
    if is_months(right.type):
        return add_months(left, right, operator)
    if left.type == DATE and right.type == INTERVAL_DAY:
        number = strict(INT, [right], lambda a: f"CAST({a} // {DAY} AS INTEGER)")
        return add_days(left, number, operator)
    return add_micros(cast(left, given.type), right, operator)


def add_days(left: Term, right: Term, operator: str = "+") -> Term:
    """A date and a number of days."""
    return strict(DATE, [left, right], lambda a, b: f"CAST({a} {operator} {b} AS DATE)", may_fail=True)


def add_months(left: Term, right: Term, operator: str = "+") -> Term:
    """A date or a timestamp and a number of months; in a shorter month, it is the last day."""

    def build(a: str, b: str) -> str:
        added = b if operator == "+" else _negative(b)
        months = f"to_months({added})"
        if left.type == DATE:
            far = f"spark_add_months({days(a)}, {added})"
            return (
                f"CASE WHEN {_is_near(a, b)} THEN CAST({a} + {months} AS DATE) ELSE CAST({EPOCH} + {far} AS DATE) END"
            )
        sum_ = f"make_timestamp({micros(a)}) + {months}"
        return moment(f"epoch_us({sum_})", left.type)

    is_date = left.type == DATE
    return strict(left.type, [left, right], build, may_fail=True, cost=6 if is_date else 2, repeats=is_date)


def _is_near(date: str, months: str) -> str:
    """Whether a date plus so many months is one that timestamps reach: DuckDB adds by way of them."""
    most = 12 * 100_000
    near = f"{date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"{near} AND {months} BETWEEN {-most} AND {most}"


def _negative(value: str) -> str:
    return f"CAST(0 AS INTEGER) - {value}"


def add_micros(left: Term, right: Term, operator: str = "+") -> Term:
    """A timestamp and microseconds."""
    return strict(
        left.type, [left, right], lambda a, b: moment(f"{micros(a)} {operator} {b}", left.type), may_fail=True
    )


def _difference(given: Given, left: Term, right: Term) -> Term:
    kind = given.type
    if left.type == DATE and right.type == DATE:
        return strict(kind, [left, right], lambda a, b: f"(CAST({a} - {b} AS BIGINT) * {DAY})", may_fail=True)
    common = TIMESTAMP if TIMESTAMP in (left.type, right.type) else TIMESTAMP_NTZ
    left, right = cast(left, common), cast(right, common)
    return strict(kind, [left, right], lambda a, b: f"({micros(a)} - {micros(b)})", may_fail=True)


def _multiplied(given: Given, operator: str, left: Term, right: Term) -> Term:
    if operator == "/" or not is_integral(right.type):
        given.refuse()
    number = BIGINT if not is_months(left.type) else INT
    if is_months(left.type) and right.type == BIGINT:
        given.refuse()
    factor = cast(right, number)
    return strict(given.type, [left, factor], lambda a, b: f"({a} * {b})", may_fail=True)


@form("timestampadd")
def timestamp_add(given: Given) -> Term:
    """timestampadd(HOUR, n, at)"""
    _, amount, start = given.expect(3)
    unit = given.text(0).lower()
    if start.type not in (TIMESTAMP, DATE, STRING) or not is_integral(amount.type) or amount.type == BIGINT:
        given.refuse()
    start, number = cast(start, TIMESTAMP), cast(amount, INT)
    if unit in _MONTHS:
        count = strict(INT, [number], lambda a: f"({a} * {_MONTHS[unit]})", may_fail=unit != "month")
        return _swapped(start, count, months=True)
    length = DAY_TIME.get("day" if unit == "dayofyear" else unit)
    if length is None:
        given.refuse()
    count = strict(BIGINT, [number], lambda a: f"(CAST({a} AS BIGINT) * {length})")
    return _swapped(start, count, months=False)


def _swapped(start: Term, count: Term, months: bool) -> Term:
    """Spark looks at the number first."""

    def build(b: str, a: str) -> str:
        first, second = Term(a, start.type), Term(b, count.type)
        return (add_months(first, second) if months else add_micros(first, second)).sql

    return strict(start.type, [count, start], build, may_fail=True, cost=2, reordered=True)


@form("timestampdiff")
def timestamp_difference(given: Given) -> Term:
    """timestampdiff(HOUR, start, end): whole units."""
    _, start, end = given.expect(3)
    unit = given.text(0).lower()
    length = DAY_TIME.get(unit)
    if length is None or start.type not in (TIMESTAMP, DATE) or end.type not in (TIMESTAMP, DATE):
        given.refuse()
    start, end = cast(start, TIMESTAMP), cast(end, TIMESTAMP)

    def build(a: str, b: str) -> str:
        return f"(({micros(b)} - {micros(a)}) // {length})"

    return strict(BIGINT, [start, end], build, may_fail=True, cost=2, reordered=True)


def as_date(given: Given, index: int) -> Term:
    """An argument as a date."""
    term = given.arguments[index]
    if not (is_datetime(term.type) or term.type == STRING or term.is_null):
        given.refuse(f"has {term.type} where a date is expected")
    return cast(term, DATE)


def as_timestamp(given: Given, index: int) -> Term:
    """An argument as a timestamp."""
    term = given.arguments[index]
    if not (is_datetime(term.type) or term.type == STRING or term.is_null):
        given.refuse(f"has {term.type} where a timestamp is expected")
    return cast(term, TIMESTAMP)


def of_day(value: str) -> str:
    """Microseconds since midnight, of microseconds since 1970."""
    return f"({value} - {floor_divided(value, DAY)} * {DAY})"
