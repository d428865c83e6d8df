"""Changes of a table → rows of its topic. Pure, except that old values are looked up where the source did not send them.

An insert or update is a row, a delete a tombstone, a changed key a tombstone and a row, TRUNCATE a tombstone for every
key there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.capture.changes import DELETE, TRUNCATE, TableChanges, Transactions
from riverrun.columns import DELETED, POSITION, TIME, TRANSACTION
from riverrun.log.codec import MOMENT
from riverrun.state.keys import equal_to_any, last_of_each, number_keys


class OldValues(Protocol):
    """The rows that a topic's keys have now, before the changes at hand."""

    def lookup(self, keys: pl.DataFrame, columns: Sequence[str]) -> pa.RecordBatch:
        """For each key its row's values, null where there is none."""

    def keys(self) -> pl.DataFrame:
        """Every key that has a row."""


def completed(changes: TableChanges, key: Sequence[str], old: OldValues) -> tuple[TableChanges, np.ndarray]:
    """The changes with the values that were not sent because they are as before, and which rows still miss one.

    The value is that of the last change before it in the same batch, else of the topic; where the key has changed too,
    it is under the old key.
    """
    missing = np.zeros(len(changes), np.bool_)
    columns = [name for name, mask in changes.unsent.items() if mask.any()]
    if not columns:
        return changes, missing
    own, before = _keys(changes, key)
    (mine, wanted), _ = number_keys(own, before)
    previous = _previous(mine, wanted)
    rows = changes.rows
    for name in columns:
        unsent = changes.unsent[name]
        at = np.flatnonzero(unsent)
        first = _first_unsent(previous, unsent)[at]
        found = previous[first]
        outside = first[found < 0]
        column = rows.column(name)
        index = np.arange(len(changes))
        index[at] = np.where(found >= 0, found, len(changes) + _places(found < 0))
        column = _filled(column, old.lookup(before[outside], [name]).column(0), index)
        # What was left out is never null: where it is, it is not known yet.
        missing[at] |= pc.is_null(column).to_numpy(zero_copy_only=False)[at]
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return replace(changes, rows=rows, unsent={}), missing


def _keys(changes: TableChanges, key: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The key of each change, and the one that the row had before."""
    own = _frame(changes.rows.select(list(key)))
    if changes.moved is None or changes.old_keys is None:
        return own, own
    old = _frame(changes.old_keys.select(list(key)))
    moved = pl.Series(changes.moved)
    before = own.with_columns(
        pl.when(moved).then(old.get_column(name)).otherwise(own.get_column(name)).alias(name) for name in key
    )
    return own, before


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches([batch]))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _previous(mine: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each change the last one before it that left a row under the key it found its row by; -1: none in the batch."""
    count = len(mine)
    places = np.arange(count)
    left = mine.astype(np.int64) * count + places
    order = np.argsort(left, kind="stable")
    at = np.searchsorted(left[order], wanted.astype(np.int64) * count + places) - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (mine[found] == wanted), found, -1)


def _first_unsent(previous: np.ndarray, unsent: np.ndarray) -> np.ndarray:
    """For each change that misses a value, the first of the chain of those before it that miss it, too."""
    places = np.arange(len(previous))
    back = np.where((previous >= 0) & unsent & unsent[np.maximum(previous, 0)], previous, places)
    while True:
        further = back[back]
        if (further == back).all():
            return back
        back = further


def _places(counted: np.ndarray) -> np.ndarray:
    """How many of those `counted` come before each."""
    return np.cumsum(counted) - counted.astype(np.int64)


def _filled(column: pa.Array, others: pa.Array, index: np.ndarray) -> pa.Array:
    """Values of both, one below the other, by their places."""
    both = pa.chunked_array([column, others.cast(column.type)])
    return both.take(pa.array(index)).combine_chunks()


def topic_rows(
    changes: TableChanges, transactions: Transactions, key: Sequence[str], old: Callable[[], OldValues]
) -> pa.RecordBatch:
    """The rows to append: the topic's columns, `_deleted`, and when and by which transaction."""
    rows, deleted, numbers = _with_tombstones(changes, key, old)
    chosen = pa.array(numbers)
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns[POSITION] = pa.array(transactions.positions, pa.string()).take(chosen)
    columns[TRANSACTION] = pa.array(transactions.ids, pa.string()).take(chosen)
    if deleted.any():
        columns[DELETED] = pa.array(deleted)
    columns[TIME] = pa.array(transactions.times[numbers]).view(MOMENT)
    return pa.RecordBatch.from_pydict(columns)


def _with_tombstones(
    changes: TableChanges, key: Sequence[str], old: Callable[[], OldValues]
) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
    truncates = np.flatnonzero(changes.ops == TRUNCATE)
    if not len(truncates):
        return _moved(changes, key)
    parts: list[tuple[pa.RecordBatch, np.ndarray, np.ndarray]] = []
    begin = 0
    for place in [*truncates.tolist(), len(changes)]:
        if place > begin:
            parts.append(_moved(changes.take(np.arange(begin, place)), key))
        if place < len(changes):
            gone = _tombstones(_living(parts, key, old()), changes.rows.schema)
            number = changes.transactions[place]
            parts.append((gone, np.ones(gone.num_rows, np.bool_), np.full(gone.num_rows, number)))
        begin = place + 1
    return (
        pa.Table.from_batches([part[0] for part in parts]).combine_chunks().to_batches()[0]
        if any(part[0].num_rows for part in parts)
        else changes.rows.slice(0, 0),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _moved(changes: TableChanges, key: Sequence[str]) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
    """Rows, which of them are tombstones, and of which transaction; a changed key is a tombstone before its row."""
    deleted = changes.ops == DELETE
    if changes.moved is None or changes.old_keys is None or not changes.moved.any():
        return changes.rows, deleted, changes.transactions
    at = np.flatnonzero(changes.moved)
    gone = _tombstones(_frame(changes.old_keys.take(pa.array(at)).select(list(key))), changes.rows.schema)
    count = len(changes)
    order = np.argsort(np.concatenate([2 * np.arange(count) + 1, 2 * at]), kind="stable")
    both = pa.Table.from_batches([changes.rows, gone]).take(pa.array(order))
    return (
        both.combine_chunks().to_batches()[0],
        np.concatenate([deleted, np.ones(len(at), np.bool_)])[order],
        np.concatenate([changes.transactions, changes.transactions[at]])[order],
    )


def _tombstones(keys: pl.DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of these keys with nothing else in them."""
    given = keys.to_arrow()
    arrays = [
        given.column(field.name).cast(field.type).combine_chunks()
        if field.name in given.column_names
        else pa.nulls(keys.height, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(
        [array.chunk(0) if isinstance(array, pa.ChunkedArray) else array for array in arrays], schema=schema
    )


def _living(
    parts: Sequence[tuple[pa.RecordBatch, np.ndarray, np.ndarray]], key: Sequence[str], old: OldValues
) -> pl.DataFrame:
    """The keys that have a row after what the batch has done so far."""
    before = old.keys()
    if not parts:
        return before
    said = pl.concat([_frame(rows.select(list(key))).with_columns(pl.Series(DELETED, gone)) for rows, gone, _ in parts])
    if not said.height:
        return before
    said = last_of_each(said, list(key))
    kept = before.filter(~pl.Series(equal_to_any(before, said, list(key))))
    return pl.concat([kept, said.filter(~pl.col(DELETED)).drop(DELETED)], how="vertical_relaxed")
