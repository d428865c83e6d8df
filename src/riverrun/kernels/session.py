"""Session windows: rows of one key less than `gap` apart; `window_end` is the last row's time + `gap`.

A row can extend a session at either end and join two: then both are replaced by one. A session closes when the
watermark reaches its end. A row is late if it is older than the watermark by `gap` or more and touches no open session,
neither itself nor through other rows of its epoch; in other words, if the session it would belong to is closed already.

Where rows can be taken back, or an aggregate needs all values at once, rows are kept as they are until their session is
gone, so that a retraction can shrink or split it. Such a session grows with its rows; others (`merged_session`) do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.aggregates import Aggregates
from riverrun.kernels.difference import difference
from riverrun.kernels.kernel import MAX_TIME, Buckets, EpochClock, Step
from riverrun.kernels.lateness import accounted, open_until
from riverrun.kernels.merged_session import MergedSessions
from riverrun.kernels.retained import ARRIVAL, ORDER, as_they_came, cancelled, numbered, retained
from riverrun.kernels.session_spans import SPAN, apart, closing, visible
from riverrun.kernels.weights import signed
from riverrun.kernels.windows import WINDOW_END, WINDOW_START, extent, keys
from riverrun.state.equality import equijoin
from riverrun.state.frames import keep, numbers, pick, series
from riverrun.state.order import lengths
from riverrun.state.table import State, StateTable, TableSpec


@dataclass(frozen=True)
class SessionKernel:
    """Aggregates per session. `schema` has the columns `by` and those that are aggregated.

    `horizon` keeps closed sessions that much longer, open to correction; `aside` hands late rows on; `update` shows
    sessions that are still open.
    """

    by: tuple[str, ...]
    gap: int
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]
    horizon: int = 0
    aside: bool = False
    update: bool = False

    @cached_property
    def _merged(self) -> MergedSessions | None:
        """Who takes the step where a session is the sum of its parts, and its rows need not be kept."""
        if self.aggregates.retracts or self.aggregates.items:
            return None
        policy = self.horizon, self.aside, self.update
        return MergedSessions(self.by, self.gap, self.aggregates, self.schema, *policy)

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        if self._merged is not None:
            return self._merged.tables
        rows = retained(self.by, self.schema, {})
        key = {name: rows.schema[name] for name in self._key}
        results = {"_issued": pl.Boolean(), **self.aggregates.schema}
        sessions = TableSpec(
            {**key, **SPAN, **results}, identity=("_first",), probe=self._key, bucket="_end", route=self.by
        )
        return {"rows": rows, "sessions": sessions}

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        return {"sessions": closing(clock)}

    @property
    def _key(self) -> tuple[str, ...]:
        return keys(self.by)

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        if self._merged is not None:
            return self._merged.step(state, inputs, clock)
        sessions, rows = state["sessions"], state["rows"]
        arrived = numbered(inputs["in"], self.by, clock)
        added, retractions = signed(arrived)
        before = self._reachable(sessions, arrived)
        broken = self._take_away(rows, before, retractions)
        spans = self._clustered(self._spans(before, broken, added, rows))
        closed = ~open_until(numbers(spans.get_column("_end")), clock, self.horizon)
        late = added.join(keep(spans, closed), on=ARRIVAL, how="semi")
        if len(late):
            spans = self._clustered(spans.join(late, on=ARRIVAL, how="anti"))
        rows.put(added.join(late, on=ARRIVAL, how="anti"))

        touched = spans.filter("_touched")
        joined = touched.filter(pl.col(ARRIVAL).is_null()).select(*self._key, pl.col("_from").alias("_first"))
        replaced = pl.concat([broken, self._among(before, joined)])
        changed = touched.select(*self._key, *SPAN).unique(maintain_order=True)
        sessions.remove(replaced)
        sessions.put(self._unissued(changed))

        results = self._close(sessions, rows, changed, clock)
        changes = difference(
            self._visible(replaced.filter(pl.col("_issued"))),
            self._visible(results),
            [*self.by, WINDOW_START, WINDOW_END],
        )
        corrected = self._count_corrected(spans, added, clock) if self.horizon else 0
        return accounted(changes, inputs["in"], as_they_came(inputs["in"], late, clock), clock, self.aside, corrected)

    def _count_corrected(self, spans: pl.DataFrame, added: pl.DataFrame, clock: EpochClock) -> int:
        """How many of the added rows are in a session that had closed, or that joins one that had."""
        before = pl.col(ARRIVAL).is_null() & (pl.col("_to") + self.gap <= clock.start)
        closed = spans.filter((pl.col("_end") <= clock.start) | before)
        return added.join(self._among(spans, closed), on=ARRIVAL, how="semi").height

    def _reachable(self, sessions: StateTable, arrived: pl.DataFrame) -> pl.DataFrame:
        """The sessions of the arrived keys that an arrived row can touch, and later ones."""
        lo, _ = extent(arrived[TIME])
        return sessions.probe_range(arrived.select(self._key).unique(maintain_order=True), lo + 1, MAX_TIME)[0]

    def _take_away(self, rows: StateTable, before: pl.DataFrame, retractions: pl.DataFrame) -> pl.DataFrame:
        """Removes retracted rows; gives the sessions of their keys, whose bounds must be found anew."""
        if retractions.is_empty():
            return before.clear()
        lo, hi = extent(retractions[TIME])
        held = rows.probe_range(retractions.select(self._key).unique(maintain_order=True), lo, hi)[0]
        gone = cancelled(held, retractions, list(self.schema))
        rows.remove(gone)
        return self._among(before, gone, self._key)

    def _spans(self, before: pl.DataFrame, broken: pl.DataFrame, added: pl.DataFrame, rows: StateTable) -> pl.DataFrame:
        """Everything that sessions are made of: whole sessions, and single rows (with their `_arrival`)."""
        on = [*self._key, "_first"]
        whole = equijoin(before, broken, on, "anti")
        single = pl.concat(
            [self._members(rows, broken).select(*self._key, TIME, ARRIVAL), added.select(*self._key, TIME, ARRIVAL)]
        )
        return pl.concat(
            [
                whole.select(*self._key, pl.lit(None, pl.Int64).alias(ARRIVAL), _from="_first", _to="_last"),
                single.select(*self._key, ARRIVAL, _from=TIME, _to=TIME),
            ]
        )

    def _clustered(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Each span with the session it belongs to: spans of a key less than `gap` apart, directly or by others.

        `_touched`: there are single rows in it.
        """
        key = list(self._key)
        numbers = spans.select(key).unique(maintain_order=True).with_row_index("_number")
        numbered = equijoin(spans.select(*key, ARRIVAL, "_from", "_to"), numbers, key)
        ordered = numbered.sort("_number", "_from", "_to", ARRIVAL)
        number, start, end = (ordered[name].to_numpy().astype(np.int64) for name in ("_number", "_from", "_to"))
        first = np.flatnonzero(apart(number, start, end, self.gap))
        sizes = lengths(first, len(ordered))
        single = ordered[ARRIVAL].is_not_null().to_numpy()
        last = np.maximum.reduceat(end, first) if len(first) else end
        touched = np.logical_or.reduceat(single, first) if len(first) else single
        bounds = {"_first": start[first], "_last": last, "_end": last + self.gap, "_touched": touched}
        return ordered.with_columns(series(name, np.repeat(values, sizes)) for name, values in bounds.items())

    def _close(self, sessions: StateTable, rows: StateTable, changed: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Results of the sessions to show now, remembered while they may change; forgets what can change no more."""
        span = [*self._key, *SPAN]
        over = clock.end - self.horizon
        passed = sessions.scan(*closing(clock)).filter(~pl.col("_issued"))
        shown = changed if self.update else changed.filter(pl.col("_end") <= clock.end)
        due = pl.concat([shown, passed.select(span)]).unique(maintain_order=True)
        gone = pl.concat([changed.filter(pl.col("_end") <= over), sessions.scan(hi=over + 1).select(span)])
        members = self._members(rows, pl.concat([due, gone]).unique(maintain_order=True))
        results = replace(self.aggregates, retracts=False).over(self._among(members, due), span)
        results = results.with_columns(pl.lit(True).alias("_issued"))
        rows.remove(self._among(members, gone))
        sessions.put(results.filter(pl.col("_end") > over))
        sessions.release(over + 1)
        return results

    def _members(self, rows: StateTable, sessions: pl.DataFrame) -> pl.DataFrame:
        """The rows of the given sessions, in order, with the bounds of their session."""
        numbers = sessions.select(self._key).unique(maintain_order=True).with_row_index("_number")
        lo, _ = extent(sessions["_first"])
        _, hi = extent(sessions["_last"])
        found = rows.probe_range(numbers.select(self._key), lo, hi)[0]
        bounds = equijoin(sessions, numbers, self._key).select("_number", *SPAN).sort("_first")
        return (
            equijoin(found, numbers, self._key)
            .sort(ORDER)
            .join_asof(bounds, left_on=TIME, right_on="_first", by="_number", check_sortedness=False, coalesce=False)
            .filter(pl.col(TIME) <= pl.col("_last"))
        )

    def _among(self, rows: pl.DataFrame, chosen: pl.DataFrame, on: tuple[str, ...] = ()) -> pl.DataFrame:
        return equijoin(rows, chosen, on or (*self._key, "_first"), "semi")

    def _unissued(self, spans: pl.DataFrame) -> pl.DataFrame:
        nothing = [pl.lit(None, kind).alias(name) for name, kind in self.aggregates.schema.items()]
        return spans.with_columns(pl.lit(False).alias("_issued"), *nothing)

    def _visible(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return visible(sessions, self.by, pick(sessions, self.aggregates.schema))
