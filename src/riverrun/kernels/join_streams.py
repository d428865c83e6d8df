"""`s.join(s2, on, within)`: pairs of rows with equal keys and `lo ≤ right time - left time ≤ hi`, each pair once.

A row of an outer side that has no partner is issued alone, once the watermark has passed the last time a partner could
have. It is never issued both alone and in a pair. A row older than the watermark at the epoch's start is late: dropped
and counted.

A retraction takes back the row with its `_partition` and `_offset`: the pairs it is in, and a partner that is left
with none is issued alone if its time is over. Retractions are not late; they reach back as far as the watermark, which
operators that correct hold back for this, and `horizon` further.

Rows stay in state while a row or a retraction can still meet them, and where the other side is outer, while a row they
may be the partner of can still be issued alone. Nothing depends on how long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.errors import Invalid
from riverrun.kernels.kernel import OFFSET, PARTITION, TIME, WEIGHT, Clock, Counts, Step
from riverrun.kernels.matching import (
    AFTER,
    BEFORE,
    ID,
    RECEIVED,
    STAMP,
    Numbers,
    Timeline,
    key_numbers,
    marked,
    near,
    replaced,
    written_out,
)
from riverrun.kernels.sides import LEFT, RIGHT, Sides
from riverrun.state.hashing import hash_columns
from riverrun.state.table import State, StateTable, TableSpec

_HIDDEN = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), RECEIVED: STAMP}
_OUTER = {"inner": (), "left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Side:
    """One side: a partner's time minus the row's own is in [lo, hi]; rows are kept `kept` behind their time."""

    name: Literal["left", "right"]
    on: tuple[str, ...]
    columns: pl.Schema
    outer: bool
    lo: int
    hi: int
    kept: int


@dataclass(frozen=True)
class _Rows:
    """The rows of one side that an epoch is about, in log order, and whether they were and are part of it."""

    side: _Side
    frame: pl.DataFrame
    number: Numbers

    @property
    def time(self) -> Numbers:
        return self.frame[TIME].to_numpy()

    @property
    def before(self) -> Mask:
        return self.frame[BEFORE].to_numpy()

    @property
    def after(self) -> Mask:
        return self.frame[AFTER].to_numpy()


@dataclass(frozen=True)
class JoinStreams:
    """Joins "left" and "right". The result has the columns of `sides`, the left row's `_time` (the right one's where
    it is alone), the later `_received`, and an id made from both rows' as `_partition` and `_offset`.
    """

    sides: Sides
    how: str
    lo: int
    hi: int
    horizon: int = 0

    def __post_init__(self) -> None:
        if self.how not in _OUTER:
            raise Invalid(f"a join of streams is {', '.join(_OUTER)}, not {self.how!r}")
        if self.lo > self.hi:
            raise Invalid(f"a join within {self.lo} to {self.hi} µs has no pairs", hint="Give the smaller bound first")

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {
            side.name: TableSpec(dict(side.columns), identity=ID, probe=side.on, bucket=TIME) for side in self._both
        }

    @property
    def _both(self) -> tuple[_Side, _Side]:
        return self._side("left", self.lo, self.hi), self._side("right", -self.hi, -self.lo)

    def _side(self, name: Literal["left", "right"], lo: int, hi: int) -> _Side:
        outer = _OUTER[self.how]
        kept = max(hi, 0)
        if any(other != name for other in outer):
            kept = max(kept, hi + max(-lo, 0))
        on = self.sides.left_on if name == LEFT else self.sides.right_on
        return _Side(name, on, pl.Schema({**self.sides.used(name), **_HIDDEN}), name in outer, lo, hi, kept)

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        both = self._both
        changed = [self._changed(side, state[side.name], inputs[side.name], clock) for side in both]
        left, right = self._concerned(state, changed, clock)
        pairs = _pairs(left, right)
        alone = [self._alone(rows, other, clock) for rows, other in ((left, right), (right, left))]
        for side, rows in zip(both, changed, strict=True):
            table, low = state[side.name], clock.end - self.horizon - side.kept
            table.remove(rows.filter(BEFORE))
            table.put(rows.filter(pl.col(AFTER) & (pl.col(TIME) >= low)).select(list(side.columns)))
            table.release(low)
        counts: dict[str, Counts] = {side.name: self._counts(inputs[side.name], clock) for side in both}
        return Step(self._issued(left, right, pairs, alone), counts)

    def _counts(self, arrived: pl.DataFrame, clock: Clock) -> Counts:
        timely = int(arrived.select(self._timely(clock).sum()).item())
        return Counts(read=len(arrived), accepted=timely, late_dropped=len(arrived) - timely)

    def _timely(self, clock: Clock) -> pl.Expr:
        bound = pl.when(pl.col(WEIGHT) > 0).then(clock.start).otherwise(clock.start - self.horizon)
        return pl.col(TIME) >= bound

    def _changed(self, side: _Side, table: StateTable, arrived: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Rows that come (after, not before) and go (before, not after)."""
        timely = arrived.filter(self._timely(clock))
        columns = list(side.columns)
        fresh = timely.filter(pl.col(WEIGHT) > 0).select(columns).cast(side.columns)
        if not side.outer:
            fresh = fresh.drop_nulls(side.on)
        gone = timely.filter(pl.col(WEIGHT) < 0).select(columns).cast(side.columns)
        taken, fresh = replaced(table, side.on, fresh, gone)
        return pl.concat([marked(taken, True, False), marked(fresh, False, True)])

    def _concerned(self, state: State, changed: list[pl.DataFrame], clock: Clock) -> tuple[_Rows, _Rows]:
        """All rows that can be in a pair which comes or goes, or be issued alone or not any more."""
        both = self._both
        held = []
        for side, other, others in zip(both, both[::-1], changed[::-1], strict=True):
            found = [near(state[side.name], side.on, others, other.on, other.lo, other.hi)]
            if side.outer:
                found.append(state[side.name].scan(clock.start - side.hi, clock.end - side.hi))
            held.append(found)
        for at, (side, other) in enumerate(zip(both, both[::-1], strict=True)):
            over = pl.col(TIME) < clock.end - side.hi
            judged = pl.concat(part.filter(over) for part in held[at][:2]) if side.outer else None
            if judged is not None and len(judged):
                # whether they have a partner can only be told from all rows that may be one
                held[1 - at].append(near(state[other.name], other.on, judged, side.on, side.lo, side.hi))
        frames = [_assembled(side, *parts) for side, parts in zip(both, zip(held, changed, strict=True), strict=True)]
        numbers = key_numbers(*(frame.select(side.on) for side, frame in zip(both, frames, strict=True)))
        left, right = (_Rows(*parts) for parts in zip(both, frames, numbers, strict=True))
        return left, right

    def _alone(self, rows: _Rows, others: _Rows, clock: Clock) -> tuple[Numbers, Numbers]:
        """Rows whose being issued alone is taken back, and rows that are now issued alone."""
        side, time = rows.side, rows.time
        over = np.flatnonzero(time + side.hi < clock.end) if side.outer else np.empty(0, np.int64)
        if not len(over):
            return over, over
        timeline = Timeline(others.number, others.time)
        first = timeline.first(rows.number[over], time[over] + side.lo)
        behind = timeline.first(rows.number[over], time[over] + side.hi + 1)

        def without(present: Mask) -> Mask:
            total = np.concatenate([np.zeros(1, np.int64), np.cumsum(present[timeline.order])])
            lonely: Mask = total[first] == total[behind]
            return lonely

        was = rows.before[over] & (time[over] + side.hi < clock.start) & without(others.before)
        now = rows.after[over] & without(others.after)
        return over[was & ~now], over[now & ~was]

    def _issued(
        self, left: _Rows, right: _Rows, pairs: tuple[Numbers, Numbers, Numbers], alone: list[tuple[Numbers, Numbers]]
    ) -> pl.DataFrame:
        """The changes: what is taken back first, each part in log order."""
        parts = []
        for sign, weight in enumerate((-1, 1)):
            chosen = pairs[2] == weight
            one, other = left.frame[pairs[0][chosen]], right.frame[pairs[1][chosen]]
            parts.append(self._shown(one, other, weight))
            parts.append(self._shown(left.frame[alone[0][sign]], None, weight))
            parts.append(self._shown(None, right.frame[alone[1][sign]], weight))
        return pl.concat(parts)

    def _shown(self, left: pl.DataFrame | None, right: pl.DataFrame | None, weight: int) -> pl.DataFrame:
        first = right if left is None else left
        assert first is not None
        received = first[RECEIVED]
        if left is not None and right is not None:
            received = pl.select(pl.max_horizontal(received.alias("l"), right[RECEIVED].alias("r"))).to_series()
        return self.sides.joined(left, right).with_columns(
            first[TIME],
            pl.lit(weight, pl.Int8).alias(WEIGHT),
            *_pair_id(left, right),
            received.alias(RECEIVED),
        )


