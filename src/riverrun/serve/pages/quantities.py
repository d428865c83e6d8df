"""Numbers and times as people read them, the exact value in the tooltip.

>>> str(number(12_400, "rows"))
'<data value="12400" title="12 400 rows">12.4 k</data> rows'
"""

from __future__ import annotations

from datetime import UTC, datetime

from riverrun import figures
from riverrun.durations import from_micros
from riverrun.serve.pages.markup import Html, join, tag

UNKNOWN = tag("span", "unknown", class_="unknown")
_CALENDAR = 60_000_000_000_000_000  # microseconds: some 1900 years around 1970

# Where only text can stand.
short, span_text = figures.count, figures.span


def exact(value: float) -> str:
    """All digits, in groups."""
    written = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
    return written.replace(",", " ")


def number(value: float, unit: str = "") -> Html:
    """A count with its unit; one row is not "1 rows"."""
    noun = unit.removesuffix("s") if value == 1 and unit.endswith("s") and unit != "s" else unit
    data = tag("data", figures.count(value), value=value, title=f"{exact(value)} {noun}".rstrip())
    return join(data, f" {noun}") if noun else data


def rate(value: float | None) -> Html:
    """Rows per second."""
    if value is None:
        return UNKNOWN
    return join(
        tag("data", figures.count(value), value=round(value, 3), title=f"{exact(round(value, 3))} rows per second"),
        "/s",
    )


def size(value: int) -> Html:
    """Bytes."""
    return tag("data", figures.size(value), value=value, title=f"{exact(value)} bytes")


def span(seconds: float) -> Html:
    """A length of time."""
    return tag("data", figures.span(seconds), value=round(seconds, 3), title=f"{exact(round(seconds, 3))} seconds")


def parse(moment: str | None) -> datetime | None:
    """A time as statuses have it."""
    return datetime.fromisoformat(moment).astimezone(UTC) if moment else None


def clock(moment: datetime | int | None, now: datetime | None = None) -> Html:
    """18:04:31, with the day where it is not today; UTC in full in the tooltip."""
    at = _moment(moment)
    if at is None:
        return UNKNOWN
    today = (now or datetime.now(UTC)).date()
    shown = at.strftime("%H:%M:%S" if at.date() == today else "%Y-%m-%d %H:%M:%S")
    full = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return tag("time", shown, datetime=full, title=full)


def ago(moment: datetime | int | None, now: datetime | None = None) -> Html:
    """3 min ago; a time in the future is said to be one."""
    at = _moment(moment)
    if at is None:
        return UNKNOWN
    full = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return tag("time", figures.ago(at, now), datetime=full, title=full)


def share(part: float, whole: float) -> str:
    """A percentage that does not round something to nothing, nor almost all to all."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f}".removesuffix(".0") + " %"


def _moment(moment: datetime | int | None) -> datetime | None:
    """None where there is none, and where no calendar has it."""
    if isinstance(moment, int):
        return from_micros(moment) if abs(moment) < _CALENDAR else None
    return None if moment is None else moment.astimezone(UTC)
