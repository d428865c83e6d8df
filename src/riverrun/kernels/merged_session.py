"""Sessions as parts: where nothing is taken back and every aggregate can be put together from parts of its rows.

State has one row for each session, with the parts of its aggregates, and no rows of the input: a session that never
ends takes no more room than others. See `session` for what a session is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.aggregates import Aggregates
from riverrun.kernels.aggregates.parts import combine, reduce_groups
from riverrun.kernels.kernel import MAX_TIME, EpochClock, Step
from riverrun.kernels.lateness import accounted, open_until
from riverrun.kernels.netting import uncancelled
from riverrun.kernels.session_spans import END, FIRST, ISSUED, LAST, SPAN, SpanClusters, closing, visible
from riverrun.kernels.weights import changes_of, refuse_retractions
from riverrun.kernels.windows import ALL, WINDOW_END, WINDOW_START, grouped, keys
from riverrun.state.frames import (
    Mask,
    beside,
    constant,
    frame_of,
    keep,
    numbers,
    pick,
    series,
    stack,
    take,
    take_or_null,
    true,
    typed,
)
from riverrun.state.hashing import hash_columns
from riverrun.state.keys import KeyGroups, group_rows, stretches
from riverrun.state.order import Indexes, lexicographic
from riverrun.state.table import State, StateTable, TableSpec


@dataclass(frozen=True)
class MergedSessions:
    """The step of a session kernel with these settings."""

    by: tuple[str, ...]
    gap: int
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]
    horizon: int
    aside: bool
    update: bool

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        kinds = {**self.schema, ALL: pl.Int8()}
        key = {name: kinds[name] for name in keys(self.by)}
        parts = {name: kind for part in self.aggregates.parts for name, kind in part.columns.items()}
        columns = {**key, **SPAN, ISSUED: pl.Boolean(), **parts}
        return {"sessions": TableSpec(columns, identity=(FIRST,), probe=tuple(key), bucket=END, route=self.by)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, sessions = inputs["in"], state["sessions"]
        refuse_retractions(arrived, "a session window of rows that stay")
        late = np.zeros(arrived.height, np.bool_)
        replaced = changed = self._none
        corrected = 0
        if arrived.height:
            late, corrected, replaced, changed = self._merge(sessions, grouped(arrived, self.by), clock)
        closed = self._close(sessions, clock)
        sessions.put(self._kept(changed, clock))
        sessions.put(self._kept(closed, clock))
        sessions.release(clock.end - self.horizon + 1)
        shown = stack([keep(changed, true(changed.get_column(ISSUED))), closed])
        changes = changes_of(self._visible(keep(replaced, true(replaced.get_column(ISSUED)))), self._visible(shown))
        changes = uncancelled(changes, [*self.by, *self.aggregates.schema, WINDOW_START, WINDOW_END])
        return accounted(changes, arrived, keep(arrived, late), clock, self.aside, corrected)

    @cached_property
    def _none(self) -> pl.DataFrame:
        return self.tables["sessions"].none

    def _merge(
        self, table: StateTable, rows: pl.DataFrame, clock: EpochClock
    ) -> tuple[Mask, int, pl.DataFrame, pl.DataFrame]:
        """Which rows are late, how many of the others correct, the sessions they touch, and what comes in their place."""
        key = keys(self.by)
        groups, time = group_rows(rows, key), numbers(rows.get_column(TIME))
        wanted = take(pick(rows, key), groups.first)
        held, at = table.probe_range(wanted, int(time.min()) + 1, MAX_TIME, groups.hashes)
        number = np.concatenate([at, groups.numbers])
        start = np.concatenate([numbers(held.get_column(FIRST)), time])
        last = np.concatenate([numbers(held.get_column(LAST)), time])
        clusters = SpanClusters.of(number, start, last, self.gap)
        # what is stored is not closed yet, so a cluster that is has nothing but rows, all of them late
        is_row = clusters.order >= held.height
        touched = np.logical_or.reduceat(is_row, clusters.starts)
        closed = ~open_until(clusters.last + self.gap, clock, self.horizon)
        late = np.zeros(rows.height, np.bool_)
        late[clusters.order[is_row & closed[clusters.numbers]] - held.height] = True
        counts = (touched & ~closed)[clusters.numbers]
        of_rows, of_sessions = is_row & counts, ~is_row & counts
        # a session had been issued if it had closed, or if one of those that are joined in it had
        over = ~is_row & ~open_until(last[clusters.order] + self.gap, clock)
        issued_before = np.logical_or.reduceat(over, clusters.starts) | ~open_until(clusters.last + self.gap, clock)
        corrected = int((of_rows & issued_before[clusters.numbers]).sum())
        parts = self.aggregates.of_groups(rows, _gathered(clusters, of_rows, held.height))
        chosen = np.flatnonzero(touched & ~closed)
        among = np.flatnonzero(of_sessions)
        replaced = take(held, clusters.order[among])
        if len(among):
            parts = combine(self._before(replaced, clusters.numbers[among], chosen), parts, self.aggregates.parts)
        whose = number[clusters.order[clusters.starts[chosen]]]
        end = clusters.last[chosen] + self.gap
        bounds = {FIRST: start[clusters.order[clusters.starts[chosen]]], LAST: clusters.last[chosen], END: end}
        issued = np.ones(len(chosen), np.bool_) if self.update else end <= clock.end
        columns = [series(name, values) for name, values in {**bounds, ISSUED: issued}.items()]
        changed = typed(frame_of([*take(wanted, whose), *columns, *parts]), self.tables["sessions"].schema)
        table.remove(replaced)
        return late, corrected, replaced, changed

    def _before(self, replaced: pl.DataFrame, cluster: Indexes, chosen: Indexes) -> pl.DataFrame:
        """The parts of stored sessions, added up for each of the chosen clusters; null where it has none."""
        groups = stretches(cluster)
        total = reduce_groups(replaced, groups, self.aggregates.parts)
        places = np.full(len(chosen), -1)
        places[np.searchsorted(chosen, cluster[groups.starts])] = np.arange(len(groups))
        return take_or_null(total, places)

    def _close(self, table: StateTable, clock: EpochClock) -> pl.DataFrame:
        """The stored sessions that the watermark passes in this epoch, as issued."""
        passed = table.scan(*closing(clock))
        if not passed.height:
            return passed
        open_ = keep(passed, ~true(passed.get_column(ISSUED)))
        return beside(open_, [constant(ISSUED, True, pl.Boolean(), open_.height)])

    def _kept(self, sessions: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Those that may still change."""
        return keep(sessions, numbers(sessions.get_column(END)) > clock.end - self.horizon)

    def _visible(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Sessions as they leave, by their start, those of one start in an order that does not depend on the state."""
        if sessions.height > 1:
            hashes = hash_columns(sessions, keys(self.by))
            sessions = take(sessions, lexicographic(numbers(sessions.get_column(FIRST)), hashes))
        return visible(sessions, self.by, self.aggregates.results(sessions, {}))


def _gathered(clusters: SpanClusters, members: Mask, before: int) -> KeyGroups:
    """The members of each cluster that has some, as groups; `before` spans come before the first of them."""
    places = np.flatnonzero(members)
    return KeyGroups(clusters.order[places] - before, stretches(clusters.numbers[places]).starts)
