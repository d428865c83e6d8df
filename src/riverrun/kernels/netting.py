"""What is left of weighted rows when those that cancel are taken out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from riverrun.columns import WEIGHT
from riverrun.kernels.weights import signed
from riverrun.state.equality import equal_at
from riverrun.state.frames import Mask, keep, numbers, pick, take
from riverrun.state.hashing import Hashes, quick_hashes
from riverrun.state.keys import first_of_each, last_of_each
from riverrun.state.order import Indexes, ascending, lengths


def uncancelled(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """`rows`, of weights 1 and -1, without pairs of opposite weights that agree in `columns`; order stays.

    Null equals null, NaN equals NaN, -0.0 equals 0.0. Of equal rows, the first retractions and the last insertions
    stay. Hashes say which rows might cancel, and only those are compared.
    """
    gone = numbers(rows.get_column(WEIGHT)) < 0
    if not gone.any() or gone.all():
        return rows
    one, other, many = _doubtful(quick_hashes(rows, columns), gone)
    if not len(one) and not len(many):
        return rows
    cancel = equal_at(rows, one, rows, other, [(name, name) for name in columns])
    stays = np.ones(rows.height, dtype=np.bool_)
    stays[one[cancel]] = False
    stays[other[cancel]] = False
    if len(many):
        stays[many] = _stay(take(pick(rows, [*columns, WEIGHT]), many), columns)
    return keep(rows, stays)


def versions(changes: pl.DataFrame, key: Sequence[str], columns: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The changes of a table in one epoch as its old and its new rows, each key once at most in either.

    Rows that agree in `columns` before and after are in neither. Should a key still have several new rows, the last
    one counts.
    """
    if changes.is_empty():
        return changes, changes
    new, old = signed(uncancelled(changes, columns))
    return first_of_each(old, key), last_of_each(new, key)


def _doubtful(hashes: Hashes, gone: Mask) -> tuple[Indexes, Indexes, Indexes]:
    """Rows that may cancel: where two have one hash, one of them here and one there; in order, where more have it."""
    order = ascending(hashes)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(hashes[order]) != 0]))
    went = np.add.reduceat(gone[order].astype(np.int64), starts)
    sizes = lengths(starts, len(order))
    mixed = (went > 0) & (went < sizes)
    pairs = starts[mixed & (sizes == 2)]
    return order[pairs], order[pairs + 1], np.sort(order[np.repeat(mixed & (sizes != 2), sizes)])


def _stay(rows: pl.DataFrame, columns: Sequence[str]) -> Mask:
    """Which of any number of equal rows stay."""
    inserted = (pl.col(WEIGHT) > 0).alias("_inserted")
    total = pl.col(WEIGHT).cast(pl.Int64).sum().over(columns)
    nth = pl.int_range(pl.len()).over([*columns, inserted])
    left = pl.len().cast(pl.Int64).over([*columns, inserted]) - nth
    stays = pl.when(inserted).then(left <= total).otherwise(nth < -total)
    return rows.select(stays).to_series().to_numpy()
