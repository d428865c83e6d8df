"""A flow over a day, in few numbers: a part for every minute of the last two hours, and for every ten minutes before.

What adds up is added, of the rest the worst is kept; so a spike of a minute is still there when its ten minutes are one
part. A time that nobody looked at has no part: that is not the same as nothing having happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

MINUTE, COARSE, HOUR, DAY = 60, 600, 3600, 86400  # seconds
FINE = 2 * HOUR  # as long as minutes are kept
_GAP = 30.0  # seconds between two looks after which the time between is not known


class FlowReading(msgspec.Struct, frozen=True):
    """What a flow has counted at a moment (Unix seconds), and how it is then. `slowest` is the longest of the epochs that
    were committed since the reading before, in seconds."""

    at: float
    rows: int
    late: int
    corrected: int
    lag: float
    behind: float | None = None
    slowest: float | None = None


class DayPart(msgspec.Struct, frozen=True, array_like=True):
    """A part of the day, `width` seconds from `at` on, of which `seconds` were looked at: what was counted, and the worst
    that was seen."""

    at: int
    width: int
    seconds: float = 0.0
    rows: int = 0
    late: int = 0
    corrected: int = 0
    lag: float = 0.0
    behind: float | None = None
    slowest: float | None = None

    @property
    def rate(self) -> float:
        """Rows in a second."""
        return self.rows / self.seconds if self.seconds else 0.0


def between(before: FlowReading, now: FlowReading) -> DayPart | None:
    """What happened between two readings, in the minute of the second; None where they are too far apart, or where a
    count began anew."""
    seconds = now.at - before.at
    rows, late, corrected = now.rows - before.rows, now.late - before.late, now.corrected - before.corrected
    if not 0 < seconds <= _GAP or min(rows, late, corrected) < 0:
        return None
    start = int(now.at) // MINUTE * MINUTE
    return DayPart(start, MINUTE, seconds, rows, late, corrected, now.lag, now.behind, now.slowest)


def add_part(parts: Sequence[DayPart], part: DayPart) -> list[DayPart]:
    """The day with one more part, as it is kept: what is older than a day is gone."""
    now = part.at + MINUTE
    kept = [one for one in (*parts, part) if one.at > now - DAY - COARSE]
    edge = (now - FINE) // COARSE * COARSE
    coarse = coarsen((one for one in kept if one.at < edge), COARSE)
    return coarse + coarsen((one for one in kept if one.at >= edge), MINUTE)


def coarsen(parts: Iterable[DayPart], width: int) -> list[DayPart]:
    """Parts of so many seconds.

    >>> coarsen([DayPart(60, 60, 60.0, rows=5, lag=1.0), DayPart(120, 60, 60.0, rows=7, lag=9.0)], 600)
    [DayPart(at=0, width=600, seconds=120.0, rows=12, late=0, corrected=0, lag=9.0, behind=None, slowest=None)]
    """
    ordered = sorted(parts, key=lambda part: part.at)
    return [
        _merge(start * width, width, list(inside)) for start, inside in groupby(ordered, lambda part: part.at // width)
    ]


def _merge(at: int, width: int, parts: Sequence[DayPart]) -> DayPart:
    return DayPart(
        at,
        width,
        round(sum(part.seconds for part in parts), 3),
        sum(part.rows for part in parts),
        sum(part.late for part in parts),
        sum(part.corrected for part in parts),
        max(part.lag for part in parts),
        max((part.behind for part in parts if part.behind is not None), default=None),
        max((part.slowest for part in parts if part.slowest is not None), default=None),
    )
