"""What kernels of windows share: the key of windows without `by`, results as they leave, and the ledger of a step."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from riverrun.columns import TIME, WATERMARK, WEIGHT
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.state.frames import beside, constant, frame_of, pick, stack

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


def weighted(rows: pl.DataFrame, weight: int) -> pl.DataFrame:
    """Rows with this weight."""
    return beside(rows, [constant(WEIGHT, weight, pl.Int8(), rows.height)])


def changes_of(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """What is taken back, and what comes instead, as weighted rows."""
    return stack([weighted(old, -1), weighted(new, 1)])


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


def accounted(changes: pl.DataFrame, rows: pl.DataFrame, late: pl.DataFrame, clock: EpochClock, aside: bool) -> Step:
    """The step of a window over `rows`: its changes, the ledger, and the late rows where they are put aside."""
    counts = Counts(
        read=len(rows),
        accepted=len(rows) - len(late),
        late_dropped=0 if aside else len(late),
        late_aside=len(late) if aside else 0,
    )
    missed = beside(late, [constant(WATERMARK, clock.start, pl.Int64(), late.height)]) if aside else None
    return Step(changes, {"in": counts}, missed)
