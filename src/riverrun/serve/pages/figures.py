"""Numbers and times as people read them, the exact value in the tooltip.

>>> str(number(12_400, "rows"))
'<data value="12400" title="12 400 rows">12.4 k</data> rows'
"""

from __future__ import annotations

from datetime import UTC, datetime

from riverrun.durations import from_micros, show
from riverrun.serve.pages.markup import Html, join, tag

_POWERS = ("", "k", "M", "G", "T", "P")
UNKNOWN = tag("span", "unknown", class_="unknown")
_SECOND = 1_000_000
_CALENDAR = 60_000_000_000 * _SECOND  # some 1900 years around 1970


def scaled(value: float) -> tuple[str, str]:
    """At most three digits, and a power of a thousand."""
    figure, power = float(value), 0
    while abs(figure) >= 999.5 and power < len(_POWERS) - 1:
        figure, power = figure / 1000, power + 1
    digits = 0 if abs(figure) >= 99.95 or (power == 0 and figure == int(figure)) else 1
    return f"{figure:.{digits}f}".removesuffix(".0"), _POWERS[power]


def short(value: float) -> str:
    """12.4 k; small numbers as they are."""
    figure, power = scaled(value)
    return f"{figure} {power}".rstrip()


def exact(value: float) -> str:
    """All digits, in groups."""
    written = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
    return written.replace(",", " ")


def number(value: float, unit: str = "") -> Html:
    """A count with its unit; one row is not "1 rows"."""
    noun = unit.removesuffix("s") if value == 1 and unit.endswith("s") and unit != "s" else unit
    data = tag("data", short(value), value=value, title=f"{exact(value)} {noun}".rstrip())
    return join(data, f" {noun}") if noun else data


def rate(value: float | None) -> Html:
    """Rows per second."""
    if value is None:
        return UNKNOWN
    return join(
        tag("data", short(value), value=round(value, 3), title=f"{exact(round(value, 3))} rows per second"), "/s"
    )


def size(value: int) -> Html:
    """Bytes."""
    figure, power = scaled(value)
    return tag("data", f"{figure} {power}B", value=value, title=f"{exact(value)} bytes")


def span_text(seconds: float) -> str:
    """A length of time, in the one or two units that matter."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return " ".join(show(round(seconds) * _SECOND).split()[:4])


def span(seconds: float) -> Html:
    """The same, exact in the tooltip."""
    return tag("data", span_text(seconds), value=round(seconds, 3), title=f"{exact(round(seconds, 3))} seconds")


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
    passed = ((now or datetime.now(UTC)) - at).total_seconds()
    full = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said = "now" if abs(passed) < 1 else f"{span_text(passed)} ago" if passed > 0 else f"in {span_text(-passed)}"
    return tag("time", said, datetime=full, title=full)


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
