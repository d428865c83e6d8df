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

_ODD = r'[\x00-\x1f"\\]'
_CONTROL = r"[\x00-\x1f]"


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
