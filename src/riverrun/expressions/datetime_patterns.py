"""Patterns of dates and times, such as yyyy-MM-dd HH:mm:ss: the common part of Java's language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

_WRITTEN = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "M": "%-m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "a": "%p",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "DDD": "%j",
    "X": "Z",
    "XX": "Z",
    "XXX": "Z",
    "xxx": "+00:00",
    "xx": "+0000",
    "x": "+00",
    "Z": "+0000",
    "ZZZ": "+0000",
}
_READ = {
    "yyyy": r"[1-9][0-9]{3}",
    "MM": r"(0[1-9]|1[0-2])",
    "dd": r"(0[1-9]|[12][0-9]|3[01])",
    "HH": r"([01][0-9]|2[0-3])",
    "mm": r"[0-5][0-9]",
    "ss": r"[0-5][0-9]",
    "SSS": r"[0-9]{3}",
    "SSSSSS": r"[0-9]{6}",
}
_ORDER = ("yyyy", "MM", "dd", "HH", "mm", "ss")  # what is read has a beginning of these, perhaps with a fraction


@dataclass(frozen=True, slots=True)
class DatetimePattern:
    """Letters of fields, and texts between them: ((True, "yyyy"), (False, "-"), …)."""

    parts: tuple[tuple[bool, str], ...]

    @property
    def fields(self) -> list[str]:
        return [text for is_field, text in self.parts if is_field]

    def strftime(self) -> str:
        """As DuckDB writes and reads it."""
        return "".join(_WRITTEN[text] if is_field else text.replace("%", "%%") for is_field, text in self.parts)

    def regex(self) -> str:
        """What a string looks like that has all digits of all fields, in the years 1000 to 9999."""
        return "".join(_READ[text] if is_field else _literal(text) for is_field, text in self.parts)


def _literal(text: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else f"\\x{{{ord(letter):X}}}" for letter in text)


def split_pattern(pattern: str) -> tuple[tuple[bool, str], ...] | None:
    """The fields and texts of a pattern; None if it has something else."""
    parts: list[tuple[bool, str]] = []
    for piece in re.findall(r"'(?:[^']|'')*'|.", pattern, re.DOTALL):
        if len(piece) > 1:
            parts.append((False, piece[1:-1].replace("''", "'") or "'"))
        elif piece == "'" or piece in "[]{}#":
            return None
        else:
            parts.append((piece.isascii() and piece.isalpha(), piece))
    runs = groupby(parts, key=lambda part: part if part[0] else (False, ""))
    joined = [(is_field, "".join(text for _, text in run)) for (is_field, _), run in runs]
    return tuple(joined)


def to_write(pattern: str) -> DatetimePattern | None:
    """A pattern in which all fields can be written."""
    parts = split_pattern(pattern)
    if parts is None or any(text not in _WRITTEN for is_field, text in parts if is_field):
        return None
    return DatetimePattern(parts)


def to_read(pattern: str) -> DatetimePattern | None:
    """A pattern in which all fields can be read: a date, or a date and a time, each field with all its digits."""
    parts = split_pattern(pattern)
    if parts is None:
        return None
    fields = [text for is_field, text in parts if is_field]
    if fields[-1:] in (["SSS"], ["SSSSSS"]) and len(fields) == 7:
        fields.pop()
    if not fields or sorted(fields, key=lambda f: _ORDER.index(f) if f in _ORDER else 9) != list(_ORDER[: len(fields)]):
        return None
    return DatetimePattern(parts)
