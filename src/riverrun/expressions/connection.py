"""A DuckDB in which translated expressions mean what they mean in Spark."""

from __future__ import annotations

import atexit
import os
from functools import cache

import duckdb

from riverrun.expressions.functions import register
from riverrun.expressions.safety import NOTHING


def connect() -> duckdb.DuckDBPyConnection:
    """A connection with one thread, in UTC, with the functions that translations use; its tables are its own.

    It reads every column of a table that is registered: give it those that the expressions need.
    """
    db = _database(os.getpid()).cursor()
    # Optimizers leave out what would have failed, and compute for all rows what only some need.
    db.execute("PRAGMA disable_optimizer")
    return db


@cache  # for a process that is forked, there is another one
def _database(process: int) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(":memory:", config={"threads": 1})
    db.execute("SET GLOBAL TimeZone = 'UTC'")
    register(db)
    db.execute(f"CREATE MACRO {NOTHING}(message) AS NULL")
    atexit.register(_database.cache_clear)
    return db
