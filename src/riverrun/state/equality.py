"""When rows are equal: null equals null, NaN equals NaN and -0.0 equals 0.0, as SQL groups them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

_CONSTANT = "_constant"


def equal_rows(left: pl.DataFrame, right: pl.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Where two frames of equal height agree in all `columns`."""
    agree = np.ones(left.height, dtype=np.bool_)
    for name in columns:
        agree &= left[name].eq_missing(right[name]).to_numpy()
    return agree


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
