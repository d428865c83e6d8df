"""What kernels with cells share: the key of windows without `by`, judging lateness, and writing results out."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from riverrun.columns import TIME, WATERMARK, WEIGHT
from riverrun.kernels.kernel import Counts, EpochClock, Step

ALL = "_all"
"""The key of a window without `by`: the same for every row."""

START = "_start"
_STAMP = pl.Datetime("us", "UTC")


def keys(by: Sequence[str]) -> tuple[str, ...]:
    """The columns that cells are found by: `by`, or one that is always there."""
    return tuple(by) or (ALL,)


def keyed(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Rows that have these columns."""
    return rows if by else rows.with_columns(pl.lit(0, pl.Int8).alias(ALL))


def grouped(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """As `keyed`, for groups: -0.0 in a key is 0.0, so that a result is written in one way whichever row came first."""
    floats = [name for name in by if rows.schema[name].is_float()]
    return keyed(rows.with_columns(pl.col(floats) + 0.0) if floats else rows, by)


def weighted(rows: pl.DataFrame, weight: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(weight, pl.Int8).alias(WEIGHT))


def extent(times: pl.Series) -> tuple[int, int]:
    """The half-open interval of the given times; an empty one where there are none."""
    if not len(times):
        return 0, 0
    return int(times.to_numpy().min()), int(times.to_numpy().max()) + 1


def bounded(results: pl.DataFrame, by: Sequence[str], values: Sequence[str], size: int) -> pl.DataFrame:
    """Results of windows as they leave: `by`, the window's bounds, `values` and its end as event time."""
    start, end = pl.col(START), pl.col(START) + size
    return results.select(
        *by,
        start.cast(_STAMP).alias("window_start"),
        end.cast(_STAMP).alias("window_end"),
        *values,
        end.alias(TIME),
    )


def accounted(changes: pl.DataFrame, rows: pl.DataFrame, late: pl.DataFrame, clock: EpochClock, aside: bool) -> Step:
    """The step of a window over `rows`: its changes, the ledger, and the late rows where they are put aside."""
    counts = Counts(
        read=len(rows),
        accepted=len(rows) - len(late),
        late_dropped=0 if aside else len(late),
        late_aside=len(late) if aside else 0,
    )
    missed = late.with_columns(pl.lit(clock.start, pl.Int64).alias(WATERMARK)) if aside else None
    return Step(changes, {"in": counts}, missed)
