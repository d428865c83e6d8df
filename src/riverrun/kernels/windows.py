"""What kernels of windows share: the key of windows without `by`, and results as they leave."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from riverrun.columns import TIME
from riverrun.state.frames import beside, constant, frame_of, pick

ALL = "_all"
"""The key of a window without `by`: the same for every row."""

START = "_start"
WINDOW_START, WINDOW_END = "window_start", "window_end"
_STAMP = pl.Datetime("us", "UTC")


def keys(by: Sequence[str]) -> tuple[str, ...]:
    """The columns that cells are found by: `by`, or one that is always there."""
    return tuple(by) or (ALL,)


def keyed(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Rows that have these columns."""
    return rows if by else beside(rows, [constant(ALL, 0, pl.Int8(), rows.height)])


def grouped(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """As `keyed`, for groups: -0.0 in a key is 0.0, so that a result is written in one way whichever row came first."""
    floats = [name for name in by if rows.get_column(name).dtype.is_float()]
    return keyed(rows.with_columns(pl.col(floats) + 0.0) if floats else rows, by)


def extent(times: pl.Series) -> tuple[int, int]:
    """The half-open interval of the given times; an empty one where there are none."""
    if not len(times):
        return 0, 0
    return int(times.to_numpy().min()), int(times.to_numpy().max()) + 1


def bounded(results: pl.DataFrame, by: Sequence[str], values: Sequence[str], size: int) -> pl.DataFrame:
    """Results of windows as they leave: `by`, the window's bounds, `values` and its end as event time."""
    start = results.get_column(START)
    end = start + size
    bounds = [start.cast(_STAMP).alias(WINDOW_START), end.cast(_STAMP).alias(WINDOW_END)]
    return frame_of([*pick(results, by), *bounds, *pick(results, values), end.alias(TIME)])
