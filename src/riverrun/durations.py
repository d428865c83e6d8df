"""Durations and times at the edge; integer microseconds inside.

>>> micros("10 seconds"), micros("250 ms"), micros(0.5)
(10000000, 250000, 500000)
>>> show(micros("90 minutes"))
'1 h 30 min'
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from riverrun.errors import Invalid

Duration = str | timedelta | int | float

_UNITS = {
    1: ("us", "µs", "microsecond"),
    1_000: ("ms", "millisecond"),
    1_000_000: ("s", "sec", "second"),
    60_000_000: ("m", "min", "minute"),
    3_600_000_000: ("h", "hour"),
    86_400_000_000: ("d", "day"),
    604_800_000_000: ("w", "week"),
}
# Only words have a plural: "ms" are milliseconds, not minutes.
_FACTOR = {
    name + plural: factor
    for factor, names in _UNITS.items()
    for name in names
    for plural in (("", "s") if len(name) > 2 else ("",))
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*,?", re.IGNORECASE)
_UNEVEN = re.compile(r"\d\s*(months?|mon|mo|quarters?|years?|y)\b", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_LARGEST = 1 << 62

FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICRO
"""The first moment that a datetime can say, in microseconds since 1970."""

LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC) - _EPOCH) // _MICRO
"""The last one."""


def micros(duration: Duration) -> int:
    """Microseconds of a duration: a string such as "1 hour" or "1h 30min", a timedelta, or a number of seconds."""
    if isinstance(duration, bool):
        raise _bad(duration)
    if isinstance(duration, timedelta):
        value = duration // _MICRO
    elif isinstance(duration, int | float):
        if not abs(duration) < _LARGEST / 1e6:
            raise _bad(duration)
        value = round(duration * 1_000_000)
    elif isinstance(duration, str):
        value = _parse(duration)
    else:
        raise _bad(duration)
    if value < 0:
        raise Invalid(f"a duration cannot be negative: {duration!r}")
    return value


def _parse(text: str) -> int:
    at, total = 0, 0
    stripped = text.strip()
    while at < len(stripped):
        part = _PART.match(stripped, at)
        factor = part and _FACTOR.get(part[2].lower())
        if not part or not factor:
            raise _bad(text)
        size = float(part[1]) * factor
        if size >= _LARGEST:
            raise _bad(text)
        total += round(size)
        at = part.end()
    if not stripped or total >= _LARGEST:
        raise _bad(text)
    return total


def _bad(value: object) -> Invalid:
    hint = 'Write "10 seconds", "1 hour", "250 ms", or a number of seconds'
    if isinstance(value, str) and _UNEVEN.search(value):
        hint = "Months and years differ in length: count days, as in " + '"30 days"'
    return Invalid(f"not a duration: {value!r}", hint=hint)


def seconds(duration: Duration | None) -> float | None:
    """Seconds as the standard library's timeouts want them; None stays None (no limit)."""
    return None if duration is None else micros(duration) / 1e6


def show(value: int) -> str:
    """A duration in microseconds as people read it, with at most two units."""
    if value < 0:
        return "-" + show(-value)
    if not value:
        return "0 s"
    if value < 1_000:
        return f"{value} µs"
    if value < 999_500:  # what is above would be rounded to a thousand
        return f"{value / 1_000:.3g} ms"
    if value < 60_000_000:
        return f"{value / 1_000_000:.3g} s"
    for big, small, name, sub in ((60, 1, "min", "s"), (3600, 60, "h", "min"), (86400, 3600, "d", "h")):
        whole = value // 1_000_000
        if whole < big * (60 if big < 3600 else 24) or name == "d":
            rest = whole % big // small
            return f"{whole // big} {name}" + (f" {rest} {sub}" if rest else "")
    raise AssertionError


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970-01-01 UTC. A datetime without a zone may be any of 24 hours, and is refused."""
    if not isinstance(moment, datetime):
        raise Invalid(f"not a time: {moment!r}", hint="Give a datetime")
    if moment.tzinfo is None:
        raise Invalid(f"{moment.isoformat(' ')} is a time without a zone", hint="Give it one: datetime.now(UTC)")
    value = (moment - _EPOCH) // _MICRO
    if not FIRST <= value <= LAST:
        raise Invalid(f"{moment} lies outside the years 1 to 9999 in UTC")
    return value


def from_micros(value: int) -> datetime:
    """The UTC datetime of microseconds since 1970-01-01; the first or the last there is for what lies beyond."""
    return _EPOCH + timedelta(microseconds=min(max(value, FIRST), LAST))


def wall_clock() -> int:
    """Microseconds since 1970-01-01 UTC, now."""
    return time.time_ns() // 1000
