"""JSON of many rows at once, column by column, where all are plain: strings, whole numbers, booleans, doubles, timestamps.

It is the fast way, and gives exactly what goes the slow way, row by row; None where it is not certain to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from json import dumps
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from riverrun import calendar
from riverrun.log.json_rows import moment_texts

_ODD = r'[\x00-\x1f"\\]'
_CONTROL = r"[\x00-\x1f]"
_OTHERWISE = re.compile(rb"NaN|Inf|\[|:\s*-0\s*[,}]")  # one of both takes it, or another zero
_ESCAPED = re.compile(rb"\\u00[2-7]", re.IGNORECASE)  # a name may be written so, and would not be found
_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_LARGEST = float(1 << 53)  # from here on, a whole number may be another one as a double
_BLOCK = 64 << 20


def encode_columns(rows: pa.RecordBatch) -> list[bytes] | None:
    """A JSON object for each row."""
    pieces: list[Any] = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        written = _written(column)
        if written is None:
            return None
        pieces += [f"{',' if pieces else '{'}{dumps(name, ensure_ascii=False)}:", written.fill_null("null")]
    if not pieces:
        return None
    # Not Polars, which is faster: its threads would be missing in a fork of a process that has used it.
    return list(pc.binary_join_element_wise(*pieces, "}", "").cast(pa.binary()).to_pylist())


def _written(column: pa.Array) -> pa.Array | None:
    """The values as JSON has them."""
    kind = column.type
    if pa.types.is_string(kind):
        if pc.any(pc.match_substring_regex(column, _ODD)).as_py():
            if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():
                return None
            column = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
        return pc.binary_join_element_wise('"', column, '"', "")
    if _is_moment(kind):
        return pc.binary_join_element_wise('"', moment_texts(column), '"', "")
    if pa.types.is_float64(kind) and not _is_written_alike(column.fill_null(1).to_numpy()):
        return None
    return column.cast(pa.string()) if _is_plain(kind) else None


def _is_written_alike(values: np.ndarray) -> bool:
    """Whether Arrow writes all of them as JSON does: infinities it does not, and of −0.0 it leaves out that it is no integer."""
    return bool(np.isfinite(values).all() and not (np.signbit(values) & (values == 0)).any())


def decode_columns(values: Sequence[bytes], schema: pa.Schema, required: Collection[str]) -> pa.RecordBatch | None:
    """The rows of JSON objects, in which the required columns have values."""
    if not values or not all(_is_plain(field.type) for field in schema):
        return None
    text = b"\n".join(values)
    if text.count(b"\n") != len(values) - 1 or _ESCAPED.search(text) or (not text.isascii() and not _is_utf8(text)):
        return None
    if text.count(b"{") != len(values) or _OTHERWISE.search(text):  # what nobody reads may be nested too deeply
        return None
    if not all(value[:1] == b"{" and value[-1:] == b"}" for value in values):
        return None
    read = pa.schema([field.with_type(pa.string()) if _is_moment(field.type) else field for field in schema])
    try:
        options = json.ParseOptions(explicit_schema=read, unexpected_field_behavior="ignore")
        table = json.read_json(
            pa.BufferReader(text), json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, _BLOCK)), options
        )
        columns = [_read(_whole(table.column(field.name)), field.type) for field in schema]
    except pa.ArrowException:
        return None
    if table.num_rows != len(values):
        return None
    for field, column in zip(schema, columns, strict=True):
        # Where a name occurs as often as there are values, it is never given twice, and never with a null.
        if text.count(f'"{field.name}"'.encode()) != len(column) - column.null_count:
            return None
        if (column.null_count and field.name in required) or not _is_sound(column):
            return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read(column: pa.Array, want: pa.DataType) -> pa.Array:
    if not _is_moment(want):
        return column
    if pc.all(pc.match_substring_regex(column, _MOMENT)).as_py() is False:
        raise pa.ArrowInvalid("a time that is written in another way")
    return column.cast(want)


def _is_sound(column: pa.Array) -> bool:
    """Whether no value would be refused row by row."""
    if pa.types.is_float64(column.type):
        return bool((np.abs(column.fill_null(0).to_numpy()) < _LARGEST).all())
    return calendar.fits(column) if _is_moment(column.type) else True


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_float64(kind)
        or _is_moment(kind)
    )


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
