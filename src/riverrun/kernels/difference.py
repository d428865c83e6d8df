"""The difference of two tables as weighted changes: what turns the rows there were into the rows there are."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from riverrun.columns import WEIGHT
from riverrun.kernels.weights import weighted
from riverrun.state.equality import equijoin


def difference(old: pl.DataFrame, new: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The net changes from `old` to `new`, sorted by `key`, retractions (-1) before insertions (+1).

    Both have the same columns, and each row once. Rows in both do not appear; null equals null, NaN equals NaN.
    """
    columns = new.columns
    if old.is_empty() and new.is_empty():
        return weighted(new, 1)
    gone = equijoin(old.select(columns), new, columns, "anti")
    came = equijoin(new, old, columns, "anti")
    return pl.concat([weighted(gone, -1), weighted(came, 1)]).sort(*key, WEIGHT, maintain_order=True)
