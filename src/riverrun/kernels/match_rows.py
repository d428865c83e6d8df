"""The rows that matching keeps: those that wait for the watermark, and those of open attempts.

A row that is kept says whether matching has passed it (`_done`), and where matching stood at it, the last time that counted
for the outcome (`_until`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, Buckets, EpochClock
from riverrun.kernels.matching import ID
from riverrun.kernels.watermark import delayed
from riverrun.kernels.windows import ALL, extent, keys
from riverrun.patterns.tables import Found, Sequences
from riverrun.state.frames import (
    Kinds,
    beside,
    constant,
    filled,
    keep,
    null_unless,
    numbers,
    pick,
    series,
    stack,
    take,
    typed,
)
from riverrun.state.keys import equal_to_any, first_of_each, group_rows
from riverrun.state.order import Indexes, lexicographic
from riverrun.state.table import State, StateTable, TableSpec

DONE, UNTIL, WAKE, SINCE = "_done", "_until", "_wake", "_since"
_NEVER = -(1 << 62)
_SECOND = 1_000_000
_AGES = (30 * 86_400 * _SECOND, 86_400 * _SECOND, 3_600 * _SECOND, 60 * _SECOND, _SECOND)


def marked_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that matching has not come to."""
    height = rows.height
    return beside(rows, [constant(DONE, False, pl.Boolean(), height), constant(UNTIL, None, pl.Int64(), height)])


@dataclass(frozen=True)
class KeyRows:
    """Rows in the order of their sequences, which stand one after the other."""

    frame: pl.DataFrame
    starts: Indexes
    behind: Indexes
    begin: Indexes

    @classmethod
    def of(cls, rows: pl.DataFrame, key: tuple[str, ...]) -> KeyRows:
        """Rows by key; matching goes on at the first of each that it has not passed."""
        number = group_rows(rows, key).numbers
        columns = [numbers(rows.get_column(name)).astype(np.int64) for name in (TIME, PARTITION, OFFSET)]
        order = lexicographic(number, *columns)
        frame, number = take(rows, order), number[order]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        behind = np.append(starts[1:], len(number)).astype(np.int64)
        opened = np.append(np.where(numbers(frame.get_column(DONE)), len(number), np.arange(len(number))), len(number))
        begin = np.minimum(np.minimum.reduceat(opened, starts), behind) if len(starts) else starts
        return cls(frame, starts.astype(np.int64), behind, begin.astype(np.int64))

    @property
    def sequences(self) -> Sequences:
        return Sequences(self.starts, self.begin, self.behind)


