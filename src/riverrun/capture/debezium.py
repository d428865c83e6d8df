"""Changes as Debezium's envelopes: `key string, json string`, for programs that read what Debezium writes.

As Debezium with `decimal.handling.mode=string` and `tombstones.on.delete=true`: a delete is its envelope and then a
tombstone, a changed key a delete of the old and a create of the new one. Dates are days since 1970, times without a zone
microseconds, times with a zone text, bytes base64; a value that was not sent again is `__debezium_unavailable_value`.
A TRUNCATE is an envelope with the key `{}`, and a tombstone for every key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from riverrun import ddl
from riverrun.capture.changes import (
    DELETE,
    INSERT,
    TRUNCATE,
    CapturedTable,
    CaptureSource,
    TableChanges,
    TableChunk,
    Transactions,
)
from riverrun.capture.expansion import OldValues
from riverrun.capture.topics import topic_name
from riverrun.columns import DELETED, TIME, TRANSACTION
from riverrun.envelopes.encoding import encode_key, encode_message, written_values
from riverrun.log.codec import MOMENT
from riverrun.log.spec import TopicSpec

UNAVAILABLE = "__debezium_unavailable_value"

Line = tuple[str, str | None, int]  # key, envelope (None: a tombstone), time


class Envelopes:
    """The form `debezium`."""

    needs_old_values = False

    def __init__(self, capture: str, database: CaptureSource) -> None:
        self._capture = capture
        self._kind = database.kind
        self._version = metadata.version("riverrun")

    def spec(self, capture: str, table: CapturedTable) -> TopicSpec:
        return TopicSpec(
            topic_name(capture, table.parts), "key string, json string", key="key", time=None, compact=True
        )

    def rows(
        self, changes: TableChanges, transactions: Transactions, table: CapturedTable, old: Callable[[], OldValues]
    ) -> pa.RecordBatch:
        return _batch(list(self._lines(changes, transactions, table, old)))

    def _lines(
        self, changes: TableChanges, transactions: Transactions, table: CapturedTable, old: Callable[[], OldValues]
    ) -> Iterator[Line]:
        names = _source_names(table)
        after = _values(changes.rows, names)
        before = _values(changes.old_keys, names) if changes.old_keys is not None else None
        gone: dict[str, None] = {}  # keys that this batch made, as far as it has come
        for place, op in enumerate(changes.ops.tolist()):
            number = int(changes.transactions[place])
            at = int(transactions.times[number])
            source = self._source(table, at, transactions.positions[number], transactions.ids[number], False)
            if op == TRUNCATE:
                yield "{}", self._envelope("t", None, None, source, at), at
                for key in dict.fromkeys([*(old().keys().get_column("key").to_list()), *gone]):
                    if key != "{}":
                        yield key, None, at
                gone.clear()
                continue
            row = after[place]
            for name, mask in changes.unsent.items():
                if mask[place]:
                    row[names[name]] = UNAVAILABLE
            key = self._key(row, table)
            if op == DELETE:
                yield (
                    key,
                    self._envelope("d", {names[name]: row[names[name]] for name in table.key}, None, source, at),
                    at,
                )
                yield key, None, at
                continue
            if changes.moved is not None and changes.moved[place]:
                assert before is not None
                was = self._key(before[place], table)
                yield was, self._envelope("d", before[place], None, source, at), at
                yield was, None, at
            is_new = op == INSERT or (changes.moved is not None and changes.moved[place])
            gone[key] = None
            yield key, self._envelope("c" if is_new else "u", None, row, source, at), at

    def chunk(self, rows: pa.RecordBatch, chunk: TableChunk, table: CapturedTable) -> pa.RecordBatch:
        source = self._source(table, chunk.at, chunk.position, None, True)
        return _batch(
            [
                (self._key(row, table), self._envelope("r", None, row, source, chunk.at), chunk.at)
                for row in _values(rows, _source_names(table))
            ]
        )

    def tombstones(self, keys: pa.RecordBatch, table: CapturedTable, position: str, at: int) -> pa.RecordBatch:
        return _batch([(key, None, at) for key in keys.column(0).to_pylist()])

    def touching(self, table: CapturedTable) -> list[str]:
        return ["json"]

    def touched(self, rows: pa.RecordBatch, table: CapturedTable) -> pa.Table:
        names = _source_names(table)
        found: dict[str, list[Any]] = {name: [] for name in (*table.key, TRANSACTION)}
        for text in rows.column(0).to_pylist():
            told = msgspec.json.decode(text) if text is not None else {"transaction": None}
            values = told.get("after") or told.get("before")
            if told["transaction"] is not None and values is not None:
                found[TRANSACTION].append(told["transaction"]["id"])
                for name in table.key:
                    found[name].append(values[names[name]])
        types = {column.name: ddl.to_arrow(ddl.parse_type(column.type)) for column in table.columns}
        columns = {name: _typed(found[name], types[name]) for name in table.key}
        return pa.table({**columns, TRANSACTION: pa.array(found[TRANSACTION], pa.string())})

    def _key(self, row: dict[str, Any], table: CapturedTable) -> str:
        names = _source_names(table)
        return encode_key({names[name]: row[names[name]] for name in table.key})

    def _source(
        self, table: CapturedTable, at: int, position: str, transaction: str | None, snapshot: bool
    ) -> dict[str, Any]:
        return {
            "version": self._version,
            "connector": self._kind,
            "name": self._capture,
            "ts_ms": at // 1000,
            "snapshot": "true" if snapshot else "false",
            "schema": table.parts[0] if len(table.parts) > 1 else None,
            "table": table.parts[-1],
            "txId": None if transaction is None or not transaction.isdigit() else int(transaction),
            "lsn": position,
        }

    @staticmethod
    def _envelope(
        op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, source: dict[str, Any], at: int
    ) -> str:
        transaction = source["txId"]
        begun = None if transaction is None else {"id": str(transaction)}
        return encode_message(op, before, after, source, at // 1000, begun)


def _source_names(table: CapturedTable) -> dict[str, str]:
    return {column.name: column.source for column in table.columns}


def _values(rows: pa.RecordBatch, names: dict[str, str]) -> list[dict[str, Any]]:
    """Rows as JSON has them, under the names of the source."""
    columns = [(names[name], written_values(rows.column(name))) for name in rows.schema.names]
    return [dict(zip([name for name, _ in columns], values, strict=True)) for values in _rows(columns, rows.num_rows)]


def _rows(columns: Sequence[tuple[str, list[Any]]], count: int) -> Iterator[tuple[Any, ...]]:
    return zip(*(values for _, values in columns), strict=True) if columns else iter([()] * count)


def _typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of envelopes as they were: the way back from `written_values`."""
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_decimal(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


def _batch(lines: Sequence[Line]) -> pa.RecordBatch:
    deleted = np.array([line[1] is None for line in lines], np.bool_)
    columns = {
        "key": pa.array([line[0] for line in lines], pa.string()),
        "json": pa.array([line[1] for line in lines], pa.string()),
        TIME: pa.array([line[2] for line in lines], pa.int64()).view(MOMENT),
    }
    if deleted.any():
        columns[DELETED] = pa.array(deleted)
    return pa.RecordBatch.from_pydict(columns)
