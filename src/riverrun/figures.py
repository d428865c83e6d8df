"""Counts, sizes, rates, times and strings as people read them: on the command line, on the dashboard, in benchmarks.

>>> count(12_400), size(3_200_000), rate(250_000, 2.0)
('12.4 k', '3.2 MB', '125 k rows/s')
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from riverrun.durations import show

# Values come from events: a control character must not reach the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_POWERS = ("", "k", "M", "G", "T", "P")
_SECOND = 1_000_000


def scaled(value: float) -> tuple[float, str]:
    """A number below a thousand, and the power of a thousand that is missing."""
    number, power = float(value), 0
    while abs(number) >= 999.5 and power < len(_POWERS) - 1:
        number, power = number / 1000, power + 1
    return number, _POWERS[power]


def count(value: float) -> str:
    """A number with at most three digits and a power: 12.4 k, 3.1 M; small ones as they are."""
    number, power = scaled(value)
    return f"{_short(number, power)} {power}".rstrip()


def rows(value: int) -> str:
    """A number of rows: "1 row", "12.4 k rows"."""
    return plural(value, "row")


def plural(value: int, noun: str) -> str:
    """A number of things: "1 segment", "3 segments"."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def size(value: int) -> str:
    """A number of bytes: "512 B", "3.2 MB"."""
    number, power = scaled(value)
    return f"{_short(number, power)} {power}B"


def rate(value: float, seconds: float) -> str:
    """Rows per second."""
    return f"{count(value / seconds if seconds > 0 else value)} rows/s"


def span(seconds: float) -> str:
    """A length of time, in the one or two units that matter: "250 ms", "3 min 12 s"."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return " ".join(show(round(seconds) * _SECOND).split()[:4])


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago: "3 min ago"; a time in the future is said to be one, and never is a dash."""
    if moment is None:
        return "–"
    passed = ((now or datetime.now(UTC)) - moment).total_seconds()
    return "now" if abs(passed) < 1 else f"{span(passed)} ago" if passed > 0 else f"in {span(-passed)}"


def behind(rows_behind: int, seconds: float) -> str:
    """How far a reader is behind: "1.2 k rows, 3 min behind"."""
    if not rows_behind:
        return "up to date"
    return f"{rows(rows_behind)}, {show(int(seconds * 1_000_000))} behind"


def clock(moment: datetime) -> str:
    """A time in UTC, to the millisecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def safe(text: str) -> str:
    r"""The string with control characters shown as escapes.

    >>> safe("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return _CONTROL.sub(lambda control: repr(control[0])[1:-1], text)


def _short(number: float, power: str) -> str:
    if not power:
        return f"{number:.3g}" if abs(number) >= 0.0005 else "0"
    return f"{number:.{0 if abs(number) >= 99.95 else 1}f}".removesuffix(".0")
