"""What is wrong with a text that msgspec does not take as JSON, in words for those who wrote it."""

from __future__ import annotations

import json
import re

import msgspec

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for a text that is no JSON, or none of the type it expects."""

_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_CONSTANT = re.compile(rb"(?<![\w\"])-?(NaN|Infinity)\b")


def json_fault(error: Exception, text: bytes) -> str:
    """Why a decoder did not take this text."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if text.startswith(_BOM):
        return "begins with a byte order mark; remove it (it is invisible in most editors)"
    if b"\0" in text:
        return "has a NUL byte"
    constant = _CONSTANT.search(text)
    if constant:
        return f"{constant[0].decode()} is not JSON; leave the value out or write null"
    if _SURROGATE.search(text) and ("truncated" in str(error) or "hex escape" in str(error)):
        return "has half of a surrogate pair (\\ud800 to \\udfff), which is no character"
    if "truncated" in str(error):
        return "ends in the middle"
    return str(error).partition(" - at ")[0]


def repeated_name(text: bytes) -> str | None:
    """A name that an object in a JSON text has twice: decoders take the last one, which one was meant nobody knows.

    >>> repeated_name(b'{"a": 1, "b": {"c": 1, "c": 2}}')
    'c'
    """
    found: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                found.append(name)
            seen.add(name)

    json.loads(text, object_pairs_hook=look)
    return found[0] if found else None
