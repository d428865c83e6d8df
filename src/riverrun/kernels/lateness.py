"""When a row is late, and what becomes of it.

What a row can change is final when the watermark has come to its end: to the end of its window, or past the row itself
where each is judged alone. A row is late when that, and the `horizon` that corrections are accepted for, had passed
before its epoch began. The watermark at the epoch's start decides, so that rows of one epoch are treated alike.
For windows retractions are never late (`late_rows`); joins judge them by their time, as they do rows.

A row that counts only because of the horizon corrects: what it changes had been issued as final (`corrects`).
"""

from __future__ import annotations

import polars as pl

from riverrun.columns import WATERMARK, WEIGHT
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.state.frames import Mask, beside, constant, keep, numbers
from riverrun.state.order import Indexes


def open_until(end: Indexes, clock: EpochClock, horizon: int = 0) -> Mask:
    """Which of what is final at `end` could still change when the epoch began."""
    return end > clock.start - horizon


def in_time(time: Indexes, clock: EpochClock, horizon: int = 0) -> Mask:
    """Which rows, each judged by its own time, came while they counted."""
    return time >= clock.start - horizon


def corrects(end: Indexes, clock: EpochClock, horizon: int) -> Mask:
    """Which of what is final at `end` had been issued when the epoch began, and can be changed nevertheless."""
    return open_until(end, clock, horizon) & ~open_until(end, clock)


def late_rows(rows: pl.DataFrame, counts: Mask) -> pl.DataFrame:
    """The rows that do not count, retractions apart."""
    return keep(rows, ~counts & (numbers(rows.get_column(WEIGHT)) > 0))


def accounted(
    changes: pl.DataFrame, rows: pl.DataFrame, late: pl.DataFrame, clock: EpochClock, aside: bool, corrected: int = 0
) -> Step:
    """The step of an operator over `rows`: its changes, the ledger, and the late rows where they are put aside."""
    counts = Counts(
        read=len(rows),
        accepted=len(rows) - len(late),
        late_dropped=0 if aside else len(late),
        late_aside=len(late) if aside else 0,
        corrected=corrected,
    )
    return Step(changes, {"in": counts}, {"in": missed(late, clock)} if aside else {})


def missed(late: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
    """Late rows with the watermark that they missed."""
    return beside(late, [constant(WATERMARK, clock.start, pl.Int64(), late.height)])
