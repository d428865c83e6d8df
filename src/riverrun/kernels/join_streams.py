"""`s.join(s2, on, within)`: pairs of rows with equal keys and `lo ≤ right time - left time ≤ hi`, each pair once.

A row of an outer side that has no partner is issued alone, once the watermark has passed the last time a partner could
have. It is never issued both alone and in a pair. A row older than the watermark at the epoch's start, and by more than
the `horizon`, is late: counted, and dropped or handed on.

A retraction takes back the row with its `_partition` and `_offset`: the pairs it is in, and a partner that is left
with none is issued alone if its time is over. Retractions are not late: operators that correct hold the watermark back
for them. A row whose time was over before the epoch keeps the partner it has, since that is as old.

Rows stay in state while a row or a retraction can still meet them, and where the other side is outer, while a row they
may be the partner of can still be issued alone. Nothing depends on how long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.kernel import Buckets, Counts, EpochClock, Step
from riverrun.kernels.lateness import in_time, late_rows, missed
from riverrun.kernels.matching import IS_THERE, STAMP, WAS_THERE, KeptRows, marked, near, replaced
from riverrun.kernels.pairing import JoinSide, PairedRows, alone, pair_id, pairs, sides_of
from riverrun.kernels.sides import LEFT, RIGHT, Sides
from riverrun.kernels.weights import signed
from riverrun.state.frames import Mask, beside, constant, keep, numbers, pick, series, stack, take, typed, without_nulls
from riverrun.state.hashing import Hashes, hash_columns
from riverrun.state.table import State, StateTable, TableSpec

_HIDDEN = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), RECEIVED: STAMP}
_OUTER = {"inner": (), "left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}


@dataclass(frozen=True)
class JoinStreamsKernel:
    """Joins "left" and "right". The result has the columns of `sides`, the left row's `_time` (the right one's where
    it is alone), the later `_received`, and an id made from both rows' as `_partition` and `_offset`.
    """

    sides: Sides
    how: str
    lo: int
    hi: int
    horizon: int = 0  # rows are late only when they are this much behind the watermark
    aside: frozenset[str] = frozenset()  # the inputs whose late rows are handed on

    def __post_init__(self) -> None:
        if self.how not in _OUTER:
            raise Invalid(f"a join of streams is {', '.join(_OUTER)}, not {self.how!r}")
        if self.lo > self.hi:
            raise Invalid(f"a join within {self.lo} to {self.hi} µs has no pairs", hint="Give the smaller bound first")

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {side.name: side.kept.spec for side in self._both}

    @cached_property
    def _both(self) -> tuple[JoinSide, JoinSide]:
        return self._side("left", self.lo, self.hi), self._side("right", -self.hi, -self.lo)

    def _side(self, name: Literal["left", "right"], lo: int, hi: int) -> JoinSide:
        outer = _OUTER[self.how]
        kept = max(hi, 0)
        if any(other != name for other in outer):
            kept = max(kept, hi + max(-lo, 0))
        on = self.sides.left_on if name == LEFT else self.sides.right_on
        columns = pl.Schema({**self.sides.used(name), **_HIDDEN})
        return JoinSide(name, on, name in outer, lo, hi, KeptRows(columns, on, kept))

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        """Rows that may be alone in the end."""
        outer = [side for side in self._both if side.outer]
        over = clock.start - self.horizon, clock.end - self.horizon
        return {side.name: side.kept.buckets(over[0] - side.hi, over[1] - side.hi) for side in outer}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        both = self._both
        clock = EpochClock(clock.epoch, clock.start - self.horizon, clock.end - self.horizon)
        changed = [self._changed(side, state[side.name], inputs[side.name], clock) for side in both]
        hashes = [hash_columns(rows, side.on) for side, rows in zip(both, changed, strict=True)]
        concerned = self._concerned(state, changed, hashes, clock)
        changes = self._none if concerned is None else self._issued(*concerned, clock)
        for side, rows, hashed in zip(both, changed, hashes, strict=True):
            gone, came = (numbers(rows.get_column(mark)) for mark in (WAS_THERE, IS_THERE))
            low = clock.end - side.kept.time
            side.kept.update(state[side.name], keep(rows, gone), keep(rows, came), low, hashed[came])
        counts: dict[str, Counts] = {}
        late: dict[str, pl.DataFrame] = {}
        for side in both:
            rows = inputs[side.name]
            timely = in_time(numbers(rows.get_column(TIME)), clock)
            aside = late_rows(rows, timely) if side.name in self.aside else rows.clear()
            counts[side.name] = self._counts(timely, len(aside))
            if len(aside):
                late[side.name] = missed(aside, clock)
        return Step(changes, counts, late)

    def _counts(self, timely: Mask, aside: int) -> Counts:
        accepted = int(timely.sum())
        dropped = len(timely) - accepted - aside
        return Counts(read=len(timely), accepted=accepted, late_dropped=dropped, late_aside=aside)

    def _changed(self, side: JoinSide, table: StateTable, arrived: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Rows that come (after, not before) and go (before, not after)."""
        if arrived.is_empty():
            return marked(side.kept.none, False, True)
        timely = keep(arrived, in_time(numbers(arrived.get_column(TIME)), clock))
        fresh, gone = (typed(rows, side.kept.columns) for rows in signed(timely))
        if not side.outer:
            fresh = without_nulls(fresh, side.on)
        taken, fresh = replaced(side.kept, table, fresh, gone)
        return stack([marked(taken, True, False), marked(fresh, False, True)])

    def _concerned(
        self, state: State, changed: list[pl.DataFrame], hashes: list[Hashes], clock: EpochClock
    ) -> tuple[PairedRows, PairedRows] | None:
        """All rows that can be in a pair which comes or goes, or be issued alone or not any more; None: there are none."""
        both = self._both
        held = [
            [side.kept.scan(state[side.name], clock.start - side.hi, clock.end - side.hi)] if side.outer else []
            for side in both
        ]
        asking = [
            stack([pick(part, [*side.on, TIME]) for part in (rows, *dues)])
            for side, rows, dues in zip(both, changed, held, strict=True)
        ]
        if not any(rows.height for rows in asking):
            return None
        for at, side in enumerate(both):
            other, rows = both[1 - at], asking[1 - at]
            due = hash_columns(rows[len(hashes[1 - at]) :], other.on)
            hashed = np.concatenate([hashes[1 - at], due]) if len(due) else hashes[1 - at]
            found = near(side.kept, state[side.name], rows, other.on, hashed, other.lo, other.hi)
            if side.outer:  # those that are due are there already
                over = numbers(found.get_column(TIME)) + side.hi
                found = keep(found, (over < clock.start) | (over >= clock.end))
            held[at].append(found)
        left, right = sides_of(both, held, changed)
        return left, right

    @cached_property
    def _none(self) -> pl.DataFrame:
        """No changes."""
        left, right = (side.kept.none for side in self._both)
        return self._shown(left, right, 1)

    def _issued(self, left: PairedRows, right: PairedRows, clock: EpochClock) -> pl.DataFrame:
        """The changes: what is taken back first, each part in log order."""
        one, other, weights = pairs(left, right)
        alone_left, alone_right = alone(left, right, clock), alone(right, left, clock)
        parts: list[tuple[pl.DataFrame | None, pl.DataFrame | None, int]] = []
        for sign, weight in enumerate((-1, 1)):
            chosen = weights == weight
            parts.append((take(left.frame, one[chosen]), take(right.frame, other[chosen]), weight))
            parts.append((take(left.frame, alone_left[sign]), None, weight))
            parts.append((None, take(right.frame, alone_right[sign]), weight))
        filled = [part for part in parts if any(rows is not None and rows.height for rows in part[:2])]
        return stack([self._shown(*part) for part in filled or parts[:1]])

    def _shown(self, left: pl.DataFrame | None, right: pl.DataFrame | None, weight: int) -> pl.DataFrame:
        first = right if left is None else left
        assert first is not None
        received = first.get_column(RECEIVED)
        if left is not None and right is not None:
            later = np.maximum(numbers(received), numbers(right.get_column(RECEIVED)))
            received = series(RECEIVED, later).cast(STAMP)
        sign = constant(WEIGHT, weight, pl.Int8(), first.height)
        shown = self.sides.joined(left, right)
        return beside(shown, [first.get_column(TIME), sign, *pair_id(left, right), received])
