"""Strings as Spark reads them: numbers, dates and times in all the ways that a cast accepts.

DuckDB reads what is written in the usual way; these read the rest, one string after the other. They give None for what
cannot be read.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from riverrun.expressions.datetime_patterns import to_read

BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))
"""What casts to whole numbers, booleans and times leave out on both sides."""

_TRIMMED = "".join(map(chr, range(0x21)))  # by Java's String.trim
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?[0-9]+)[fFdD]?")
_SPECIAL = {"inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_SPECIAL |= {"nan": "nan"}
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?"
_TIMESTAMP = re.compile(rf"([+-]?)([0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_TIME})?)?)?", re.DOTALL)
_ONLY_TIME = re.compile(r"T[0-9]{1,2}(:.*)?|[0-9]{1,2}:[0-9].*", re.DOTALL)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?:([+-])(?:([0-9])|([0-9]{2})(?:([0-9]{2})([0-9]{2})?|:([0-9]{2})(?::([0-9]{2}))?)?))?"
)
_NOT_JAVAS = ("posix", "right/", "localtime", "Factory")
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
DAY = 86_400_000_000
ERA = 146_097  # days of 400 years, after which the calendar repeats itself
_LONG = 1 << 63


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a date of the Gregorian calendar, in any year; None if there is no such day."""
    if not 1 <= month <= 12 or not 1 <= day <= _days_in(year, month):
        return None
    shifted = year - (month <= 2)
    century = shifted // 100
    months = (month - 3) % 12
    return 365 * shifted + shifted // 4 - century + century // 4 + (153 * months + 2) // 5 + day - 719_469


def _days_in(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 + leap if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def add_months(days: int, months: int) -> int | None:
    """A date so many months later, both as days since 1970: in a shorter month its last day; None if it is too far away."""
    eras = days // ERA
    at = date(1970, 1, 1) + timedelta(days - eras * ERA)
    year, month = divmod((at.year + 400 * eras) * 12 + at.month - 1 + months, 12)
    added = days_of(year, month + 1, min(at.day, _days_in(year, month + 1)))
    return added if added is not None and -(1 << 31) <= added < 1 << 31 else None


def read_date(text: str) -> int | None:
    """Days since 1970."""
    match = _DATE.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    return days_of(int(sign + year), int(month or 1), int(day or 1))


def read_timestamp(text: str) -> int | None:
    """Microseconds since 1970; what names no time zone is in UTC. A time without a date, which would be today's, is an error."""
    return _read_moment(text, zoned=True)


def read_timestamp_ntz(text: str) -> int | None:
    """Microseconds since 1970 on the clock that the string shows, whatever its time zone."""
    return _read_moment(text, zoned=False)


def _read_moment(text: str, zoned: bool) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if match is None:
        if zoned and _ONLY_TIME.fullmatch(text.strip(BLANKS)):
            raise ValueError(f"{text!r} has no date; Spark would take that of today")
        return None
    sign, year, month, day, hour, minute, second, fraction, zone = match.groups()
    days = days_of(int(sign + year), int(month or 1), int(day or 1))
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    of_day = (hours * 60 + minutes) * 60 + seconds
    micros = days * DAY + of_day * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    offset = 0 if zone is None else _offset(zone.strip(_TRIMMED), micros)
    if offset is None:
        return None
    moment = micros - offset if zoned else micros
    return moment if -_LONG <= moment < _LONG else None


def _offset(zone: str, local: int) -> int | None:
    """What a time zone is ahead of UTC at a moment of its own clock."""
    zone = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", zone, count=1)
    zone = re.sub(r"([+-])([0-9][0-9]):([0-9])$", r"\1\2:0\3", zone, count=1)
    zone = _SHORT_ZONES.get(zone, zone)
    if zone == "Z":
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is not None and zone:
        return _fixed_offset(match)
    if zone.startswith(_NOT_JAVAS):
        return None
    try:
        region = ZoneInfo(zone)
        ahead = (datetime(1970, 1, 1) + timedelta(microseconds=local)).replace(tzinfo=region).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        return None
    return None if ahead is None else ahead // timedelta(microseconds=1)


def _fixed_offset(match: re.Match[str]) -> int | None:
    sign, digit, digits, *rest = match.groups()
    if sign is None:
        return 0
    minutes, seconds = (int(rest[0] or rest[2] or 0), int(rest[1] or rest[3] or 0))
    total = (int(digit or digits) * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3600:
        return None
    return (-total if sign == "-" else total) * 1_000_000


def read_double(text: str) -> str | None:
    """The number as DuckDB reads it."""
    trimmed = text.strip(_TRIMMED)
    match = _NUMBER.fullmatch(trimmed)
    if match is not None:
        return match[1]
    if trimmed in ("+NaN", "-NaN"):
        return "nan"
    hexadecimal = _HEX.fullmatch(trimmed)
    if hexadecimal is not None and hexadecimal[2] + hexadecimal[3]:
        return _from_hex(*hexadecimal.groups())
    return _SPECIAL.get(trimmed.lower())


def _from_hex(sign: str, whole: str, fraction: str, exponent: str) -> str:
    power = int(exponent) - 4 * len(fraction)
    digits = int(whole + fraction, 16)
    if not digits:
        return sign + "0"
    size = digits.bit_length() + power
    if not -1200 < size < 1100:
        return sign + ("inf" if size > 0 else "0")
    value = Fraction(digits) * Fraction(2) ** power
    exact = Context(prec=2500)
    return sign + str(exact.divide(Decimal(value.numerator), Decimal(value.denominator)))


def read_decimal(text: str, precision: int, scale: int) -> str | None:
    """The number with so many digits, rounded half up; None if it is none or has more digits."""
    trimmed = text.strip(_TRIMMED)
    if not _DECIMAL.fullmatch(trimmed):
        return None
    value = Decimal(trimmed)
    if value and value.adjusted() >= 38:
        return None
    if value and value.adjusted() < -scale - 2:
        return "0"
    wide = Context(prec=len(trimmed) + 100, rounding=ROUND_HALF_UP)
    wide.traps[Inexact] = False
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=wide)
    except InvalidOperation:
        return None
    return f"{rounded:f}" if rounded.adjusted() < precision - scale or not rounded else None


def read_pattern(text: str, pattern: str) -> int | None:
    """Microseconds since 1970, by a pattern that `to_read` accepts."""
    parsed = to_read(pattern)
    assert parsed is not None
    forms = {"yyyy": r"([0-9]{4}|\+[0-9]{5,9}|-[0-9]{4,9})"}
    expected = "".join(
        forms.get(part, f"([0-9]{{{len(part)}}})") if is_field else re.escape(part) for is_field, part in parsed.parts
    )
    match = re.fullmatch(expected, text, re.IGNORECASE)
    if match is None:
        return None
    parts = dict(zip(parsed.fields, map(int, match.groups()), strict=True))
    days = days_of(parts["yyyy"], parts.get("MM", 1), parts.get("dd", 1))
    hours, minutes, seconds = (parts.get(field, 0) for field in ("HH", "mm", "ss"))
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    fraction = parts.get("SSSSSS", parts.get("SSS", 0) * 1000)
    moment = days * DAY + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
    return moment if -_LONG <= moment < _LONG else None
