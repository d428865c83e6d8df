"""Rows of the binary log → columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.capture.changes import DELETE, UPDATE, CapturedTable, TableChanges
from riverrun.capture.mariadb.catalog import BinlogColumn
from riverrun.capture.mariadb.types import ColumnType, from_values

_UNKNOWN = ColumnType("varchar")


@dataclass(frozen=True)
class RowRun:
    """Rows of one event: of one table, under the same columns, of one transaction of the batch."""

    table: CapturedTable
    columns: Sequence[BinlogColumn]
    op: int
    after: Sequence[dict[str, Any]]
    before: Sequence[dict[str, Any]]
    owner: int

    def __len__(self) -> int:
        return len(self.after)

    def part(self, begin: int, end: int) -> RowRun:
        """Some of the rows."""
        return replace(self, after=self.after[begin:end], before=self.before[begin:end])


def changes_of(runs: Sequence[RowRun]) -> TableChanges | str:
    """The changes of one table, in order; or why they cannot be read. Columns that a row has not are null."""
    table = runs[-1].table
    counts = [len(run) for run in runs]
    ops = np.repeat(np.array([run.op for run in runs], np.uint8), counts)
    owners = np.repeat(np.array([run.owner for run in runs], np.int64), counts)
    types = {column.name: column.type for run in runs for column in run.columns}
    arrays: list[pa.Array] = []
    old_keys: dict[str, pa.Array] = {}
    updated = any(run.op == UPDATE for run in runs)
    try:
        for column in table.columns:
            kind = types.get(column.source, _UNKNOWN)
            is_key = column.name in table.key
            # Of a row that is gone, its key is kept.
            arrays.append(
                _column(
                    [_values(run, run.after, column.source, is_key) for run in runs], column.type, kind, column.source
                )
            )
            if is_key and updated:
                found = [_values(run, run.before or run.after, column.source, True) for run in runs]
                old_keys[column.name] = _column(found, column.type, kind, column.source)
    except ValueError as error:  # pa.ArrowInvalid is one, too
        return str(error)
    schema = pa.schema([(column.name, ddl.to_arrow(ddl.parse_type(column.type))) for column in table.columns])
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    moved = _moved(rows, old_keys, table.key, ops) if old_keys else None
    keys = pa.RecordBatch.from_pydict({name: old_keys[name] for name in table.key}) if moved is not None else None
    return TableChanges(table.id, rows, ops, owners, keys, moved)


def _values(run: RowRun, rows: Sequence[dict[str, Any]], name: str, is_key: bool) -> list[Any]:
    if run.op == DELETE and not is_key:
        return [None] * len(rows)
    return [row.get(name) for row in rows]


def _column(parts: Sequence[list[Any]], wanted: str, kind: ColumnType, name: str) -> pa.Array:
    try:
        return from_values([value for part in parts for value in part], wanted, kind)
    except (ValueError, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"column {name!r}: {error}") from error


def _moved(rows: pa.RecordBatch, old: dict[str, pa.Array], key: Sequence[str], ops: np.ndarray) -> np.ndarray | None:
    """Which updates changed the key; None: none of them."""
    differ = np.zeros(rows.num_rows, np.bool_)
    for name in key:
        other = pc.fill_null(pc.not_equal(rows.column(name), old[name]), False)
        differ |= other.to_numpy(zero_copy_only=False)
    differ &= ops == UPDATE
    return differ if differ.any() else None
