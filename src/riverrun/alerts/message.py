"""What a message says: a text for people, and the same as JSON for webhooks."""

from __future__ import annotations

import datetime as dt
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

SHOWN = 5  # rows of a group that a message shows
_LONGEST_VALUE = 500
_LARGEST_ROWS = 256 << 10  # bytes of rows in the body for a webhook
_DAY_FIRST = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class AlertMessage:
    """One message. `key` is the same whenever the same rows are sent again, so that receivers can tell."""

    flow: str
    alert: str
    key: str
    count: int
    text: str
    rows: tuple[Mapping[str, Any], ...]

    @property
    def title(self) -> str:
        return f"{self.flow}: {self.alert}" + (f" ({self.count} rows)" if self.count > 1 else "")

    def body(self) -> bytes:
        """For a webhook. `rows` are the first of `count`, fewer when they are large."""
        return msgspec.json.encode(
            {
                "title": self.title,
                "message": self.text,
                "type": "warning",
                "flow": self.flow,
                "alert": self.alert,
                "key": self.key,
                "count": self.count,
                "rows": _fitting(self.rows),
            }
        )


def compose(
    flow: str, alert: str, key: str, template: str | None, count: int, rows: Sequence[Mapping[str, Any]]
) -> AlertMessage:
    """The message about a group of `count` rows, of which `rows` are the first."""
    lines = [format_row(template, row) for row in rows[:SHOWN]]
    if count == 1 and lines:
        text = lines[0]
    else:
        more = count - len(lines)
        text = "\n".join([f"{count} rows:", *(f"- {line}" for line in lines), *([f"and {more} more"] if more else [])])
    return AlertMessage(flow, alert, key, count, text, tuple(rows[:SHOWN]))


def format_row(template: str | None, row: Mapping[str, Any]) -> str:
    """One row as text.

    >>> format_row("{user} paid {amount:.2f}", {"user": "ada", "amount": 9.5})
    'ada paid 9.50'
    >>> format_row(None, {"user": "ada", "amount": 9.5})
    'user ada, amount 9.5'
    """
    if template is None:
        return ", ".join(f"{name} {show_value(value)}" for name, value in row.items())
    out = []
    for text, name, form, _ in string.Formatter().parse(template):
        out.append(text)
        if name is not None:  # a name is a column, and nothing is looked up inside its value
            out.append(_formatted(row.get(name), form or ""))
    return "".join(out)


def show_value(value: Any) -> str:
    """A value as people read it, in one line.

    >>> show_value(dt.datetime(2026, 1, 31, 12, 0, 3, tzinfo=dt.UTC)), show_value(None), show_value(True), show_value([1, 2])
    ('2026-01-31 12:00:03 UTC', '–', 'true', '[1,2]')
    """
    if value is None:
        text = "–"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, dt.datetime):
        text = _moment(value)
    elif isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, list | tuple | dict):
        text = msgspec.json.encode(value).decode()
    else:
        text = str(value)
    text = "".join(" " if ord(mark) < 32 or ord(mark) == 127 or mark in "\u2028\u2029\x85" else mark for mark in text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _formatted(value: Any, form: str) -> str:
    if not form or value is None:
        return show_value(value)
    try:
        return show_value(format(value, form))
    except (ValueError, TypeError):
        return show_value(value)


def _moment(value: dt.datetime) -> str:
    utc = value.astimezone(dt.UTC) if value.tzinfo else value
    fraction = f".{utc.microsecond:06d}".rstrip("0") if utc.microsecond else ""
    return f"{utc.strftime(_DAY_FIRST)}{fraction}" + (" UTC" if value.tzinfo else "")


def _fitting(rows: Sequence[Mapping[str, Any]]) -> list[msgspec.Raw]:
    encoded, size = [], 0
    for row in rows:
        data = msgspec.json.encode(row)
        size += len(data)
        if size > _LARGEST_ROWS:
            break
        encoded.append(msgspec.Raw(data))
    return encoded
