"""Places in a topic as people type them: earliest, latest, a position, a time, "10 minutes ago"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from riverrun.durations import micros
from riverrun.errors import Invalid
from riverrun.position import Position

Place = str | Position | datetime


def parse_place(text: str) -> Place:
    """What `--start`, `--end` and `--to` take.

    >>> parse_place("orders@0:17"), parse_place("2026-01-01T12:00Z").isoformat()
    (Position.parse('orders@0:17'), '2026-01-01T12:00:00+00:00')
    """
    text = text.strip()
    if text in ("earliest", "latest"):
        return text
    if "@" in text:
        return Position.parse(text)
    if text.endswith("ago"):
        return datetime.now(UTC) - timedelta(microseconds=micros(text.removesuffix("ago")))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"not a position or a time: {text!r}",
            hint='Write earliest, latest, "orders@0:17,1:4", "2026-01-31 12:00" (UTC) or "10 minutes ago"',
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
