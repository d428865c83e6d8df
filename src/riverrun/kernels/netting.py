"""What is left of weighted rows when those that cancel are taken out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import WEIGHT
from riverrun.state.equality import equal_rows

Indexes = npt.NDArray[np.int64]


def uncancelled(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """`rows`, of weights 1 and -1, without pairs of opposite weights that agree in `columns`; order stays.

    Null equals null, NaN equals NaN, -0.0 equals 0.0. Of equal rows, the first retractions and the last insertions
    stay. Hashes say which rows might cancel, and only those are compared.
    """
    gone = rows[WEIGHT] < 0
    if not gone.any() or gone.all():
        return rows
    hashes = rows.select(columns).hash_rows()
    came, went = hashes.filter(~gone), hashes.filter(gone)
    common = went.filter(went.is_in(came.implode()))
    if common.is_empty():
        return rows
    doubtful = hashes.is_in(common.implode()).arg_true()
    found = hashes[doubtful]
    by_hash = doubtful[found.arg_sort()].to_numpy().astype(np.int64)
    one, other, many = _pairs(hashes.to_numpy()[by_hash], by_hash)
    cancel = equal_rows(rows[one], rows[other], columns)
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[one[cancel]] = False
    keep[other[cancel]] = False
    if len(many):
        keep[many] = _stay(rows[many].select(*columns, WEIGHT), columns)
    return rows.filter(keep)


def versions(changes: pl.DataFrame, key: Sequence[str], columns: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The changes of a table in one epoch as its old and its new rows, each key once at most in either.

    Rows that agree in `columns` before and after are in neither. Should a key still have several new rows, the last
    one counts.
    """
    if changes.is_empty():
        return changes, changes
    changes = uncancelled(changes, columns)
    gone = changes[WEIGHT] < 0
    old, new = changes.filter(gone), changes.filter(~gone)
    return old.unique(key, keep="first", maintain_order=True), new.unique(key, keep="last", maintain_order=True)


def _pairs(hashes: npt.NDArray[np.uint64], rows: Indexes) -> tuple[Indexes, Indexes, Indexes]:
    """Rows whose hash two rows have, one of them here and one there, and in order the rows whose hash more have."""
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    lengths = np.diff(starts, append=len(hashes))
    pairs = starts[lengths == 2]
    return rows[pairs], rows[pairs + 1], np.sort(rows[np.repeat(lengths != 2, lengths)])


def _stay(rows: pl.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of any number of equal rows stay."""
    inserted = (pl.col(WEIGHT) > 0).alias("_inserted")
    total = pl.col(WEIGHT).cast(pl.Int64).sum().over(columns)
    nth = pl.int_range(pl.len()).over([*columns, inserted])
    behind = pl.len().cast(pl.Int64).over([*columns, inserted]) - nth
    stays = pl.when(inserted).then(behind <= total).otherwise(nth < -total)
    return rows.select(stays).to_series().to_numpy()
