"""A DuckDB in which translated expressions mean what they mean in Spark."""

from __future__ import annotations

import duckdb

from riverrun.expressions.functions import register

# Optimizers that rewrite expressions may leave out what would have failed. These two do not: what no row needs is not
# read, and what occurs twice is computed once.
_KEPT = ("unused_columns", "common_subexpressions")


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory, with one thread, in UTC, with the functions that translations use."""
    db = duckdb.connect(":memory:", config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    optimizers = [name for (name,) in db.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    db.execute(f"SET disabled_optimizers = '{','.join(name for name in optimizers if name not in _KEPT)}'")
    register(db)
    return db
