"""When rows are equal: null equals null, NaN equals NaN and -0.0 equals 0.0, as SQL groups them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from riverrun.state.frames import Mask, index
from riverrun.state.order import Indexes

_CONSTANT = "_constant"


def equal_rows(left: pl.DataFrame, right: pl.DataFrame, columns: Iterable[str]) -> Mask:
    """Where two frames of equal height agree in all `columns`."""
    agree = np.ones(left.height, dtype=np.bool_)
    for name in columns:
        agree &= equal_values(left.get_column(name), right.get_column(name))
    return agree


def equal_at(
    left: pl.DataFrame, at: Indexes, right: pl.DataFrame, other: Indexes, columns: Iterable[tuple[str, str]]
) -> Mask:
    """Where rows of `left` at the places `at` agree with those of `right` at `other`, in pairs of columns."""
    agree = np.ones(len(at), dtype=np.bool_)
    if len(at):
        here, there = index(at), index(other)
        for mine, theirs in columns:
            agree &= equal_values(left.get_column(mine)[here], right.get_column(theirs)[there])
    return agree


def equal_values(left: pl.Series, right: pl.Series) -> Mask:
    """Where two columns of equal length agree."""
    if left.null_count() or right.null_count():
        return left.eq_missing(right).to_numpy()
    return (left == right).to_numpy()


def equijoin(
    left: pl.DataFrame,
    right: pl.DataFrame,
    on: Sequence[str],
    how: Literal["inner", "left", "full", "semi", "anti"] = "inner",
    right_on: Sequence[str] | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Polars' join of rows that are equal in `on`; the other side's columns are `right_on` where they differ.

    Use it for every join on columns of the user's. Polars compares two frames of one row each by `==` when the key is
    one float, and NaN is then equal to nothing; with a second column it does not.
    """
    on, right_on = list(on), list(on if right_on is None else right_on)
    if len(on) > 1 or how in ("semi", "anti") or not left.schema[on[0]].is_float():
        return left.join(right, left_on=on, right_on=right_on, how=how, nulls_equal=True, **options)
    one = pl.lit(0, pl.Int8).alias(_CONSTANT)
    found = left.with_columns(one).join(
        right.with_columns(one),
        left_on=[*on, _CONSTANT],
        right_on=[*right_on, _CONSTANT],
        how=how,
        nulls_equal=True,
        **options,
    )
    return found.drop(_CONSTANT, f"{_CONSTANT}_right", strict=False)
