"""Expressions of DuckDB over rows in Arrow: prepared once, run over whatever rows are held."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from riverrun.expressions.connection import connect

_opened = threading.local()


def database() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB, opened when it is first needed: workers are forked before that."""
    if not hasattr(_opened, "db"):
        _opened.db = connect()
        _opened.statements = 0
    db: duckdb.DuckDBPyConnection = _opened.db
    return db


class HeldRows:
    """What a prepared statement reads: whatever rows are held when it is executed."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.held = schema.empty_table()

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.held.__arrow_c_stream__(requested_schema)


class Statement:
    """Expressions over the columns `fields` of some rows, prepared."""

    def __init__(self, name: str, fields: pa.Schema, expressions: Sequence[str]) -> None:
        self._rows = HeldRows(fields)
        self._fields = fields
        db = database()
        _opened.statements += 1
        self._statement = f"statement_{_opened.statements}"
        source = f"rows_{_opened.statements}"
        db.register(source, self._rows)
        columns = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(expressions))
        db.execute(f'PREPARE {self._statement} AS SELECT {columns} FROM {source} AS "{name}"')

    def run(self, rows: pa.RecordBatch) -> pa.Table:
        """The expressions' values, row by row in the order of the rows."""
        self._rows.held = pa.Table.from_batches([rows])
        try:
            return database().sql(f"EXECUTE {self._statement}").to_arrow_table()
        finally:
            self._rows.held = self._fields.empty_table()
