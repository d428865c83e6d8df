"""Rows of a table in chunks, each from one view of the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from riverrun.capture.changes import CapturedTable, TableChunk
from riverrun.capture.sequences import sequence_of
from riverrun.capture.sqlite.catalog import SqliteTable, key_condition
from riverrun.capture.sqlite.installation import number_of
from riverrun.capture.sqlite.records import arrow_schema
from riverrun.capture.sqlite.session import quote
from riverrun.capture.sqlite.types import converted
from riverrun.durations import wall_clock

_BYTES = 32 << 20  # what a chunk should not have much more of
_FIRST = 10_000


class SqliteChunks:
    """Reads chunks. Their size follows that of the rows."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._limits: dict[str, int] = {}

    def read(
        self, table: SqliteTable, told: CapturedTable, after: Sequence[str] | None, limit: int, end: int
    ) -> TableChunk:
        """Rows behind a key, in its order, at most `limit`, with the columns that the capture was told of; inside of a
        transaction that sees changes up to `end`."""
        limit = min(limit, self._limits.get(told.id, _FIRST))
        rest = _rest(table, after)
        there = {column.source for column in table.captured.columns}
        taken = ", ".join(quote(c.source) if c.source in there else "null" for c in told.columns)
        found = self._db.execute(f"select {taken} {rest} limit {limit}").fetchall()
        last = self._literals(table, rest, limit) if len(found) == limit else None
        columns = list(zip(*found, strict=True)) or [()] * len(told.columns)
        arrays = [
            converted(values, column.type, column.name in told.key)
            for values, column in zip(columns, told.columns, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(told.columns))
        self._limits[told.id] = _next_limit(limit, rows.nbytes)
        number = number_of(end)
        return TableChunk(
            rows,
            last,
            lambda ids: np.array([int(one) <= number for one in ids], np.bool_),
            sequence_of(number),
            str(number),
            wall_clock(),
        )

    def _literals(self, table: SqliteTable, rest: str, limit: int) -> list[str]:
        """The key of the last row, as SQL has it: exactly, whatever it is. Text in bytes, since a quote ends at a zero."""
        shown = ", ".join(
            f"case typeof({quote(k)}) when 'text' then '+cast(x''' || hex({quote(k)}) || ''' as text)' else quote({quote(k)}) end"
            for k in table.key
        )
        found = self._db.execute(f"select {shown} {rest} limit 1 offset {limit - 1}").fetchone()
        return [literal.decode() for literal in found]


def _rest(table: SqliteTable, after: Sequence[str] | None) -> str:
    key = ", ".join(quote(column) for column in table.key)
    conditions = [] if (good := key_condition(table)) is None else [good]
    if after is not None:
        conditions.append(f"({key}) > ({', '.join(after)})")
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"from {quote(table.name)}{where} order by {key}"


def _next_limit(limit: int, size: int) -> int:
    if size > _BYTES:
        return max(limit // 2, 1)
    return limit * 2 if size < _BYTES // 4 else limit
