"""Rows of a table in chunks, each from a view of the database of its own that says which transactions it sees."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from riverrun import ddl
from riverrun.capture.changes import TableChunk
from riverrun.capture.postgres.catalog import PostgresTable, quote
from riverrun.capture.postgres.messages import Visibility, parse_lsn
from riverrun.capture.postgres.types import converted
from riverrun.capture.sequences import sequence_of
from riverrun.durations import wall_clock
from riverrun.errors import Invalid

_BYTES = 32 << 20  # what a chunk should not have much more of
_FIRST = 10_000


class ChunkReader:
    """Reads chunks over a connection of its own. Their size follows that of the rows."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._limits: dict[str, int] = {}

    def read(self, table: PostgresTable, after: Sequence[str] | None, limit: int) -> TableChunk:
        """Rows behind a key, in its order, at most `limit`."""
        limit = min(limit, self._limits.get(table.captured.id, _FIRST))
        sink = io.BytesIO()
        with self._connection.cursor() as db:
            db.execute("begin isolation level repeatable read read only")
            try:
                db.execute("select pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
                seen, position = db.fetchone()
                db.copy_expert(f"copy ({_query(db, table, after, limit)}) to stdout (format csv)", sink)
            finally:
                db.execute("rollback")
        visible = Visibility.parse(seen)
        self._limits[table.captured.id] = _next_limit(limit, sink.tell())
        texts = _parse(sink.getvalue(), table.sources)
        try:
            rows = _typed(texts, table)
        except pa.ArrowInvalid as error:
            raise Invalid(f"a value of {table.captured.id} cannot be read ({error})") from None
        last = None
        if rows.num_rows == limit:
            last = [str(texts.column(name)[-1].as_py()) for name in table.key]
        return TableChunk(
            rows, last, lambda ids: _sees(visible, ids), sequence_of(parse_lsn(position)), position, wall_clock()
        )


def _next_limit(limit: int, size: int) -> int:
    if size > _BYTES:
        return max(limit // 2, 1)
    return limit * 2 if size < _BYTES // 4 else limit


def _query(db: Any, table: PostgresTable, after: Sequence[str] | None, limit: int) -> str:
    columns = ", ".join(quote(name) for name in table.sources)
    key = ", ".join(quote(name) for name in table.key)
    conditions = [] if table.filter is None else [f"({table.filter})"]
    if after is not None:
        values = ", ".join("%s" for _ in after)
        conditions.append(db.mogrify(f"({key.replace('%', '%%')}) > ({values})", list(after)).decode())
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"select {columns} from {table.quoted}{where} order by {key} limit {limit}"


def _parse(data: bytes, names: Sequence[str]) -> pa.Table:
    if not data:
        return pa.table({name: pa.array([], pa.string()) for name in names})
    return csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=list(names), block_size=max(len(data), 1)),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _typed(texts: pa.Table, table: PostgresTable) -> pa.RecordBatch:
    columns = table.captured.columns
    arrays = [converted(_whole(texts.column(place)), column.type) for place, column in enumerate(columns)]
    schema = pa.schema([(column.name, ddl.to_arrow(ddl.parse_type(column.type))) for column in columns])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], pa.string())])


def _sees(visible: Visibility, ids: Sequence[str]) -> np.ndarray:
    return np.array([visible.sees(int(xid)) for xid in ids], np.bool_)
