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
    gone = rows[WEIGHT] < 0
    if not gone.any() or gone.all():
        return rows
    hashes = rows.select(columns).hash_rows()
    came, went = hashes.filter(~gone), hashes.filter(gone)
    common = went.filter(went.is_in(came.implode()))
    if common.is_empty():
        return rows
    doubtful = hashes.is_in(common.implode()).arg_true()
    compared = rows[doubtful].select(*columns, WEIGHT).with_columns(doubtful.alias(_PLACE))
    inserted = (pl.col(WEIGHT) > 0).alias("_inserted")
    counted = compared.with_columns(
        inserted,
        pl.col(WEIGHT).cast(pl.Int64).sum().over(columns).alias("_sum"),
        pl.int_range(pl.len()).over([*columns, inserted]).alias("_nth"),
        pl.len().cast(pl.Int64).over([*columns, inserted]).alias("_all"),
    )
    last, first = pl.col("_all") - pl.col("_nth") <= pl.col("_sum"), pl.col("_nth") < -pl.col("_sum")
    stays = pl.when(inserted).then(last).otherwise(first)
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
