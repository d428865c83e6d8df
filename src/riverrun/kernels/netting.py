"""What is left of weighted rows when those that cancel are taken out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from riverrun.kernels.kernel import WEIGHT

_PLACE = "_place"


def net(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """`rows`, of weights 1 and -1, without pairs of opposite weights that agree in `columns`; order stays.

    Null equals null, NaN equals NaN, -0.0 equals 0.0. Of equal rows, the first retractions and the last insertions
    stay. Few rows cancel as a rule, so hashes say which ones might, and only those are compared.
    """
    gone = (rows[WEIGHT] < 0).to_numpy()
    if not gone.any() or gone.all():
        return rows
    hashes = rows.select(columns).hash_rows().to_numpy()
    doubtful = np.flatnonzero(np.isin(hashes, np.intersect1d(hashes[gone], hashes[~gone])))
    if not len(doubtful):
        return rows
    compared = rows[doubtful].select(*columns, WEIGHT).with_columns(pl.Series(_PLACE, doubtful))
    came, went = (pl.col(WEIGHT) > 0).alias("_came"), (pl.col(WEIGHT) < 0)
    counted = compared.with_columns(
        came,
        pl.col(WEIGHT).cast(pl.Int64).sum().over(columns).alias("_sum"),
        pl.int_range(pl.len()).over([*columns, came]).alias("_nth"),
        pl.len().cast(pl.Int64).over([*columns, came]).alias("_all"),
    )
    stays = (came & (pl.col("_all") - pl.col("_nth") <= pl.col("_sum"))) | (went & (pl.col("_nth") < -pl.col("_sum")))
    keep = np.ones(len(rows), dtype=np.bool_)
    keep[counted.filter(~stays)[_PLACE].to_numpy()] = False
    return rows.filter(keep)


def versions(changes: pl.DataFrame, key: Sequence[str], columns: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The changes of a table in one epoch as its old and its new rows, each key once at most in either.

    Rows that agree in `columns` before and after are in neither. Should a key still have several new rows, the last
    one counts.
    """
    changes = net(changes, columns)
    gone = changes[WEIGHT] < 0
    old, new = changes.filter(gone), changes.filter(~gone)
    return _once(old, key, "first"), _once(new, key, "last")


def _once(rows: pl.DataFrame, key: Sequence[str], keep: str) -> pl.DataFrame:
    return rows.unique(key, keep=keep, maintain_order=True)  # type: ignore[arg-type]
