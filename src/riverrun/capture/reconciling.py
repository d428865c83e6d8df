"""Chunks of a snapshot beside the stream: which of a chunk's rows are older than what the topic has.

A streamed change of a transaction that the chunk's view of the database does not see is newer than the chunk's row, even
if it came before the chunk was read: a transaction is in the source's log before others can see it. What a view has seen
once, every later one sees, so that only the transactions since the last chunk are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.capture.changes import TRUNCATE, TableChanges, TableChunk, Transactions
from riverrun.columns import TRANSACTION
from riverrun.state.keys import equal_to_any

_EVERYTHING, _INCOMPLETE = "_everything", "_incomplete"


class Recent:
    """Keys that the stream has touched, and by which transaction, until a chunk's view has seen it."""

    def __init__(self, key: Sequence[str], schema: pa.Schema) -> None:
        self._key = list(key)
        empty = pl.from_arrow(pa.schema([schema.field(name) for name in key]).empty_table())
        assert isinstance(empty, pl.DataFrame)
        self._schema = {
            **empty.schema,
            TRANSACTION: pl.String(),
            _EVERYTHING: pl.Boolean(),
            _INCOMPLETE: pl.Boolean(),
        }
        self._parts: list[pl.DataFrame] = []

    def add(self, changes: TableChanges, transactions: Transactions, missing: np.ndarray | None) -> None:
        """Changes that were streamed; of those `missing` a value, only a chunk has the whole row."""
        ids = np.asarray(transactions.ids, dtype=object)[changes.transactions]
        keys = [changes.rows.select(self._key)]
        owners, everything, incomplete = [ids], [changes.ops == TRUNCATE], [_mask(missing, len(changes))]
        if changes.moved is not None and changes.old_keys is not None and changes.moved.any():
            at = np.flatnonzero(changes.moved)
            keys.append(changes.old_keys.take(pa.array(at)).select(self._key))
            owners.append(ids[at])
            everything.append(np.zeros(len(at), np.bool_))
            incomplete.append(np.zeros(len(at), np.bool_))
        frame = pl.from_arrow(pa.Table.from_batches(keys))
        assert isinstance(frame, pl.DataFrame)
        self._parts.append(
            frame.with_columns(
                pl.Series(TRANSACTION, np.concatenate(owners).tolist(), pl.String()),
                pl.Series(_EVERYTHING, np.concatenate(everything)),
                pl.Series(_INCOMPLETE, np.concatenate(incomplete)),
            )
        )

    def recall(self, touched: Iterable[pa.Table]) -> None:
        """After a restart: what the topic has from transactions since the snapshot began, as key and transaction. Whether a
        value was missing is not known any more, so it counts as if."""
        for table in touched:
            frame = pl.from_arrow(table)
            assert isinstance(frame, pl.DataFrame)
            frame = frame.filter(pl.col(TRANSACTION).is_not_null())
            if frame.height:
                self._parts.append(
                    frame.with_columns(pl.lit(False).alias(_EVERYTHING), pl.lit(True).alias(_INCOMPLETE))
                )

    def newest(self, chunk: TableChunk) -> pa.RecordBatch | None:
        """The chunk's rows that are not older than what was streamed; None: it must be read again, a little later."""
        known = pl.concat([pl.DataFrame(schema=self._schema), *self._parts], how="vertical_relaxed")
        self._parts = []
        if not known.height:
            return chunk.rows
        ids = known.get_column(TRANSACTION).unique()
        seen = dict(zip(ids.to_list(), chunk.sees(ids.to_list()).tolist(), strict=True))
        unseen = known.filter(~known.get_column(TRANSACTION).replace_strict(seen, return_dtype=pl.Boolean()))
        self._parts = [unseen] if unseen.height else []
        if not unseen.height:
            return chunk.rows
        if unseen.select(pl.col(_EVERYTHING) | pl.col(_INCOMPLETE)).to_series().any():
            return None
        rows = pl.from_arrow(pa.Table.from_batches([chunk.rows.select(self._key)]))
        assert isinstance(rows, pl.DataFrame)
        older = equal_to_any(rows, unseen, self._key)
        return chunk.rows if not older.any() else chunk.rows.filter(pa.array(~older))


def _mask(mask: np.ndarray | None, count: int) -> np.ndarray:
    return np.zeros(count, np.bool_) if mask is None else mask
