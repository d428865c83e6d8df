"""Lengths of time as arguments: positive ones, and differences that may point back."""

from __future__ import annotations

from datetime import timedelta

from riverrun.durations import Duration, micros
from riverrun.errors import Invalid


def span(what: str, duration: Duration) -> int:
    """Microseconds of a duration; `what` is the argument's name in the error."""
    try:
        return micros(duration)
    except Invalid as error:
        raise Invalid(f"{what}: {error.message}", hint=error.hint) from None


def positive(what: str, duration: Duration) -> int:
    """A duration longer than nothing."""
    value = span(what, duration)
    if value == 0:
        raise Invalid(f"{what} must be longer than 0, not {duration!r}")
    return value


def signed(what: str, duration: Duration) -> int:
    """A duration that may be negative: "-5 minutes"."""
    if isinstance(duration, str) and duration.strip().startswith("-"):
        return -span(what, duration.strip()[1:])
    if isinstance(duration, timedelta) and duration < timedelta():
        return -span(what, -duration)
    if isinstance(duration, int | float) and duration < 0:
        return -span(what, -duration)
    return span(what, duration)


def interval(what: str, within: Duration | tuple[Duration, Duration]) -> tuple[int, int]:
    """(lo, hi) of a difference: one duration means that much to either side."""
    if isinstance(within, tuple | list):
        if len(within) != 2:
            raise Invalid(f"{what} is a duration or a pair of them, not {within!r}")
        lo, hi = signed(what, within[0]), signed(what, within[1])
    else:
        hi = span(what, within)
        lo = -hi
    if lo > hi:
        raise Invalid(
            f"{what} ends before it starts: {within!r}", hint='Write the earlier end first: ("-5 minutes", "0 s")'
        )
    return lo, hi
