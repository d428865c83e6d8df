"""Rows of a table in chunks, each from a consistent view of the database that knows its place in the binary log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from riverrun import ddl
from riverrun.capture.changes import TableChunk
from riverrun.capture.mariadb.catalog import MariaTable, quote
from riverrun.capture.mariadb.places import BinlogPlace, newest, parse_gtid
from riverrun.capture.mariadb.types import ColumnType, from_texts
from riverrun.capture.sequences import sequence_of
from riverrun.durations import wall_clock

_BYTES = 32 << 20  # what a chunk should not have much more of
_FIRST = 10_000


@contextmanager
def consistent(connection: Any, domain: int) -> Iterator[tuple[Any, BinlogPlace]]:
    """A view of the database, and the place in the binary log up to which it has everything, and nothing behind."""
    with connection.cursor() as db:
        db.execute("set session transaction isolation level repeatable read")
        db.execute("start transaction with consistent snapshot, read only")
        try:
            db.execute("show status like 'binlog_snapshot_%'")
            told = {name.lower(): value for name, value in db.fetchall()}
            file, offset = told["binlog_snapshot_file"], int(told["binlog_snapshot_position"])
            db.execute("select binlog_gtid_pos(%s, %s)", (file, offset))
            position = db.fetchone()[0]
            yield db, BinlogPlace(newest(position or "", domain), file, offset)
        finally:
            db.execute("rollback")


class BinlogChunkReader:
    """Reads chunks over a connection of its own. Their size follows that of the rows."""

    def __init__(self, connection: Any, domain: int) -> None:
        self._connection = connection
        self._domain = domain
        self._limits: dict[str, int] = {}

    def read(self, table: MariaTable, after: Sequence[str] | None, limit: int) -> TableChunk:
        """Rows behind a key, in its order, at most `limit`."""
        limit = min(limit, self._limits.get(table.captured.id, _FIRST))
        with consistent(self._connection, self._domain) as (db, place):
            db.execute(chunk_query(table, after, limit), _values(after) if after is not None else None)
            found = db.fetchall()
        columns = list(zip(*found, strict=True)) or [() for _ in table.captured.columns]
        size = sum(len(value) for column in columns for value in column if value is not None)
        self._limits[table.captured.id] = _next_limit(limit, size)
        rows = _typed(columns, table)
        last = None
        if len(found) == limit:
            places = {column.source: i for i, column in enumerate(table.captured.columns)}
            last = [_shown(columns[places[name]][-1]) for name in table.key]
        seen = place.number
        return TableChunk(
            rows,
            last,
            lambda ids: np.array([parse_gtid(one).number <= seen for one in ids], np.bool_),
            sequence_of(seen),
            str(place.gtid or ""),
            wall_clock(),
        )


def _next_limit(limit: int, size: int) -> int:
    if size > _BYTES:
        return max(limit // 2, 1)
    return limit * 2 if size < _BYTES // 4 else limit


def chunk_query(table: MariaTable, after: Sequence[str] | None, limit: int) -> str:
    """The rows behind a key. Of several parts, it is written so that an index is used."""
    columns = ", ".join(_selected(column.source, table.types[column.source]) for column in table.captured.columns)
    keys = [_ordered(name, table.types[name]) for name in table.key]
    given = [_given(table.types[name]) for name in table.key]
    query, where = f"select {columns} from {table.quoted}", ""
    if after is not None:
        query, keys = query.replace("%", "%%"), [key.replace("%", "%%") for key in keys]
        conditions = []
        for place in range(len(keys)):
            equal = [f"{keys[i]} = {given[i]}" for i in range(place)]
            conditions.append(" and ".join([*equal, f"{keys[place]} > {given[place]}"]))
        where = f" where {keys[0]} >= {given[0]} and ({' or '.join(f'({one})' for one in conditions)})"
    return f"{query}{where} order by {', '.join(keys)} limit {limit}"


def _values(after: Sequence[str]) -> list[str]:
    """The values of the conditions, in their order."""
    return [after[0], *(after[i] for place in range(len(after)) for i in range(place + 1))]


def _selected(name: str, kind: ColumnType) -> str:
    """A column as text that loses nothing."""
    if kind.name == "float":
        return f"cast({quote(name)} as double)"
    if kind.name == "bit":
        return f"lpad(bin({quote(name)} + 0), {kind.precision}, '0')"
    return quote(name)


def _ordered(name: str, kind: ColumnType) -> str:
    """What a key is ordered and compared by."""
    column = quote(name)
    if kind.name in ("enum", "set"):  # ordered by their numbers, and compared as text
        return f"cast({column} as char)"
    return f"({column} + 0)" if kind.name == "bit" else column


def _given(kind: ColumnType) -> str:
    if kind.name == "bit":
        return "conv(%s, 2, 10)"
    return "unhex(%s)" if "binary" in kind.name or "blob" in kind.name else "%s"


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _typed(columns: Sequence[Sequence[Any]], table: MariaTable) -> pa.RecordBatch:
    wanted = table.captured.columns
    arrays = [
        from_texts(columns[place], column.type, table.types[column.source]) for place, column in enumerate(wanted)
    ]
    schema = pa.schema([(column.name, ddl.to_arrow(ddl.parse_type(column.type))) for column in wanted])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
