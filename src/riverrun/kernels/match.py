"""`s.match(pattern, …)`: matches of a pattern in the rows of each key, in the order of event time, then of the log.

A row waits until the watermark has passed it, so the order of arrival cannot matter. Rows from the first start row on that
is not decided yet are kept, with as many before it as conditions look back. When rows come to a key, or the time of its
oldest attempt is over, matching goes on from there: what is found depends on the rows and not on the epochs.

With a `horizon` rows are kept longer, each that matching stood at with the last time that counted for the outcome
(`_until`). A row that comes late, or is taken back, makes the key be matched again from the first outcome that it can
change: once with the rows as they were, which gives what was issued, and once as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.kernel import MAX_TIME, Buckets, EpochClock, Step
from riverrun.kernels.lateness import accounted, in_time
from riverrun.kernels.match_output import MatchOutput
from riverrun.kernels.match_rows import KeyRows, MatchState, marked_rows
from riverrun.kernels.matching import ID
from riverrun.kernels.netting import uncancelled
from riverrun.kernels.weights import signed, weighted
from riverrun.kernels.windows import grouped, keys
from riverrun.patterns.matcher import Matcher
from riverrun.patterns.tables import Found, Outcome
from riverrun.state.frames import Mask, keep, numbers, pick, stack
from riverrun.state.keys import equal_to_any, first_of_each
from riverrun.state.table import State, TableSpec

_STAMP = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class MatchKernel:
    """Matches by the columns `by`. `schema` has those, what `matcher` and `output` read of rows, and what is handed on.

    `horizon` keeps what was decided open to correction; `aside` hands late rows on.
    """

    by: tuple[str, ...]
    matcher: Matcher
    output: MatchOutput
    schema: Mapping[str, pl.DataType]
    horizon: int = 0
    aside: bool = False

    @cached_property
    def _state(self) -> MatchState:
        columns = {**self.schema, TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), RECEIVED: _STAMP}
        lookback = max(self.matcher.lookback, self.output.lookback)
        return MatchState(self.by, columns, lookback, self.matcher.rules.within)

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return self._state.tables

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        return self._state.passed(clock)

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        counts = in_time(numbers(arrived.get_column(TIME)), clock, self.horizon)
        fresh, gone = signed(grouped(keep(arrived, counts), self.by))
        fresh, gone = self._state.typed(fresh), self._state.typed(gone)
        taken, fresh = self._state.take_back(state, fresh, gone, clock)
        time = numbers(fresh.get_column(TIME))
        due = self._state.due(state, keep(fresh, time >= clock.start), clock)
        changed = stack([taken, keep(fresh, time < clock.start)])  # what had been matched is different now
        woken = self._state.woken(state, clock)
        asked = stack([pick(rows, keys(self.by)) for rows in (due, changed, woken)])
        changes, misplaced, given_up = weighted(self.output.none, 1), self.output.none, 0
        if asked.height:
            held = self._state.held(state, first_of_each(asked, keys(self.by)))
            late = keep(fresh, time < clock.start)
            changes, misplaced, given_up = self._matched(state, held, taken, late, due, clock)
        step = accounted(
            changes, arrived, keep(arrived, ~counts), clock, self.aside, corrected=int((time < clock.start).sum())
        )
        watermark = self._state.watermark(state, self.horizon, clock)
        return replace(self.output.stepped(step, misplaced, given_up), watermark=watermark)

    def _matched(
        self,
        state: State,
        held: pl.DataFrame,
        taken: pl.DataFrame,
        late: pl.DataFrame,
        due: pl.DataFrame,
        clock: EpochClock,
    ) -> tuple[pl.DataFrame, pl.DataFrame, int]:
        """What comes and goes, matches that cannot be placed, and how many start rows were given up."""
        changed = stack([taken, late])
        old_found: pl.DataFrame | None = None
        old_misplaced, old_given_up = self.output.none, 0
        if changed.height:
            held = self._state.reopened(held, changed)
            touched = keep(held, equal_to_any(held, changed, keys(self.by)))
            before = KeyRows.of(touched, keys(self.by))
            found = self._find(before, clock.start)
            old_found, old_misplaced = self._results(before, found)
            old_given_up = len(found.given_up)
            held = keep(held, ~equal_to_any(held, taken, ID)) if taken.height else held
        now = KeyRows.of(stack([held, marked_rows(stack([late, due]))]), keys(self.by))
        found = self._find(now, clock.end)
        new_found, misplaced = self._results(now, found)
        self._state.remember(state, now, found, taken, self.horizon, clock)
        changes = weighted(new_found, 1)
        if old_found is not None:
            changes = uncancelled(stack([weighted(old_found, -1), changes]), new_found.columns)
            misplaced = keep(misplaced, ~equal_to_any(misplaced, old_misplaced, [*ID]))
        return changes, misplaced, max(len(found.given_up) - old_given_up, 0)

    def _find(self, rows: KeyRows, watermark: int) -> Found:
        time = numbers(rows.frame.get_column(TIME))
        return self.matcher.find(rows.frame, time, rows.sequences, watermark, watermark == MAX_TIME)

    def _results(self, rows: KeyRows, found: Found) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Matches and timeouts as they are handed on, and matches that cannot be placed."""
        placed: Mask = found.outcome != Outcome.MISPLACED
        if placed.all():
            return self.output.rows(rows, found), self.output.none
        return self.output.rows(rows, chosen(found, placed)), self.output.rows(rows, chosen(found, ~placed))


def chosen(found: Found, mask: Mask) -> Found:
    """Some of what was found."""
    sizes = np.diff(found.first)
    entries = np.repeat(mask, sizes)
    first = np.concatenate([[0], np.cumsum(sizes[mask])])
    return found._replace(
        outcome=found.outcome[mask],
        start=found.start[mask],
        first=first,
        rows=found.rows[entries],
        variables=found.variables[entries],
    )
