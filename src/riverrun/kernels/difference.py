"""The difference of two tables as weighted changes: what turns the rows there were into the rows there are."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from riverrun.columns import WEIGHT
from riverrun.kernels.weights import changes_of
from riverrun.state.frames import keep, pick
from riverrun.state.key_order import sort_by_key
from riverrun.state.keys import equal_to_any


def difference(old: pl.DataFrame, new: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The net changes from `old` to `new`, sorted by `key`, retractions (-1) before insertions (+1).

    Both have the same columns, and each row once. Rows in both do not appear; null equals null, NaN equals NaN.
    """
    columns, old = new.columns, pick(old, new.columns)
    gone = keep(old, ~equal_to_any(old, new, columns))
    came = keep(new, ~equal_to_any(new, old, columns))
    changes = changes_of(gone, came)
    return sort_by_key(changes, [*key, WEIGHT])
