"""Values and messages as Debezium writes them, without a schema: what `form="debezium"` reads again.

Values stand as Debezium's own defaults have them for PostgreSQL: an instant is 2026-01-31T12:00:00.000000Z, a time without
a zone microseconds since 1970, a date days, bytes base64. Decimals are strings (`decimal.handling.mode=string`), since base64
says nothing of its scale. So a table that is read again has `decimals="string"` where it has decimals, and `times="us"` where
it has times without a zone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_ENCODER = msgspec.json.Encoder()


def encode_key(values: Mapping[str, Any]) -> str:
    """The key of a message: the values of its row's key, by column."""
    return _ENCODER.encode(values).decode()


def encode_message(
    op: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    source: Mapping[str, Any],
    moment: int,
    transaction: Mapping[str, Any] | None = None,
) -> str:
    """A message: `op` is r (of a snapshot), c, u, d or t (truncated), rows have values as `written_values` gives them, `source`
    says where the change is from and in `ts_ms` when it was committed, `moment` is when it was seen, in milliseconds."""
    message = {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": moment,
        "transaction": transaction,
    }
    return _ENCODER.encode(message).decode()


def written_values(column: pa.Array) -> list[Any]:
    """The values of a column as they stand in messages."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        written = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ") if kind.tz else column.cast(pa.int64())
        return written.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_decimal(kind):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(kind):
        return [value if value is None or math.isfinite(value) else _special(value) for value in column.to_pylist()]
    if pa.types.is_list(kind):
        inner = iter(written_values(column.flatten()))
        return [
            None if size is None else [next(inner) for _ in range(size)]
            for size in pc.list_value_length(column).to_pylist()
        ]
    return column.to_pylist()  # type: ignore[no-any-return]


def _special(value: float) -> str:
    """Numbers that JSON does not have, as Kafka Connect writes them."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
