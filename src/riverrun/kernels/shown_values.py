"""Values of a row in a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LONGEST = 60  # characters of a value


def shown(values: Mapping[str, Any]) -> str:
    """Names and values, in one line, long ones cut.

    >>> shown({"user": "ada", "note": "two\\nlines"})
    'user = ada, note = two lines'
    """
    return ", ".join(f"{name} = {_printable(str(value)[:_LONGEST])}" for name, value in values.items())


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)
