"""Counts, sizes, rates and times as people read them. The exact ones are in the `--json` output.

>>> count(12_400), size(3_200_000), rate(250_000, 2.0)
('12.4 k', '3.2 MB', '125 k rows/s')
"""

from __future__ import annotations

from datetime import UTC, datetime

from riverrun.durations import show

_POWERS = ("", "k", "M", "G", "T", "P")


def count(value: float) -> str:
    """A number with at most three digits and a power: 12.4 k, 3.1 M; small ones as they are."""
    number, power = _scaled(value)
    return f"{number} {power}".rstrip()


def rows(value: int) -> str:
    """A number of rows: "1 row", "12.4 k rows"."""
    return plural(value, "row")


def plural(value: int, noun: str) -> str:
    """A number of things: "1 segment", "3 segments"."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def size(value: int) -> str:
    """A number of bytes: "512 B", "3.2 MB"."""
    number, power = _scaled(value)
    return f"{number} {power}B"


def rate(value: float, seconds: float) -> str:
    """Rows per second."""
    return f"{count(value / seconds if seconds > 0 else value)} rows/s"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago: "3 min ago"; a dash for never."""
    if moment is None:
        return "–"
    passed = ((now or datetime.now(UTC)) - moment).total_seconds()
    return "now" if abs(passed) < 1 else f"{show(round(passed) * 1_000_000)} ago" if passed > 0 else "in the future"


def behind(rows_behind: int, seconds: float | None) -> str:
    """How far a reader is behind: "1.2 k rows, 3 min behind"."""
    if not rows_behind:
        return "up to date"
    if seconds is None:
        return f"{rows(rows_behind)} behind"
    return f"{rows(rows_behind)}, {show(int(seconds * 1_000_000))} behind"


def clock(moment: datetime) -> str:
    """A time in UTC, to the millisecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _scaled(value: float) -> tuple[str, str]:
    number, power = float(value), 0
    while abs(number) >= 999.5 and power < len(_POWERS) - 1:
        number, power = number / 1000, power + 1
    if power == 0:
        return f"{number:.3g}", ""
    return f"{number:.{0 if abs(number) >= 99.95 else 1}f}".removesuffix(".0"), _POWERS[power]
