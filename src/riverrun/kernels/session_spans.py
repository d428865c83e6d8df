"""Spans of time that belong to one session: those of a key that are less than a gap apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.kernel import Buckets, EpochClock
from riverrun.kernels.windows import WINDOW_END, WINDOW_START
from riverrun.state.frames import Mask, frame_of, pick
from riverrun.state.order import Indexes, lengths, lexicographic, running_maximum

FIRST, LAST, END, ISSUED = "_first", "_last", "_end", "_issued"
SPAN = {FIRST: pl.Int64(), LAST: pl.Int64(), END: pl.Int64()}
_TIMESTAMP = pl.Datetime("us", "UTC")


def closing(clock: EpochClock) -> Buckets:
    """The ends of the sessions that the watermark passes."""
    return clock.start + 1, clock.end + 1


@dataclass(frozen=True)
class SpanClusters:
    """Spans by key and start: `order` has their places among what was given, `starts` where each cluster begins."""

    order: Indexes
    starts: Indexes
    last: Indexes
    """The end of the last span of each cluster."""

    @classmethod
    def of(cls, number: Indexes, start: Indexes, end: Indexes, gap: int) -> SpanClusters:
        """The clusters of spans [start, end] of numbered keys; those of equal bounds stay as they come."""
        order = lexicographic(number, start, end)
        ends = end[order]
        starts = np.flatnonzero(apart(number[order], start[order], ends, gap))
        return cls(order, starts, np.maximum.reduceat(ends, starts) if len(starts) else starts)

    @cached_property
    def numbers(self) -> Indexes:
        """The cluster of each span, in their order."""
        return np.repeat(np.arange(len(self.starts)), lengths(self.starts, len(self.order)))


def apart(number: Indexes, start: Indexes, end: Indexes, gap: int) -> Mask:
    """Which spans, sorted by key number and start, begin `gap` or more after all spans of their key before them."""
    reached = running_maximum(number, end)
    begins = np.ones(len(number), np.bool_)
    begins[1:] = (number[1:] != number[:-1]) | (start[1:] - reached[:-1] >= gap)
    return begins


def visible(sessions: pl.DataFrame, by: Sequence[str], results: pl.DataFrame) -> pl.DataFrame:
    """Sessions as they leave, with their results: `by`, the bounds, the results and the end as event time."""
    start, end = sessions.get_column(FIRST), sessions.get_column(END)
    bounds = [start.cast(_TIMESTAMP).alias(WINDOW_START), end.cast(_TIMESTAMP).alias(WINDOW_END)]
    return frame_of([*pick(sessions, by), *bounds, *results, end.alias(TIME)])