@dataclass(frozen=True)
class MatchState:
    """The tables of a match by the columns `by`, of rows with these `columns`; `lookback` rows before an attempt are kept.

    `within` is how long a match may take. Without it there is a table of what is open: the time of the first row of each key
    whose outcome is not final.
    """

    by: tuple[str, ...]
    columns: Kinds
    lookback: int
    within: int | None

    @cached_property
    def _key(self) -> Mapping[str, pl.DataType]:
        return {name: self._kinds[name] for name in keys(self.by)}

    @cached_property
    def _kinds(self) -> dict[str, pl.DataType]:
        return {**self.columns, **({} if self.by else {ALL: pl.Int8()})}

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        key, route = tuple(self._key), self.by
        marks = {DONE: pl.Boolean(), UNTIL: pl.Int64()}
        opened = TableSpec({**self._key, SINCE: pl.Int64()}, identity=(), probe=key, bucket=SINCE, route=route)
        return {
            **({"open": opened} if self.within is None else {}),
            "waiting": TableSpec(self._kinds, identity=ID, probe=key, bucket=TIME, route=route),
            "rows": TableSpec({**self._kinds, **marks}, identity=ID, probe=key, route=route),
            "wakes": TableSpec({**self._key, WAKE: pl.Int64()}, identity=(), probe=key, bucket=WAKE, route=route),
        }

    def typed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The columns that are kept of rows."""
        return typed(rows, self._kinds)

    def take_back(
        self, state: State, fresh: pl.DataFrame, gone: pl.DataFrame, clock: EpochClock
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows that had been matched and are taken back, and rows that come; those that waited are gone."""
        if not gone.height:
            return gone, fresh
        columns = list(self._kinds)
        asked = first_of_each(pick(gone, self._key), list(self._key))
        waiting = state["waiting"].probe_range(asked, *extent(gone.get_column(TIME)))[0]
        matched = state["rows"].probe(asked)[0]
        waited = keep(waiting, equal_to_any(waiting, gone, ID))
        taken = self.typed(keep(matched, equal_to_any(matched, gone, ID)))
        stays = equal_to_any(taken, fresh, columns)  # it comes again as it was
        unheard = keep(gone, ~equal_to_any(gone, stack([self.typed(waited), taken]), ID))
        fresh = keep(fresh, ~equal_to_any(fresh, stack([keep(taken, stays), unheard]), columns))
        if waited.height:
            state["waiting"].remove(waited)
        return keep(taken, ~stays), fresh

    def due(self, state: State, fresh: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """The rows that the watermark has passed; others wait."""
        passed = numbers(fresh.get_column(TIME)) < clock.end
        table = state["waiting"]
        rows = stack([keep(fresh, passed), self.typed(table.scan(hi=clock.end))])
        if not passed.all():
            table.put(keep(fresh, ~passed))
        table.release(clock.end)
        return rows

    def passed(self, clock: EpochClock) -> dict[str, Buckets]:
        """What waits for a time that is over: rows, keys, and, in the end, all that is open."""
        before = (MIN_TIME, clock.end)
        at_the_end = {"open": before} if self._ends(clock) else {}
        return {"waiting": before, "wakes": before, **at_the_end}

    def _ends(self, clock: EpochClock) -> bool:
        """Without a deadline, only the end of the input decides."""
        return self.within is None and clock.end == MAX_TIME

    def woken(self, state: State, clock: EpochClock) -> pl.DataFrame:
        """The keys for which a time is over."""
        found = state["wakes"].scan(hi=clock.end)
        state["wakes"].release(clock.end)
        if self._ends(clock):
            return stack([pick(found, self._key), pick(state["open"].scan(), self._key)])
        return found

    def watermark(self, state: State, horizon: int, clock: EpochClock) -> int | None:
        """The time before which no result of a later epoch will be, where it is not known from `within`."""
        if self.within is not None:
            return None
        table = state["open"]
        watermark = min(_oldest(table, clock), delayed(clock.end, horizon))
        table.release(watermark)
        return watermark

    def held(self, state: State, asked: pl.DataFrame) -> pl.DataFrame:
        """The rows of these keys that are kept; what is open among them will be known when they are matched."""
        if self.within is None:
            state["open"].remove(state["open"].probe_range(asked, MIN_TIME, MAX_TIME)[0])
        return pick(state["rows"].probe(asked)[0], self.tables["rows"].schema)

    def reopened(self, held: pl.DataFrame, changed: pl.DataFrame) -> pl.DataFrame:
        """Rows as if matching had stopped before the first outcome that a changed row can have changed."""
        key = list(self._key)
        both = stack([pick(held, [*key, TIME]), pick(changed, [*key, TIME])])
        groups = group_rows(both, key)
        number, time = groups.numbers, numbers(both.get_column(TIME))
        first = np.full(len(groups), MAX_TIME)
        np.minimum.at(first, number[held.height :], time[held.height :])
        until = filled(held.get_column(UNTIL), _NEVER)
        mine = number[: held.height]
        affected = (until >= first[mine]) & (until != _NEVER)
        rows = beside(held, [series("_affected", affected), series("_number", mine)])
        ordered = rows.sort("_number", TIME, PARTITION, OFFSET)
        since = ordered.select(pl.col("_affected").cum_max().over("_number")).to_series()
        done = numbers(ordered.get_column(DONE)) & ~numbers(since)
        return pick(beside(ordered, [series(DONE, done)]), held.columns)

    def remember(
        self,
        state: State,
        rows: KeyRows,
        found: Found,
        taken: pl.DataFrame,
        horizon: int,
        clock: EpochClock,
    ) -> None:
        """Keeps what later rows may need, lets go of the rest, and says when to come back."""
        frame, place = rows.frame, np.arange(rows.frame.height)
        key = np.repeat(np.arange(len(rows.starts)), rows.behind - rows.starts)
        ran = place >= rows.begin[key]
        done = place < found.next[key]
        until = np.where(ran, found.until, filled(frame.get_column(UNTIL), _NEVER))
        since = found.next.copy()
        if horizon:  # outcomes that a late row can still change
            matters = np.where((until >= clock.end - horizon) & (until != _NEVER), place, len(place))
            since = np.minimum(since, np.minimum.reduceat(np.append(matters, len(place)), rows.starts))
        kept = place >= (since - self.lookback)[key]
        table = state["rows"]
        _remove_rows(table, self._stored(frame, ~kept), taken)
        changed = (done != numbers(frame.get_column(DONE))) | ran
        put = beside(frame, [series(DONE, done), null_unless(series(UNTIL, until), until != _NEVER)])
        table.put(self._stored(put, kept & changed))
        self._wake(state["wakes"], rows, found, until, since, horizon)
        opened = since < rows.behind
        if self.within is None and opened.any():
            first = take(pick(frame, self._key), rows.starts[opened])
            time = numbers(frame.get_column(TIME))[since[opened]]
            state["open"].put(beside(first, [series(SINCE, time)]))

    def _stored(self, frame: pl.DataFrame, mask: np.ndarray) -> pl.DataFrame:
        return pick(keep(frame, mask), self.tables["rows"].schema)

    def _wake(
        self,
        table: StateTable,
        rows: KeyRows,
        found: Found,
        until: Indexes,
        since: Indexes,
        horizon: int,
    ) -> None:
        """Notes after which time the passing of time alone decides something of a key, or lets go of its rows."""
        wake = np.full(len(rows.starts), MAX_TIME)
        time = numbers(rows.frame.get_column(TIME))
        if self.within is not None:
            opened = found.next < rows.behind
            wake[opened] = time[found.next[opened]] + self.within
        if horizon:
            decided = since < found.next
            wake[decided] = np.minimum(wake[decided], until[since[decided]] + horizon)
        due = wake < MAX_TIME
        if due.any():
            first = take(pick(rows.frame, self._key), rows.starts[due])
            table.put(beside(first, [series(WAKE, wake[due])]))


def _oldest(opened: StateTable, clock: EpochClock) -> int:
    """Since when something is open. Few are open for long, so those are looked for first."""
    for age in (*_AGES, 0):
        found = opened.scan(hi=delayed(clock.end, age))
        if found.height:
            return extent(found.get_column(SINCE))[0]
    return clock.end


def _remove_rows(table: StateTable, gone: pl.DataFrame, taken: pl.DataFrame) -> None:
    for rows in (gone, taken):
        if rows.height:
            table.remove(rows)
