"""JSON of many rows at once, column by column, where all are plain: strings, whole numbers, booleans, doubles, timestamps.

It is the fast way, and gives exactly what goes the slow way, row by row; None where it is not certain to.
"""

from __future__ import annotations

from json import dumps
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.log.json_rows import moment_texts


def encode_columns(rows: pa.RecordBatch) -> list[bytes] | None:
    """A JSON object for each row."""
    pieces: list[Any] = []
    before = "{"  # what ends the last value, and stands before the next name
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        quote = '"' if _is_text(column.type) else ""
        written = _written(column)
        if written is None:
            return None
        if quote and written.null_count:
            written, quote = pc.binary_join_element_wise('"', written, '"', ""), ""
        pieces += [f"{before}{dumps(name, ensure_ascii=False)}:{quote}", written.fill_null("null")]
        before = f"{quote},"
    if not pieces:
        return None
    # Not Polars, which is faster: its threads would be missing in a fork of a process that has used it.
    return list(pc.binary_join_element_wise(*pieces, f"{before[:-1]}}}", "").cast(pa.binary()).to_pylist())


def _written(column: pa.Array) -> pa.Array | None:
    """The values as JSON has them, texts without the quotation marks around them."""
    kind = column.type
    if pa.types.is_string(kind):
        letters = _letters(column)
        if ((letters < 0x20) | (letters == 0x22) | (letters == 0x5C)).any():
            if (letters < 0x20).any():
                return None
            column = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
        return column
    if _is_moment(kind):
        return moment_texts(column)
    if pa.types.is_float64(kind) and not _is_written_alike(column.fill_null(1).to_numpy()):
        return None
    return column.cast(pa.string()) if _is_plain(kind) else None


def _letters(column: pa.Array) -> np.ndarray:
    """The bytes of all texts."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _is_written_alike(values: np.ndarray) -> bool:
    """Whether Arrow writes all of them as JSON does: infinities it does not, and of −0.0 it leaves out that it is no integer."""
    return bool(np.isfinite(values).all() and not (np.signbit(values) & (values == 0)).any())


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_float64(kind)
        or _is_moment(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or _is_moment(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)
