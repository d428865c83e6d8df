"""Whether a flow and a batch query gave the same rows, of which there may be more than anybody wants to sort.

Rows are compared by a hash of their exact columns, and by their floats, which may differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from polars import selectors as cs

from bench.figure import WrongResult

WEIGHT = "_weight"
TOLERANCE = 1e-9
_HASH = "_hash"


def batch(tables: Mapping[str, pa.Table], cores: int) -> duckdb.DuckDBPyConnection:
    """DuckDB with these tables."""
    db = duckdb.connect(":memory:", config={"threads": cores})
    db.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        db.register(name, table)
    return db


def verify(what: str, changes: Iterable[pa.Table], expected: pa.Table) -> int:
    """The sum of the changes is what is expected; gives the number of rows."""
    wanted = _frame(expected)
    parts = [_frame(change) for change in changes]
    names = sorted(wanted.columns)
    seen = {name for part in parts for name in part.columns if not name.startswith("_")}
    if seen != set(names):
        raise WrongResult(f"{what}: columns {', '.join(sorted(seen))}, expected {', '.join(names)}")
    kinds = parts[0].select(names).schema
    found = _settled(pl.concat([_digest(part.select(*names, WEIGHT)) for part in parts]))
    there = _settled(_digest(wanted.select(names).cast(kinds).with_columns(pl.lit(1).alias(WEIGHT))))
    if not found[_HASH].equals(there[_HASH]):
        lacking, added = (len(one.join(other, on=_HASH, how="anti")) for one, other in ((there, found), (found, there)))
        raise WrongResult(f"{what}: {len(found)} rows; {lacking} of {len(there)} are missing, {added} not expected")
    for name in found.columns[1:]:
        near = (found[name] - there[name]).abs() <= TOLERANCE * (1 + there[name].abs())
        if not near.all(ignore_nulls=False):
            raise WrongResult(f"{what}: {(~near).sum()} values of {name} are wrong")
    return len(there)


def _digest(rows: pl.DataFrame) -> pl.DataFrame:
    floats = rows.select(cs.float()).columns
    exact = [name for name in rows.columns if name not in (*floats, WEIGHT)]
    hashes = rows.select(exact).hash_rows().alias(_HASH)
    return rows.select(hashes, *floats, pl.col(WEIGHT).cast(pl.Int64))


def _settled(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that are there when all changes are counted, in order, each as often as it is there."""
    by = [name for name in rows.columns if name != WEIGHT]
    counted = rows.group_by(by).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0)
    if (counted[WEIGHT] < 0).any():
        raise WrongResult("rows are taken back that were never there")
    times = counted[WEIGHT].to_numpy()
    return counted.select(by)[np.repeat(np.arange(len(times)), times)].sort(by)


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
