"""NDJSON: one JSON object per line. Empty lines are passed over.

In a topic with the schema "json string" a line is a document of its own: it is checked and stored as it is (unless it
is an object with the one field "json", which is a row like any other).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.intake.chunk import Chunk
from riverrun.intake.lines import Lines, read_lines
from riverrun.json_faults import BAD_JSON, json_fault, repeated_name

_DECODER = msgspec.json.Decoder()
_SPACED_COLON = re.compile(rb'"[ \t\r]+:')


def ndjson(fd: int, size: int, longest: int, schema: pa.Schema) -> Iterator[Chunk]:
    """Chunks of at most `size` lines."""
    documents = schema.names == ["json"] and pa.types.is_string(schema.field("json").type)
    for lines in read_lines(fd, size, longest):
        yield NdjsonChunk(lines, documents)


class NdjsonChunk(Chunk):
    """Lines of JSON. The records are the lines that are not empty; `behind` counts all lines."""

    def __init__(self, lines: Lines, documents: bool) -> None:
        self._lines = lines.lines
        self._first = lines.first
        self._documents = documents
        self.size = len(self._lines)
        self.behind = lines.first - 1 + self.size
        self.bytes = lines.bytes

    def place(self, record: int) -> str:
        return f"line {self._first + record}"

    def rows(self, low: int, high: int) -> list[Any]:
        lines = [line for line in self._lines[low:high] if line and not line.isspace()]
        try:
            rows = list(map(_DECODER.decode, lines))
        except BAD_JSON as error:
            raise Invalid(_why(error, lines[0], len(lines) == 1)) from None
        _refuse_repeated_names(lines, rows)
        if self._documents:
            return [
                row if _is_row(row) else {"json": line.strip().decode()} for line, row in zip(lines, rows, strict=True)
            ]
        return rows


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"json"} and isinstance(value["json"], str)


def _refuse_repeated_names(lines: list[bytes], rows: list[Any]) -> None:
    """msgspec takes the last of two equal names; which one was meant, nobody knows.

    In flat objects there are at most as many names as `":`, so where the count of those is what was decoded, none is
    repeated. Otherwise each line is looked at.
    """
    text = b"\n".join(lines)
    decoded = sum(len(row) for row in rows if isinstance(row, dict))
    if text.count(b'":') == decoded and not _SPACED_COLON.search(text):
        return
    try:
        for line in lines:
            if (name := repeated_name(line)) is not None:
                raise Invalid(f"the name {name!r} is given twice")
    except RecursionError:
        raise Invalid("nested too deeply") from None


def _why(error: Exception, line: bytes, alone: bool) -> str:
    if not alone:
        return str(error)
    fault = json_fault(error, line)
    return f"{fault}; a row is one line" if fault == "ends in the middle" else fault
