"""Functions of dates and timestamps: their parts, their beginnings, their neighbours."""

from __future__ import annotations

from riverrun.expressions.casts import argument, cast
from riverrun.expressions.constants import double
from riverrun.expressions.forms import Given, form
from riverrun.expressions.moments import DAY, clock, date, days, floor_divided, micros, moment
from riverrun.expressions.temporal import add_days, as_date, as_timestamp, of_day
from riverrun.expressions.temporal import add_months as months_added
from riverrun.expressions.term import Term, null, strict
from riverrun.flow.coercion import is_datetime
from riverrun.flow.schema import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, is_integral
from riverrun.flow.syntax import Constant

_PARTS = {
    "year": "year({})",
    "quarter": "quarter({})",
    "month": "month({})",
    "day": "day({})",
    "dayofmonth": "day({})",
    "dayofweek": "dayofweek({}) + 1",
    "weekday": "isodow({}) - 1",
    "dayofyear": "dayofyear({})",
    "weekofyear": "week({})",
}
_TIMES = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "quarter": "quarter",
    "week": "week",
}
# `date_trunc` is by way of a timestamp, and those end long before dates do.
_STARTS = {
    "year": "{0} - (dayofyear({0}) - 1)::INTEGER",
    "quarter": "make_date(year({0}), quarter({0}) * 3 - 2, 1)",
    "month": "{0} - (day({0}) - 1)::INTEGER",
    "week": "{0} - (isodow({0}) - 1)::INTEGER",
}
_LENGTHS = {
    **dict.fromkeys(("day", "dd"), DAY),
    **_TIMES,
    "millisecond": 1000,
    "microsecond": 1,
}
_FIELDS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "week": "weekofyear",
    "dow": "dayofweek",
    "doy": "dayofyear",
    "hour": "hour",
    "minute": "minute",
}


@form(*_PARTS)
def date_part(given: Given) -> Term:
    given.expect(1)
    return _date_part(given.call.name, as_date(given, 0))


def _date_part(name: str, value: Term) -> Term:
    return strict(INT, [value], lambda a: f"CAST({_PARTS[name].format(a)} AS INTEGER)")


@form(*_TIMES)
def time_part(given: Given) -> Term:
    given.expect(1)
    return _time_part(given.call.name, as_timestamp(given, 0))


def _time_part(name: str, value: Term) -> Term:
    return strict(INT, [value], lambda a: f"CAST({name}({clock(a)}) AS INTEGER)")


@form("extract", "date_part", "datepart")
def extract(given: Given) -> Term:
    given.expect(2)
    name = _FIELDS.get(given.text(0).lower())
    if name is None or not is_datetime(given.arguments[1].type):
        given.refuse()
    if name in _TIMES:
        return _time_part(name, as_timestamp(given, 1))
    return _date_part(name, as_date(given, 1))


@form("date_trunc")
def truncated_timestamp(given: Given) -> Term:
    """The beginning of the unit that a moment is in; null where there is no such unit."""
    _, value = given.expect(2)
    unit = given.text(0).lower()
    if value.type not in (TIMESTAMP, DATE, STRING):
        given.refuse()
    value = cast(value, TIMESTAMP)
    if unit in _LENGTHS:
        return strict(TIMESTAMP, [value], lambda a: _floored(a, _LENGTHS[unit]), cost=4, repeats=True)
    if unit in _UNITS:
        name = _UNITS[unit]
        return strict(
            TIMESTAMP,
            [value],
            lambda a: moment(f"epoch_us(CAST(date_trunc('{name}', {clock(a)}) AS TIMESTAMP))", TIMESTAMP),
            cost=3,
        )
    return null(TIMESTAMP)


def _floored(value: str, unit: int) -> str:
    whole = micros(value)
    return moment(f"{whole} - ({whole} % {unit} + {unit}) % {unit}", TIMESTAMP)


@form("trunc")
def truncated_date(given: Given) -> Term:
    given.expect(2)
    name = _UNITS.get(given.text(1).lower())
    value = as_date(given, 0)
    if name is None:
        return null(DATE)
    return strict(DATE, [value], lambda a: f"CAST({_STARTS[name].format(a)} AS DATE)", repeats=True)


