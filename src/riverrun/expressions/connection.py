"""A DuckDB in which translated expressions mean what they mean in Spark."""

from __future__ import annotations

import duckdb

from riverrun.expressions.functions import register


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory, with one thread, in UTC, with the functions that translations use.

    It reads every column of a table that is registered: give it those that the expressions need.
    """
    db = duckdb.connect(":memory:", config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    # Optimizers leave out what would have failed, and compute for all rows what only some need.
    db.execute("PRAGMA disable_optimizer")
    register(db)
    return db
