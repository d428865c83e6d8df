"""`s.as_of(t, on)`: each row beside the version of its key that was valid at the row's time.

That is the newest version with a time not after the row's; of versions with the same time, the later in the log. A
deletion is a version too: from its time on there is none.

With `wait`, a row is answered when the watermark has passed it, once. Rows and versions older than the watermark at the
epoch's start are late: dropped and counted.
Without, a row is answered in its own epoch from what has been read so far, and answered again, the old answer taken
back, when a version arrives that changes it. Rows and versions count until the watermark is `horizon` past them; older
ones are late: dropped and counted.

A derived table shows changes, not a log: an inserted row is a version at its `_time`, in place of an earlier one of
that time, and one with `_deleted` says that there is none from then on. A key that is retracted and not inserted in
the same epoch is deleted when the epoch was received, as a tombstone is, until it comes again.

A retraction on the left takes back the answer that stands. It reaches `horizon` behind the watermark in both ways;
what is older is dropped and counted as late.

Of versions older than the watermark by more than `horizon`, the newest of each key is kept; rows are kept that long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, VERSION, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.kernel import MAX_TIME, Buckets, Counts, EpochClock, Step
from riverrun.kernels.lateness import in_time
from riverrun.kernels.matching import (
    ID,
    IS_THERE,
    STAMP,
    WAS_THERE,
    KeptRows,
    Numbers,
    log_order,
    marked,
    replaced,
    slices,
)
from riverrun.kernels.sides import Sides
from riverrun.kernels.versions import Versions
from riverrun.kernels.weights import refuse_retractions, signed
from riverrun.state.frames import beside, constant, frame_of, keep, numbers, pick, stack, take, take_or_null, typed
from riverrun.state.keys import equal_to_any, group_rows
from riverrun.state.table import State, StateTable, TableSpec

_HIDDEN = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), RECEIVED: STAMP}


@dataclass(frozen=True)
class AsOfKernel:
    """Rows of "left" beside versions of "right", whose key is `sides.right_on`: with `changelog` rows of the table's
    topic, none left out, else weighted changes; either have `_deleted`. A right column `_version` is the version's id.

    The result has the columns of `sides` and the row's own `_time`, `_partition`, `_offset`, `_received`, which with
    `wait` is its time.
    """

    sides: Sides
    how: str
    horizon: int
    wait: bool
    changelog: bool
    retracts: bool = False

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left"):
            raise Invalid(f"an as_of join is inner or left, not {self.how!r}")

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"rows": self._rows.spec, **self._versions.tables}

    @cached_property
    def _sides(self) -> Sides:
        return replace(self.sides, right={**self.sides.right, VERSION: pl.String()})

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self.sides.right_on, self._sides.used("right"), self.horizon, self.changelog)

    @cached_property
    def _rows(self) -> KeptRows:
        """Rows that may be answered again, taken back, or still have to be answered."""
        columns = pl.Schema({**self.sides.used("left"), **_HIDDEN})
        return KeptRows(columns, self.sides.left_on, self.horizon if self.retracts or not self.wait else 0)

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        """Rows that wait for the watermark."""
        return {"rows": self._rows.buckets(clock.start, clock.end)} if self.wait else {}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        left, right, versions = inputs["left"], inputs["right"], self._versions
        if not self.retracts:
            refuse_retractions(left, "as_of")
        horizon = 0 if self.wait else self.horizon
        arrived = versions.arrived(right, clock, clock.start - horizon)
        accepted = keep(arrived, in_time(numbers(arrived.get_column(TIME)), clock, horizon))
        came = versions.winning(state, accepted)
        time, comes = numbers(left.get_column(TIME)), numbers(left.get_column(WEIGHT)) > 0
        timely = keep(left, in_time(time, clock, horizon) | (~comes & in_time(time, clock, self.horizon)))
        taken, fresh = self._arrivals(state["rows"], timely)
        if self.wait:
            rows = self._waiting(state["rows"], taken, fresh, clock)
        else:
            rows = self._at_once(state["rows"], taken, fresh, came)
        changes = self._changes(state, rows, came, clock)
        versions.keep(state, came, clock)
        late = len(arrived) - len(accepted)
        counts = {
            "left": Counts(read=len(left), accepted=len(timely), late_dropped=len(left) - len(timely)),
            "right": Counts(read=len(right), accepted=len(right) - late, late_dropped=late),
        }
        self._rows.update(state["rows"], taken, fresh, clock.end - self._rows.time)
        return Step(changes, counts)

    def _arrivals(self, table: StateTable, arrived: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Stored rows that are taken back, and rows that come."""
        fresh, gone = (typed(rows, self._rows.columns) for rows in signed(arrived))
        return replaced(self._rows, table, fresh, gone)

    def _at_once(self, table: StateTable, taken: pl.DataFrame, fresh: pl.DataFrame, came: pl.DataFrame) -> pl.DataFrame:
        """Rows that come and go, and those whose answer new versions may change."""
        staying = self._answered(table, came, fresh)
        staying = keep(staying, ~equal_to_any(staying, taken, ID))
        return stack([marked(staying, True, True), marked(taken, True, False), marked(fresh, False, True)])

    def _answered(self, table: StateTable, came: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
        """Stored rows that are not older than the first new version of their key."""
        groups = group_rows(came, self.sides.right_on)
        if not len(groups):
            return fresh.clear()
        keys = take(pick(came, self.sides.right_on), groups.first)
        keys = frame_of([key.alias(name) for key, name in zip(keys, self.sides.left_on, strict=True)])
        first = np.minimum.reduceat(numbers(came.get_column(TIME))[groups.order], groups.starts)
        parts = []
        for part in slices(first, self.horizon // 16):
            some, since = (keys, first) if part is None else (keep(keys, part), first[part])
            held, at = self._rows.probe(table, some, int(since.min()), MAX_TIME)
            parts.append(keep(held, numbers(held.get_column(TIME)) >= since[at]))
        return stack(parts)

    def _waiting(self, table: StateTable, taken: pl.DataFrame, fresh: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Rows that the watermark passes, and those taken back after it has passed them."""
        due = self._rows.scan(table, clock.start, clock.end)
        due = keep(due, ~equal_to_any(due, taken, ID))
        due = stack([due, keep(fresh, numbers(fresh.get_column(TIME)) < clock.end)])
        answered = keep(taken, numbers(taken.get_column(TIME)) < clock.start)
        return stack([marked(answered, True, False), marked(due, False, True)])

    def _changes(self, state: State, rows: pl.DataFrame, came: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        if rows.is_empty():
            return self._none
        rows = take(rows, log_order(rows))
        known, old, new = self._versions.valid(state, rows, self.sides.left_on, came, clock)
        before, after = numbers(rows.get_column(WAS_THERE)), numbers(rows.get_column(IS_THERE))
        same = before & after & (old == new)
        shown = self.how == "left"
        back = before & ~same & (shown | (old >= 0))
        again = after & ~same & (shown | (new >= 0))
        taken_back = self._issued(keep(rows, back), known, old[back], -1)
        # only what was there before can come again as it was, and rows that replace others
        contested = again & (before | bool((before & ~after).any()))
        answers = self._issued(keep(rows, contested), known, new[contested], 1)
        values = [name for name in answers.columns if name != WEIGHT]
        if len(taken_back) and len(answers):
            again_as_it_was = equal_to_any(answers, taken_back, values)
            taken_back = keep(taken_back, ~equal_to_any(taken_back, answers, values))
            answers = keep(answers, ~again_as_it_was)
        first = again & ~contested
        answers = stack([answers, self._issued(keep(rows, first), known, new[first], 1)])
        return stack([taken_back, take(answers, log_order(answers)) if contested.any() else answers])

    @cached_property
    def _none(self) -> pl.DataFrame:
        """No changes."""
        return self._issued(self._rows.none, self._versions.none, np.empty(0, np.int64), 1)

    def _issued(self, rows: pl.DataFrame, known: pl.DataFrame, version: Numbers, weight: int) -> pl.DataFrame:
        """Rows beside the versions with these numbers; -1 is none."""
        answers = take_or_null(known, version) if len(known) else known.clear(len(rows))
        weights = constant(WEIGHT, weight, pl.Int8(), rows.height)
        own = pick(rows, [TIME, PARTITION, OFFSET, RECEIVED])
        if self.wait:  # rows come out in the order of their times, whatever the epochs: that is where they stand
            own = beside(own, [rows.get_column(TIME).cast(STAMP).alias(RECEIVED)])
        return beside(self._sides.joined(rows, answers), [weights, *own])