@form("date_add", "dateadd", "date_sub")
def shifted_date(given: Given) -> Term:
    given.expect(2)
    number = given.arguments[1]
    if not (is_integral(number.type) or number.type == STRING) or number.type == BIGINT:
        given.refuse()
    operator = "-" if given.call.name == "date_sub" else "+"
    return add_days(as_date(given, 0), cast(number, INT), operator)


@form("datediff", "date_diff")
def days_between(given: Given) -> Term:
    given.expect(2)
    end, start = as_date(given, 0), as_date(given, 1)
    return strict(INT, [end, start], lambda a, b: f"CAST({a} - {b} AS INTEGER)", may_fail=True)


@form("add_months")
def add_months(given: Given) -> Term:
    given.expect(2)
    return months_added(as_date(given, 0), argument(given, 1, INT))


@form("last_day")
def last_day(given: Given) -> Term:
    given.expect(1)
    return strict(DATE, [as_date(given, 0)], lambda a: f"last_day({a})")


@form("months_between")
def months_between(given: Given) -> Term:
    """Months, with a fraction of 31 days where the days of the month differ."""
    given.expect(2, 3)
    exact = given.arguments[2].constant if len(given.arguments) == 3 else Constant(given.type, True)
    if exact is None or not isinstance(exact.value, bool):
        given.refuse()
    end, start = as_timestamp(given, 0), as_timestamp(given, 1)

    def build(a: str, b: str) -> str:
        one, other = f"CAST({clock(a)} AS DATE)", f"CAST({clock(b)} AS DATE)"
        months = f"((year({one}) - year({other})) * 12 + month({one}) - month({other}))"
        is_whole = f"day({one}) = day({other}) OR ({one} = last_day({one}) AND {other} = last_day({other}))"
        seconds = " - ".join(f"{of_day(micros(value))} // 1000000" for value in (a, b))
        apart = f"((day({one}) - day({other})) * 86400 + ({seconds}))"
        diff = f"(CAST({months} AS DOUBLE) + CAST({apart} AS DOUBLE) / {double(31 * 86400.0)})"
        rounded = f"(floor({diff} * {double(1e8)} + {double(0.5)}) / {double(1e8)})"
        fraction = rounded if exact.value else diff
        return f"CASE WHEN {is_whole} THEN CAST({months} AS DOUBLE) ELSE {fraction} END"

    return strict(DOUBLE, [end, start], build, cost=20, repeats=True)


@form("make_date")
def make_date(given: Given) -> Term:
    given.expect(3)
    parts = [argument(given, index, INT) for index in range(3)]
    return strict(DATE, parts, lambda year, month, day: f"make_date({year}, {month}, {day})", may_fail=True)


@form("unix_date")
def unix_date(given: Given) -> Term:
    given.expect(1)
    return strict(INT, [as_date(given, 0)], days)


@form("date_from_unix_date")
def date_from_unix_date(given: Given) -> Term:
    given.expect(1)
    return strict(DATE, [argument(given, 0, INT)], date, may_fail=True)


_SINCE = {"unix_seconds": 1_000_000, "unix_millis": 1000, "unix_micros": 1}


@form(*_SINCE)
def since_epoch(given: Given) -> Term:
    (value,) = given.expect(1)
    if value.type != TIMESTAMP:
        given.refuse()
    unit = _SINCE[given.call.name]
    if unit == 1:
        return strict(BIGINT, [value], micros)
    return strict(BIGINT, [value], lambda a: floor_divided(micros(a), unit), cost=3, repeats=True)


_MADE = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}


@form(*_MADE)
def from_epoch(given: Given) -> Term:
    (value,) = given.expect(1)
    if not is_integral(value.type):
        given.refuse()
    unit = _MADE[given.call.name]
    value = cast(value, BIGINT)
    scale = "" if unit == 1 else f" * {unit}"
    return strict(TIMESTAMP, [value], lambda a: moment(f"{a}{scale}", TIMESTAMP), may_fail=True)
