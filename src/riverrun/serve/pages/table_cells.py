"""Values of events and views in a table. All of it is somebody else's text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from riverrun.serve.answers import encode
from riverrun.serve.pages.markup import Html, tag

_SHOWN, _KNOWN = 80, 2000  # characters in a cell, and in its tooltip


def cell(value: Any) -> Html:
    """A value in a cell; long ones are cut, and whole in the tooltip."""
    if value is None:
        return tag("td", tag("span", "null", class_="null"), data_flash=True)
    shown = plain(value)
    cut = len(shown) > _SHOWN
    return tag(
        "td",
        shown[: _SHOWN - 1] + "…" if cut else shown,
        title=shown[:_KNOWN] if cut else None,
        class_="n" if is_number(value) else "cell",
        data_flash=True,
    )


def plain(value: Any) -> str:
    """A value as a string."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        at = value.astimezone(UTC) if value.tzinfo else value
        return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z").replace(".000", "")
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.10g}" if value != int(value) or abs(value) > 1e15 else f"{value:.1f}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes: {value[:32].hex(' ')}"
    if isinstance(value, Mapping | list | tuple):
        return encode(value).decode()
    return str(value)


def is_number(value: Any) -> bool:
    """Whether it belongs to the right of its column."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def row_id(key: Sequence[Any]) -> str:
    """A name for a row by its key, so that a page knows it again."""
    return "k" + hashlib.blake2b(repr(key).encode(errors="replace"), digest_size=8).hexdigest()


def pairs(row: Mapping[str, Any]) -> Html:
    """A row in one cell: name and value."""
    parts = [tag("span", tag("b", name), " ", plain(value)[:_SHOWN], class_="pair") for name, value in row.items()]
    return tag("td", *parts, class_="wide")


def heads(names: Iterable[str], numbers: Iterable[str] = ()) -> list[Html]:
    """Column headings."""
    right = set(numbers)
    return [tag("th", name, scope="col", class_="n" if name in right else None) for name in names]
