"""Rows as plain values, as JSON has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def plain_rows(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """The rows, with times as strings."""
    names = batch.schema.names
    columns = [plain_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_values(column: Any) -> list[Any]:
    """The values of a column. Plain ones leave Arrow by way of NumPy, times as strings: a scalar for each takes much longer."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        texts = pc.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{'Z' if kind.tz else ''}")
        column, kind = pc.replace_substring(texts, ".000000", ""), pa.string()
    if isinstance(column, pa.Array) and (
        pa.types.is_string(kind)
        or (pa.types.is_primitive(kind) and column.null_count == 0 and not pa.types.is_temporal(kind))
    ):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(column.to_pylist(maps_as_pydicts="lossy"))
