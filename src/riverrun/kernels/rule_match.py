"""`s.match_rules(rules, by)`: many patterns at once, each a row of a table, over the rows of each key in the order of time.

Rows wait until the watermark is past them; then all rules that are in force look at them. A rule that comes or changes in an
epoch counts for the rows that its watermark passes from that epoch on, and for none before; what a rule had begun when it
changed or went is forgotten. Rows are kept once for all rules, as long as an attempt of any of them needs them.

Each rule goes on at its own place in each key. Most of these are not written down: an attempt that has only its first row, the
last one of its key, is found again by looking at that row. What is written down are attempts that have come further, and
last rows that must not be looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import MAX_TIME, Counts, EpochClock, Step
from riverrun.kernels.lateness import in_time, missed
from riverrun.kernels.matching import ID, KeptRows
from riverrun.kernels.rule_hits import Hits
from riverrun.kernels.rule_places import ALONE, PlaceEntries, Places
from riverrun.kernels.rulebook import OFF, ActiveRule, Rulebook, RuleLimits
from riverrun.kernels.weights import refuse_retractions, weighted
from riverrun.rules.columns import AskedColumns
from riverrun.rules.faults import FAULTS, fault_of
from riverrun.rules.matches import RuleMatches
from riverrun.rules.rule import Rule
from riverrun.rules.search import EpochRows, RuleFound, Searched, Starts, search_rule
from riverrun.state.frames import Mask, beside, constant, keep, numbers, pick, stack, take, typed
from riverrun.state.keys import first_of_each, number_keys
from riverrun.state.order import inverse, lexicographic
from riverrun.state.table import State, TableSpec

_ORDER = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}
_ALL = "_all"  # the key of rows that have none


@dataclass(frozen=True)
class RuleMatchKernel:
    """Rows of "left", by the columns `by`, and the rules of the table whose weighted changes are "right"."""

    by: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    rules: Rulebook
    limits: RuleLimits = field(default_factory=RuleLimits)
    aside: bool = False

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        columns, by, waiting = dict(self._columns), tuple(self._key), self._waiting.spec
        return {
            "rules": self.rules.spec,
            "waiting": TableSpec(waiting.schema, identity=ID, probe=by, bucket=waiting.bucket, route=()),
            "rows": TableSpec(columns, identity=ID, probe=by, route=()),
            "places": self._places.spec,
        }

    @cached_property
    def _key(self) -> Mapping[str, pl.DataType]:
        return {name: self.schema[name] for name in self.by} or {_ALL: pl.Int8()}

    @cached_property
    def _columns(self) -> Mapping[str, pl.DataType]:
        return {**self.schema, **self._key, **_ORDER}

    @cached_property
    def _waiting(self) -> KeptRows:
        return KeptRows(pl.Schema(self._columns), tuple(self._key), 0)

    @cached_property
    def _places(self) -> Places:
        return Places(self._key)

    @cached_property
    def _hits(self) -> Hits:
        return Hits({name: self.schema[name] for name in self.by})

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, changes = inputs["left"], inputs["right"]
        refuse_retractions(arrived, "match_rules")
        bad = self.rules.update(state, changes, clock)
        timely = in_time(numbers(arrived.get_column(TIME)), clock)
        late, unread, given_up = keep(arrived, ~timely), len(bad), 0
        hits = self._hits.none
        due = self._due(state, keep(arrived, timely), clock)
        keys = first_of_each(stack([pick(due, self._key), self._places.due(state["places"], clock)]), list(self._key))
        if keys.height:
            epoch = _Epoch(self, state, due, keys, clock)
            hits, bad = epoch.search(), stack([bad, pick(epoch.told(), bad.columns)])
            given_up = epoch.given_up
        counts = Counts(
            read=len(arrived),
            accepted=len(arrived) - len(late),
            late_dropped=0 if self.aside else len(late),
            late_aside=len(late) if self.aside else 0,
            given_up=given_up,
        )
        return Step(
            weighted(hits, 1),
            {"left": counts, "right": Counts(read=len(changes), accepted=len(changes) - unread, quarantined=unread)},
            late={"left": missed(late, clock)} if self.aside else {},
            quarantined={"right": bad},
        )

    def _due(self, state: State, arrived: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """The rows that the watermark has passed now; the others wait."""
        if not self.by:
            arrived = beside(arrived, [constant(_ALL, 0, pl.Int8(), arrived.height)])
        fresh, waiting = typed(arrived, self._columns), self._waiting
        passed = numbers(fresh.get_column(TIME)) < clock.end
        due = stack([waiting.scan(state["waiting"], clock.start, clock.end), keep(fresh, passed)])
        waiting.update(state["waiting"], fresh.clear(), keep(fresh, ~passed), clock.end)
        return due


class _Epoch:
    """One epoch: the rows of the keys in question, what each rule finds in them, and what is kept."""

    def __init__(
        self, kernel: RuleMatchKernel, state: State, due: pl.DataFrame, keys: pl.DataFrame, clock: EpochClock
    ) -> None:
        self._kernel = kernel
        self._state = state
        self._clock = clock
        self._came = len(due)
        self._kept = typed(state["rows"].probe(keys)[0], kernel._columns)
        self._rows, self._keys = _together(due, self._kept, keys)
        stored, key = kernel._places.of(state["places"], self._keys)
        self._stored = stored
        self._before = kernel._places.entries(stored, key, self._rows)
        self._needed = self._rows.high.copy()  # from which row on the rows of each key are kept
        self._last = np.zeros(len(self._rows.low), np.bool_)  # where an attempt has only the last row of the key
        self._after: list[PlaceEntries] = []
        self._told: list[tuple[dict[str, Any], str]] = []  # rows of rules, and what is wrong with them
        self.given_up = 0

    def search(self) -> pl.DataFrame:
        """Run all rules, and put into state what is needed to go on; gives the matches."""
        kernel, rows, clock = self._kernel, self._rows, self._clock
        rules, lost = kernel.rules.active(self._state)
        self._told += [(row, row[OFF]) for row in lost]
        used = [name for active in rules for name in (*active.rule.reads, *active.rule.measures.reads)]
        shared = kernel.rules.compiled(self._state).columns
        columns = AskedColumns(shared, used, rows.frame, rows.time)
        lookback = max((active.rule.lookback for active in rules), default=0)
        starts = Starts(rows, shared, used, lookback)
        budget = kernel.limits.budget(self._came)
        epoch = Searched(rows, starts, columns, min(clock.end, MAX_TIME), clock.end >= MAX_TIME, budget)
        hits: list[tuple[ActiveRule, RuleMatches]] = []
        before, none = self._before.by_rule(), PlaceEntries.joined([])
        changed = []
        for active in rules:
            known = before.get(active.number, none)
            try:
                found = search_rule(active.rule, active.since, known.open, epoch)
            except FAULTS as error:
                self._switch_off(active, fault_of(error))
                changed.append(active)
                continue
            if found is None:
                self._after.append(self._resting(known))
                continue
            if found.matches.count:
                hits.append((active, found.matches))
            entries = self._opened(active, found)
            opened = int((~entries.beyond).sum()) - int((~known.beyond).sum())
            looked = int((rows.high[found.key] - found.begin).sum())
            active.note(found.matches.count, opened, active.rule.work(found.steps, looked, found.matches.count))
            if (wrong := active.exceeded(kernel.limits, budget, found.steps)) is not None:
                self._switch_off(active, wrong)
            else:
                self._need(active.rule, found)
                self._after.append(entries)
            if found.misplaced:
                where = f"{found.misplaced} matches say to go on where they began, or nowhere"
                self._told.append((active.row, where))
            self.given_up += found.given_up
            changed.append(active)
        made = self._rows_of(hits, columns)
        kernel.rules.store(self._state, [*(active.row for active in changed), *lost])
        self._store(lookback)
        return made

    def _switch_off(self, active: ActiveRule, why: str) -> None:
        why = f"switched off: {why}"
        active.switch_off(why)
        self._told.append((active.row, why))

    def _rows_of(self, hits: list[tuple[ActiveRule, RuleMatches]], columns: AskedColumns) -> pl.DataFrame:
        """The matches as rows, without those of rules whose measures cannot be computed."""
        kernel, rows = self._kernel, self._rows
        try:
            return kernel._hits.of([(active.rule, found) for active, found in hits], rows, columns)
        except FAULTS:
            computed = []
            for active, found in hits:
                try:
                    kernel._hits.of([(active.rule, found)], rows, columns)
                except FAULTS as error:
                    self._switch_off(active, fault_of(error))
                    active.note(-found.count, 0, 0)
                else:
                    computed.append((active.rule, found))
        return kernel._hits.of(computed, rows, columns)

    def told(self) -> pl.DataFrame:
        """The rules that something is wrong with, and what."""
        rules, errors = [row for row, _ in self._told], [error for _, error in self._told]
        return self._kernel.rules.told(rules, errors, self._clock.received)

    def _opened(self, active: ActiveRule, found: RuleFound) -> PlaceEntries:
        """The places of a rule that have to be written down."""
        rows, high = self._rows, self._rows.high[found.key]
        is_open = found.next < high
        alone = is_open & (found.next == high - 1) & active.rule.needs_rows
        closed = ~is_open & found.ended & active.rule.needs_rows
        written = (is_open & ~alone) | closed
        row = np.where(closed, high - 1, found.next)[written]
        number = np.full(len(row), active.number)
        wake = rows.time[row] + active.rule.within
        return PlaceEntries(found.key[written], number, row, closed[written], wake)

    def _need(self, rule: Rule, found: RuleFound) -> None:
        high = self._rows.high[found.key]
        is_open = found.next < high
        key, row = found.key[is_open], found.next[is_open]
        self._needed[key] = np.minimum(self._needed[key], row - rule.lookback)
        if rule.needs_rows:
            self._last[key[row == high[is_open] - 1]] = True

    def _resting(self, known: PlaceEntries) -> PlaceEntries:
        """Places that nothing happened at: last rows that must not be looked at again, until their time is over."""
        quiet = self._rows.fresh[known.key] == self._rows.high[known.key]
        return known.where(quiet & (known.wake >= self._clock.end))

    def _store(self, lookback: int) -> None:
        kernel, rows, state = self._kernel, self._rows, self._state
        needed = np.maximum(np.minimum(self._needed, rows.high - lookback), rows.low)
        keeps: Mask = np.arange(len(rows.time)) >= needed[rows.key]
        fresh = rows.came
        state["rows"].remove(keep(rows.frame, ~keeps & ~fresh))
        state["rows"].put(keep(rows.frame, keeps & fresh))
        last = np.flatnonzero(self._last)
        row = rows.high[last] - 1
        alone = PlaceEntries(
            key=last,
            rule=np.full(len(last), ALONE),
            row=row,
            beyond=np.zeros(len(last), np.bool_),
            wake=rows.time[row] + kernel.rules.reader.within,
        )
        entries = PlaceEntries.joined([*self._after, alone])
        kernel._places.store(state["places"], self._stored, entries.where(keeps[entries.row]), self._keys, rows)


def _together(due: pl.DataFrame, kept: pl.DataFrame, keys: pl.DataFrame) -> tuple[EpochRows, pl.DataFrame]:
    """The rows of all keys, key by key and in order; and the keys, by their number."""
    rows = stack([kept, due])
    fresh = np.arange(len(rows)) >= len(kept)
    names = keys.columns
    (number, of_key), count = number_keys(pick(rows, names), keys)
    order = lexicographic(number, *(numbers(rows.get_column(name)) for name in _ORDER))
    counts = np.bincount(number, minlength=count)
    high = np.cumsum(counts)
    low = high - counts
    old = np.bincount(number[~fresh], minlength=count)
    frame = take(rows, order)
    ordered = EpochRows(frame, np.ascontiguousarray(numbers(frame.get_column(TIME))), low, low + old, high)
    return ordered, take(keys, inverse(of_key))
