"""CSV with a header. An empty value is null, a quoted empty one ("") an empty text.

Which times are taken, the topic says. Values of arrays, maps and structs are JSON, binary ones base64.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from riverrun.ddl import from_arrow
from riverrun.errors import Invalid, did_you_mean
from riverrun.intake.chunk import Chunk
from riverrun.intake.lines import Lines, read_lines
from riverrun.log.times import NoZone, TimeForms

_WRITTEN_INFINITY = r"(?i)^[+-]?inf(inity)?$"


def delimited(fd: int, size: int, longest: int, schema: pa.Schema, times: TimeForms) -> Iterator[Chunk]:
    """Chunks of about `size` lines; a quoted value may go over several."""
    names: list[str] | None = None
    behind = 0
    for lines in _whole_records(read_lines(fd, size, longest), longest):
        if names is None:
            names = _header(lines.lines[0], schema)
            records = Lines(lines.lines[1:], lines.first + 1, lines.bytes)
        else:
            records = lines
        chunk = CsvChunk(records, names, schema, times, behind)
        behind = chunk.behind
        yield chunk


def _whole_records(source: Iterator[Lines], longest: int) -> Iterator[Lines]:
    """Join what a quoted value with line ends in it has torn apart."""
    held: Lines | None = None
    for lines in source:
        held = lines if held is None else Lines(held.lines + lines.lines, held.first, lines.bytes)
        if not _ends_in_quotes(held.lines):
            yield held
            held = None
        elif sum(map(len, held.lines)) > longest + sum(map(len, lines.lines)):
            break
    if held is not None:
        yield held


def _ends_in_quotes(lines: list[bytes]) -> bool:
    if sum(line.count(b'"') for line in lines) % 2 == 0:
        return False
    try:
        for _ in csv.reader((line.decode("latin-1") + "\n" for line in lines), strict=True):
            pass
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def _header(line: bytes, schema: pa.Schema) -> list[str]:
    """The names of the columns. A byte order mark before them is what spreadsheets write."""
    try:
        names = next(csv.reader([line.removeprefix(b"\xef\xbb\xbf").decode()]), [])
    except UnicodeDecodeError:
        raise Invalid("line 1 is not UTF-8") from None
    for i, name in enumerate(names):
        if name in names[:i]:
            raise Invalid(f"line 1 names the column {name!r} twice")
        if name not in schema.names and name not in ("_deleted", "_time"):
            hint = f"{did_you_mean(name, schema.names)}. The first line has the names of the columns"
            raise Invalid(f"line 1: there is no column {name!r}", hint=hint)
    if not names:
        raise Invalid("line 1 is empty", hint="The first line has the names of the columns")
    return names


class CsvChunk(Chunk):
    """Records of a CSV file as texts; they become values when asked for, so that one bad value is found."""

    def __init__(self, lines: Lines, names: list[str], schema: pa.Schema, times: TimeForms, behind: int) -> None:
        self._lines = lines
        self._schema = schema
        self._times = times
        self._ragged: dict[int, str] = {}
        self._table = self._parse(names)
        self.size = self._table.num_rows + len(self._ragged)
        self.behind = behind + self.size
        self.bytes = lines.bytes

    def place(self, record: int) -> str:
        """The line where the record begins. Only asked for bad ones, so they may be counted slowly."""
        texts = (line.decode("latin-1") + "\n" for line in self._lines.lines)
        reader, begin, seen = csv.reader(texts), 0, -1
        for fields in reader:
            seen += bool(fields)  # an empty line is no record
            if seen == record:
                break
            begin = reader.line_num
        return f"line {self._lines.first + begin}"

    def rows(self, low: int, high: int) -> Any:
        for record, why in self._ragged.items():
            if low <= record < high:
                raise Invalid(why)
        before = sum(record < low for record in self._ragged)
        texts = self._table.slice(low - before, high - low)
        columns = {name: self._values(texts.column(name), name) for name in texts.column_names}
        table = pa.table(columns)
        exotic = [n for n in columns if n in self._schema.names and _is_exotic(self._schema.field(n).type)]
        return _decoded(table, exotic, self._schema) if exotic else table

    def _parse(self, names: list[str]) -> pa.Table:
        if not any(line.strip() for line in self._lines.lines):
            return pa.table({name: pa.array([], pa.binary()) for name in names})

        def ragged(row: arrow_csv.InvalidRow) -> str:
            self._ragged[row.number - 1] = f"has {row.actual_columns} values, the header has {row.expected_columns}"
            return "skip"

        return arrow_csv.read_csv(
            io.BytesIO(b"\n".join(self._lines.lines) + b"\n"),
            arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=1 << 30),
            arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=ragged),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _values(self, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        kind = {"_deleted": pa.bool_(), "_time": pa.timestamp("us", "UTC")}.get(name)
        kind = kind or self._schema.field(name).type
        try:
            texts = column.cast(pa.string())
        except pa.ArrowException:
            raise Invalid(f"column {name!r}: not UTF-8") from None
        if pc.any(pc.match_substring(texts, "\0")).as_py():
            raise Invalid(f"column {name!r}: has a NUL byte")
        if pa.types.is_string(kind) or _is_exotic(kind):
            return texts
        try:
            return self._times.texts(texts, kind) if pa.types.is_timestamp(kind) else _cast(texts, kind)
        except NoZone as error:
            raise Invalid(f"column {name!r}: {error.message}", hint=error.hint) from None
        except pa.ArrowException:
            first = next((text for text in texts.to_pylist() if text is not None), None)
            if pa.types.is_timestamp(kind) and kind.tz:
                refusal = self._times.refusal(first)
                raise Invalid(f"column {name!r}: {refusal.message}", hint=refusal.hint) from None
            raise Invalid(f"column {name!r}: not a {from_arrow(kind)}: {first!r}") from None


def _cast(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    values = texts.cast(kind)
    if pa.types.is_floating(kind):
        overflown = pc.and_not(pc.is_inf(values), pc.match_substring_regex(texts, _WRITTEN_INFINITY))
        if pc.any(overflown).as_py():
            raise pa.ArrowInvalid("number out of range")
    return values


def _is_exotic(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind))


def _decoded(table: pa.Table, exotic: list[str], schema: pa.Schema) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    for name in exotic:
        if pa.types.is_nested(schema.field(name).type):
            for row in rows:
                if row[name] is not None:
                    try:
                        row[name] = msgspec.json.decode(row[name])
                    except (msgspec.DecodeError, RecursionError) as error:
                        raise Invalid(f"column {name!r}: {error}") from None
    return rows
