"""Rows of a table written as Debezium's messages, without a schema: what `form="debezium"` reads again.

Values stand as Debezium's own defaults have them for PostgreSQL: an instant is 2026-01-31T12:00:00.000000Z, a time without
a zone microseconds since 1970, a date days, bytes base64. Decimals are strings (`decimal.handling.mode=string`), since base64
says nothing of its scale. So a table that is read again has `decimals="string"` where it has decimals, and `times="us"` where
it has times without a zone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import Invalid

OPS = ("r", "c", "u", "d", "t")
"""A row of a snapshot, created, updated, deleted; and a table truncated."""

_ENCODER = msgspec.json.Encoder()


def encode_debezium(
    key: Sequence[str],
    ops: Sequence[str],
    before: pa.StructArray,
    after: pa.StructArray,
    sources: Sequence[Mapping[str, Any]],
    moments: Sequence[int],
    transactions: Sequence[Mapping[str, Any] | None] | None = None,
) -> pa.Table:
    """Messages with the columns `key` and `json`, one for each op, for a topic that has them.

    `before` and `after` are rows of the table, null where there is none. `sources` say where a change is from: `ts_ms` in
    them is when it was committed. `moments` are when it was seen, in milliseconds. `key` names the columns of the key, whose
    values make the message's key; truncating a table has none.
    """
    _check(ops, before, after)
    olds, news = _objects(before), _objects(after)
    found = transactions if transactions is not None else [None] * len(ops)
    texts, keys = [], []
    for op, old, new, source, moment, transaction in zip(ops, olds, news, sources, moments, found, strict=True):
        message = {
            "before": old,
            "after": new,
            "source": source,
            "op": op,
            "ts_ms": moment,
            "transaction": transaction,
        }
        texts.append(_ENCODER.encode(message))
        row = old if new is None else new
        keys.append(None if row is None else _ENCODER.encode({name: row[name] for name in key}))
    return pa.table({"key": _text(keys), "json": _text(texts)})


def _text(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())


def _check(ops: Sequence[str], before: pa.StructArray, after: pa.StructArray) -> None:
    """Refuse messages that nobody could read: an op needs its rows, and has no others."""
    for number, (op, old, new) in enumerate(
        zip(ops, before.is_valid().to_pylist(), after.is_valid().to_pylist(), strict=True)
    ):
        if op not in OPS:
            raise Invalid(f"change {number}: there is no op {op!r}", hint=f"There are: {', '.join(OPS)}")
        wanted = {"d": (True, False), "t": (False, False), "u": (old, True)}.get(op, (False, True))
        if (old, new) != wanted:
            raise Invalid(
                f"change {number}: op {op!r} {'with' if old else 'without'} before, {'with' if new else 'without'} after",
                hint="A row of r, c and u is after, that of d before; u may have both, t has none",
            )


def _objects(rows: pa.StructArray) -> Iterator[dict[str, Any] | None]:
    """Rows as JSON has them, null where there is none."""
    names = [field.name for field in rows.type]
    columns = [_values(column) for column in rows.flatten()]  # which knows what a null row hides
    there = rows.is_valid().to_pylist()
    values = zip(*columns, strict=True) if columns else iter([()] * len(rows))
    for valid, row in zip(there, values, strict=True):
        yield dict(zip(names, row, strict=True)) if valid else None


def _values(column: pa.Array) -> list[Any]:
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
        inner = iter(_values(column.flatten()))
        return [
            None if size is None else [next(inner) for _ in range(size)]
            for size in pc.list_value_length(column).to_pylist()
        ]
    return column.to_pylist()  # type: ignore[no-any-return]


def _special(value: float) -> str:
    """Numbers that JSON does not have, as Kafka Connect writes them."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
