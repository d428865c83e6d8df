"""Pairs of rows of two sides, and rows without a partner, before and after an epoch's changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import EpochClock
from riverrun.kernels.matching import (
    ID,
    IS_THERE,
    WAS_THERE,
    KeptRows,
    Numbers,
    Timeline,
    key_numbers,
    log_order,
    marked,
    written_out,
)
from riverrun.state.frames import constant, frame_of, keep, numbers, pick, series, stack
from riverrun.state.hashing import hash_columns
from riverrun.state.keys import equal_to_any
from riverrun.state.order import ascending, inverse

Mask = npt.NDArray[np.bool_]

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class JoinSide:
    """One side: a partner's time minus the row's own is in [lo, hi]; `kept` is its part of the state."""

    name: Literal["left", "right"]
    on: tuple[str, ...]
    outer: bool
    lo: int
    hi: int
    kept: KeptRows


@dataclass(frozen=True)
class PairedRows:
    """The rows of one side that an epoch is about, and whether they were and are part of it."""

    side: JoinSide
    frame: pl.DataFrame
    number: Numbers
    time: Numbers
    rank: Numbers
    """Their place in the order of the log."""
    before: Mask
    after: Mask


def sides_of(
    sides: Sequence[JoinSide], held: Sequence[Sequence[pl.DataFrame]], changed: Sequence[pl.DataFrame]
) -> list[PairedRows]:
    """Both sides: rows of the state, each once, and rows that change."""
    frames = [_assembled(*parts) for parts in zip(held, changed, strict=True)]
    keyed = key_numbers(*(pick(frame, side.on) for side, frame in zip(sides, frames, strict=True)))
    both = []
    for side, frame, number in zip(sides, frames, keyed, strict=True):
        rank = inverse(log_order(frame))
        time, before, after = (numbers(frame.get_column(name)) for name in (TIME, WAS_THERE, IS_THERE))
        own = pick(frame, [name for name in frame.columns if name not in (WAS_THERE, IS_THERE)])
        both.append(PairedRows(side, own, number, time, rank, before, after))
    return both


def _assembled(held: Sequence[pl.DataFrame], changed: pl.DataFrame) -> pl.DataFrame:
    staying = stack(held)
    gone = keep(changed, numbers(changed.get_column(WAS_THERE)))
    staying = keep(staying, ~equal_to_any(staying, gone, ID))
    return stack([marked(staying, True, True), changed])


def pairs(left: PairedRows, right: PairedRows) -> tuple[Numbers, Numbers, Numbers]:
    """Pairs that come or go, in log order, as indexes of both rows and a weight."""
    # One of the two rows changes at least; a pair of two that change is found from the left.
    new_left, new_right = left.before != left.after, right.before != right.after
    one, other = _partners(left, np.flatnonzero(new_left), right, np.arange(len(right.number)))
    from_right, from_left = _partners(right, np.flatnonzero(new_right), left, np.flatnonzero(~new_left))
    one, other = np.concatenate([one, from_left]), np.concatenate([other, from_right])
    weight = (left.after[one] & right.after[other]).astype(np.int64) - (left.before[one] & right.before[other])
    order = ascending(left.rank[one] * len(right.number) + right.rank[other])
    order = order[weight[order] != 0]
    return one[order], other[order], weight[order]


def _partners(rows: PairedRows, asking: Numbers, others: PairedRows, among: Numbers) -> tuple[Numbers, Numbers]:
    """All pairs of a row in `asking` with one in `among` of the other side."""
    if not len(asking) or not len(among):
        return _NONE, _NONE
    timeline = Timeline(others.number[among], others.time[among])
    time = rows.time[asking]
    places = timeline.places(rows.number[asking], time + rows.side.lo, time + rows.side.hi + 1)
    ranges, found = written_out(*places)
    return asking[ranges], among[timeline.order[found]]


def alone(rows: PairedRows, others: PairedRows, clock: EpochClock) -> tuple[Numbers, Numbers]:
    """Rows whose being issued alone is taken back, and rows that are now issued alone, in log order."""
    side = rows.side
    over = np.flatnonzero(rows.time + side.hi < clock.end) if side.outer else _NONE
    if not len(over):
        return over, over
    over = over[ascending(rows.rank[over])]
    time = rows.time[over]
    timeline = Timeline(others.number, others.time)
    first, behind = timeline.places(rows.number[over], time + side.lo, time + side.hi + 1)

    def without(present: Mask) -> Mask:
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(present[timeline.order])])
        lonely: Mask = total[first] == total[behind]
        return lonely

    was = rows.before[over] & (time + side.hi < clock.start) & without(others.before)
    now = rows.after[over] & without(others.after)
    return over[was & ~now], over[now & ~was]


def pair_id(left: pl.DataFrame | None, right: pl.DataFrame | None) -> list[pl.Series]:
    """An id that is the same whenever the same two rows meet: hashes of both ids, null for the one that is missing."""
    height = next(len(rows) for rows in (left, right) if rows is not None)
    parts: list[pl.Series] = []
    for name, rows in (("l", left), ("r", right)):
        for column in ID:
            values = constant(column, None, pl.Int64(), height) if rows is None else rows.get_column(column)
            parts.append(values.alias(name + column))
    ids = frame_of(parts)
    partition = hash_columns(ids, ids.columns[::-1]) >> np.uint64(33)
    offset = hash_columns(ids, ids.columns) >> np.uint64(1)
    return [series(PARTITION, partition.astype(np.int32)), series(OFFSET, offset.astype(np.int64))]