def _assembled(side: _Side, held: list[pl.DataFrame], changed: pl.DataFrame) -> pl.DataFrame:
    """Rows that stay and rows that change, each once, in log order, old ones first."""
    staying = pl.concat(part.select(list(side.columns)) for part in held)
    if sum(len(part) > 0 for part in held) > 1:
        staying = staying.unique(ID)
    gone = changed.filter(BEFORE)
    if len(gone):
        staying = staying.join(gone, on=ID, how="anti")
    return pl.concat([marked(staying, True, True), changed]).sort(*ID, AFTER)


def _pairs(left: _Rows, right: _Rows) -> tuple[Numbers, Numbers, Numbers]:
    """Pairs that come or go, as indexes of both rows and a weight. At least one of the two rows changes."""
    new_left, new_right = left.before != left.after, right.before != right.after
    one, other = _partners(left, np.flatnonzero(new_left), right, np.arange(len(right.number)))
    from_right, from_left = _partners(right, np.flatnonzero(new_right), left, np.flatnonzero(~new_left))
    one, other = np.concatenate([one, from_left]), np.concatenate([other, from_right])
    weight = (left.after[one] & right.after[other]).astype(np.int64) - (left.before[one] & right.before[other])
    order = pl.Series(one * len(right.number) + other).arg_sort().to_numpy()
    order = order[weight[order] != 0]
    return one[order], other[order], weight[order]


