"""`t.changes()`: a table's changes as a stream of rows: what happened, the row before, the row after.

One row per key that changed in an epoch. A key that is, after the epoch, as it was before gives none, whatever happened
to it in between. Nothing is remembered: changes of a table carry its old rows and its new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from riverrun.columns import AFTER, BEFORE, OFFSET, OP, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.matching import STAMP
from riverrun.kernels.netting import uncancelled, versions
from riverrun.kernels.windows import keyed, keys
from riverrun.state.equality import equijoin
from riverrun.state.frames import series
from riverrun.state.hashing import hash_columns
from riverrun.state.table import State, TableSpec

_EARLIER, _LATER = "_time_before", "_time_after"


@dataclass(frozen=True)
class ChangesKernel:
    """Change rows of a table with `key`; without one it has one row at most.

    `columns`, or else all of `schema`, are what `_before` and `_after` show. A change has the time of the row after it.
    Of a deletion nobody knows when it happened: it has the time of the row that went, or the watermark's if that is
    later, so that it is never late. Its id is made of the epoch and of hashes of the key, so that the changes of a key
    are in the order they happened in.
    """

    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    columns: tuple[str, ...] = ()

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        # first what happened and was lasting, then rows that only have another time
        lasting = keyed(uncancelled(arrived, [*self.schema, TIME]), self.key)
        key = list(keys(self.key))
        old, new = versions(lasting, key, [*self.schema])
        shown = pl.struct(pl.col(name).cast(self.schema[name]) for name in self.columns or self.schema)
        before = old.select(*key, shown.alias(BEFORE), pl.col(TIME).alias(_EARLIER))
        after = new.select(*key, shown.alias(AFTER), pl.col(TIME).alias(_LATER))
        # Polars names the other key columns for a moment, and a hidden part of the key may be called `_side_right`.
        changed = equijoin(before, after, key, "full", coalesce=True, suffix=" after").sort(key)
        existed, exists = pl.col(_EARLIER).is_not_null(), pl.col(_LATER).is_not_null()
        op = pl.when(existed & exists).then(pl.lit("update")).when(exists).then(pl.lit("insert"))
        time = pl.coalesce(_LATER, pl.max_horizontal(_EARLIER, pl.lit(clock.start)))
        changes = changed.select(
            op.otherwise(pl.lit("delete")).alias(OP),
            pl.when(existed).then(BEFORE),
            pl.when(exists).then(AFTER),
            time.alias(TIME),
            pl.lit(1, pl.Int8).alias(WEIGHT),
            time.cast(STAMP).alias(RECEIVED),  # in one epoch, changes of keys are in order of time
            *_ids(changed.select(key), clock.epoch),
        )
        return Step(changes, {"in": Counts(read=len(arrived), accepted=len(arrived))})


def _ids(keys: pl.DataFrame, epoch: int) -> tuple[pl.Series, pl.Series]:
    """Two hashes of 31 bits tell the keys of an epoch apart, the epoch those of different epochs."""
    hashes = hash_columns(keys, keys.columns)
    high, low = (hashes >> np.uint64(33)).astype(np.int32), (hashes & np.uint64(2**31 - 1)).astype(np.int64)
    return series(PARTITION, high), series(OFFSET, low | (epoch << 31))
