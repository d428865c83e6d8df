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
        column, kind = moment_texts(column), pa.string()
    if isinstance(column, pa.Array) and (
        pa.types.is_string(kind)
        or (pa.types.is_primitive(kind) and column.null_count == 0 and not pa.types.is_temporal(kind))
    ):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(column.to_pylist(maps_as_pydicts="lossy"))


def moment_texts(column: Any) -> Any:
    """Timestamps as they are written. Those without a zone are written thirty times as fast: `strftime` looks it up for each."""
    kind = column.type
    texts = pc.replace_substring(column.cast(pa.timestamp(kind.unit)).cast(pa.string()), " ", "T")
    texts = pc.replace_substring(texts, ".000000", "")
    return pc.binary_join_element_wise(texts, "Z", "") if kind.tz else texts