def _partners(rows: _Rows, asking: Numbers, others: _Rows, among: Numbers) -> tuple[Numbers, Numbers]:
    """All pairs of a row in `asking` with one in `among` of the other side."""
    if not len(asking) or not len(among):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    timeline = Timeline(others.number[among], others.time[among])
    number, time = rows.number[asking], rows.time[asking]
    ranges, places = written_out(
        timeline.first(number, time + rows.side.lo), timeline.first(number, time + rows.side.hi + 1)
    )
    return asking[ranges], among[timeline.order[places]]


def _pair_id(left: pl.DataFrame | None, right: pl.DataFrame | None) -> list[pl.Series]:
    """An id that is the same whenever the same two rows meet: hashes of both ids, null for the one that is missing."""
    height = next(len(rows) for rows in (left, right) if rows is not None)
    parts: list[pl.Series] = []
    for name, rows in (("l", left), ("r", right)):
        for column in ID:
            values = pl.repeat(None, height, dtype=pl.Int64, eager=True) if rows is None else rows[column]
            parts.append(values.alias(name + column))
    ids = pl.DataFrame(parts)
    partition = hash_columns(ids, ids.columns[::-1]) >> np.uint64(33)
    offset = hash_columns(ids, ids.columns) >> np.uint64(1)
    return [pl.Series(PARTITION, partition.astype(np.int32)), pl.Series(OFFSET, offset.astype(np.int64))]
