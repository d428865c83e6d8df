"""What is wrong with a text that msgspec does not take as JSON, in words for those who wrote it."""

from __future__ import annotations

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
