"""In which form changes are written into topics: as rows of the table's own columns, or as Debezium's envelopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from riverrun.capture.changes import CapturedTable, TableChanges, TableChunk, Transactions
from riverrun.capture.expansion import OldValues, topic_rows
from riverrun.capture.topics import table_spec
from riverrun.columns import DELETED, POSITION, TIME, TRANSACTION
from riverrun.log.codec import MOMENT
from riverrun.log.spec import TopicSpec


class TopicForm(Protocol):
    """How rows of a table's topic look."""

    needs_old_values: bool  # whether values that the source did not send are looked up

    def spec(self, capture: str, table: CapturedTable) -> TopicSpec:
        """The topic."""

    def rows(
        self, changes: TableChanges, transactions: Transactions, table: CapturedTable, old: Callable[[], OldValues]
    ) -> pa.RecordBatch:
        """Changes as they are appended."""

    def chunk(self, rows: pa.RecordBatch, chunk: TableChunk, table: CapturedTable) -> pa.RecordBatch:
        """TableRows of a snapshot as they are appended."""

    def tombstones(self, keys: pa.RecordBatch, table: CapturedTable, position: str, at: int) -> pa.RecordBatch:
        """Deletes that a snapshot found, by the topic's key."""

    def touching(self, table: CapturedTable) -> list[str]:
        """The topic's columns that tell which keys were written to by which transaction."""

    def touched(self, rows: pa.RecordBatch, table: CapturedTable) -> pa.Table:
        """What they tell: the table's key, and the transaction; null where a snapshot wrote the row."""


class TableRows:
    """The table's own columns, and `_position` and `_transaction`."""

    needs_old_values = True

    def spec(self, capture: str, table: CapturedTable) -> TopicSpec:
        return table_spec(capture, table)

    def rows(
        self, changes: TableChanges, transactions: Transactions, table: CapturedTable, old: Callable[[], OldValues]
    ) -> pa.RecordBatch:
        return topic_rows(changes, transactions, table.key, old)

    def chunk(self, rows: pa.RecordBatch, chunk: TableChunk, table: CapturedTable) -> pa.RecordBatch:
        columns = {name: rows.column(name) for name in rows.schema.names}
        return _stamped(columns, rows.num_rows, chunk.position, chunk.at)

    def tombstones(self, keys: pa.RecordBatch, table: CapturedTable, position: str, at: int) -> pa.RecordBatch:
        columns = {name: keys.column(name) for name in keys.schema.names}
        columns[DELETED] = pa.array(np.ones(keys.num_rows, np.bool_))
        return _stamped(columns, keys.num_rows, position, at)

    def touching(self, table: CapturedTable) -> list[str]:
        return [*table.key, TRANSACTION]

    def touched(self, rows: pa.RecordBatch, table: CapturedTable) -> pa.Table:
        return pa.Table.from_batches([rows])


def _stamped(columns: dict[str, pa.Array], count: int, position: str, at: int) -> pa.RecordBatch:
    """TableRows of no transaction, of this moment."""
    columns[POSITION] = pa.array([position], pa.string()).take(pa.array(np.zeros(count, np.int64)))
    columns[TRANSACTION] = pa.nulls(count, pa.string())
    columns[TIME] = pa.array(np.full(count, at, np.int64)).view(MOMENT)
    return pa.RecordBatch.from_pydict(columns)
