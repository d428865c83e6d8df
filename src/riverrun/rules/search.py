"""All rules over the rows of an epoch: one rule after the other, each over the sequences that can bring it something.

A sequence is searched by a rule where an attempt of it is open, or where a row that came can be the first of a match. Most
rules look at few rows of an epoch, so that a thousand of them cost little more than asking each row what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.patterns.tables import Found, Outcome, Sequences, Whole
from riverrun.rules.columns import AskedColumns, RuleColumns
from riverrun.rules.matches import RuleMatches
from riverrun.rules.rule import Rule
from riverrun.state.frames import Mask, frame_of, series, take
from riverrun.state.order import written_out


@dataclass(frozen=True)
class EpochRows:
    """The rows of the keys in question, key by key, each in order. `low` and `high` say where each key's begin and end,
    `fresh` where those begin that were not there before."""

    frame: pl.DataFrame
    time: Whole
    low: Whole
    fresh: Whole
    high: Whole

    @cached_property
    def key(self) -> Whole:
        """The number of each row's key."""
        return np.repeat(np.arange(len(self.low)), self.high - self.low)

    @cached_property
    def came(self) -> Mask:
        """The rows that came."""
        return np.arange(len(self.time)) >= self.fresh[self.key]

    @cached_property
    def oldest(self) -> int:
        """The time of the first row."""
        return int(self.time.min()) if len(self.time) else 0

    def lows(self, since: int) -> Whole:
        """The first row of each key for a rule that counts since a moment."""
        if since <= self.oldest:
            return self.low
        before = np.concatenate([[0], np.cumsum(self.time < since)])
        lows: Whole = self.low + (before[self.high] - before[self.low])
        return lows


class Starts:
    """Where rules can begin: the rows that came, and the last one of each key before them, at which an attempt may be open
    that nobody has written down. Before these stand as many rows as rules look back at."""

    def __init__(self, rows: EpochRows, columns: RuleColumns, used: Iterable[str], lookback: int) -> None:
        self._rows = rows
        self._begin = np.maximum(rows.fresh - 1 - lookback, rows.low)
        lengths = rows.high - self._begin
        self._key, self._places = written_out(self._begin, lengths)
        self._high = np.cumsum(lengths)
        self._low = self._high - lengths
        self._columns = AskedColumns(columns, used, take(rows.frame, self._places), rows.time[self._places])
        self._candidates = self._places >= rows.fresh[self._key] - 1
        self._came = self._places >= rows.fresh[self._key]
        self._sequences: dict[int, tuple[Sequences, Whole]] = {}

    def of(self, rule: Rule, since: int) -> tuple[Whole, Whole]:
        """The rows that can be the first of a match, and the numbers of their keys."""
        sequences, lows = self._since(since)
        where = self._candidates if rule.needs_rows else self._came
        if rule.starts is not None:
            starts = self._columns.truth(rule.starts[0], sequences, since)
            for name in rule.starts[1:]:
                starts = starts | self._columns.truth(name, sequences, since)
            where = where & starts
        found = np.flatnonzero(where)
        rows, key = self._places[found], self._key[found]
        if since > self._rows.oldest:  # rows before the rule was there are none of its own
            own = rows >= lows[key]
            rows, key = rows[own], key[own]
        return rows, key

    def lows(self, since: int) -> Whole:
        """The first row of each key for a rule that counts since a moment."""
        return self._since(since)[1]

    def _since(self, since: int) -> tuple[Sequences, Whole]:
        known = self._sequences.get(since)
        if known is None:
            lows = self._rows.lows(since)
            first = np.minimum(self._low + np.maximum(lows - self._begin, 0), self._high)
            known = self._sequences[since] = (Sequences(first, first, self._high), lows)
        return known


@dataclass(frozen=True)
class OpenPlaces:
    """Where a rule goes on in some keys: at a row, or, where it is `beyond`, after it."""

    key: Whole
    row: Whole
    beyond: Mask

    @classmethod
    def none(cls) -> OpenPlaces:
        """Nowhere."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, np.empty(0, np.bool_))


@dataclass(frozen=True)
class RuleFound:
    """What a rule came to: matches; for each key it searched, from where and where it goes on; and how many matches cannot
    say where it does, how many attempts were given up, how many steps it took."""

    matches: RuleMatches
    key: Whole
    begin: Whole
    next: Whole
    ended: Mask  # something in the key came to an end in a way that must not be looked at again
    misplaced: int
    given_up: int
    steps: int


@dataclass(frozen=True)
class _Part:
    """The rows that one rule looks at: for each key the first of them and where it stands, and the first row that it could
    see."""

    low: Whole
    first: Whole
    chosen: Whole
    visible: Whole


@dataclass(frozen=True)
class Searched:
    """What is searched in an epoch: its rows, where rules can begin, what is asked of rows, the watermark, whether the input
    has ended, and the steps that one rule may take."""

    rows: EpochRows
    starts: Starts
    columns: AskedColumns
    watermark: int
    ended: bool
    budget: int


def search_rule(rule: Rule, since: int, places: OpenPlaces, epoch: Searched) -> RuleFound | None:
    """One rule over the rows of an epoch; None where there is nothing for it."""
    rows, columns, matcher = epoch.rows, epoch.columns, rule.matcher
    since = max(since, rows.oldest)
    key, begin = _begins(rule, since, places, epoch)
    if not len(key):
        return None
    visible = epoch.starts.lows(since)[key]
    low, high = np.maximum(visible, begin - rule.lookback), rows.high[key]
    lengths = high - low
    _, chosen = written_out(low, lengths)
    behind = np.cumsum(lengths)
    first = behind - lengths
    sequences = Sequences(first, first + (begin - low), behind)
    named = []
    for name in matcher.reads:
        if name in columns.truths:
            named.append(series(name, columns.truth_at(name, chosen, sequences)))
        else:
            named.append(take(frame_of([columns.values(name).alias(name)]), chosen).to_series())
    frame = frame_of(named) if named else pl.DataFrame(height=len(chosen))
    found = matcher.find(frame, rows.time[chosen], sequences, epoch.watermark, epoch.ended, epoch.budget)
    return _found(rule, found, key, begin, _Part(low, first, chosen, visible))


def _begins(rule: Rule, since: int, places: OpenPlaces, epoch: Searched) -> tuple[Whole, Whole]:
    """The keys to search, and the row of each where matching begins."""
    found, owner = epoch.starts.of(rule, since)
    if not len(places.key):
        firsts = _firsts(owner)
        return owner[firsts], found[firsts]
    known = np.full(len(epoch.rows.low), -1)
    known[places.key] = places.row + places.beyond
    counts = found >= known[owner]  # those before the place where it stopped are over
    found, owner = found[counts], owner[counts]
    firsts = _firsts(owner)
    begin = np.full(len(known), -1)
    begin[owner[firsts]] = found[firsts]
    stays = ~places.beyond
    begin[places.key[stays]] = places.row[stays]
    key = np.flatnonzero(begin >= 0)
    return key, begin[key]


def _firsts(owner: Whole) -> Mask:
    firsts = np.ones(len(owner), np.bool_)
    np.not_equal(owner[1:], owner[:-1], out=firsts[1:])
    return firsts


def _found(rule: Rule, found: Found, key: Whole, begin: Whole, part: _Part) -> RuleFound:
    """What was found, in rows of the epoch."""
    number = np.searchsorted(part.first, found.start, side="right") - 1
    is_match = found.outcome == Outcome.MATCH
    ended = np.zeros(len(key), np.bool_)
    ended[number] = True
    ended[np.searchsorted(part.first, found.given_up, side="right") - 1] = True
    lengths = np.diff(found.first)[is_match]
    _, entries = written_out(found.first[:-1][is_match], lengths)
    matches = RuleMatches(
        names=rule.matcher.automaton.names,
        first=np.concatenate([[0], np.cumsum(lengths)]),
        rows=part.chosen[found.rows[entries]],
        variables=found.variables[entries],
        low=part.visible[number[is_match]],
    )
    return RuleFound(
        matches=matches,
        key=key,
        begin=begin,
        next=found.next - part.first + part.low,
        ended=ended,
        misplaced=int((found.outcome == Outcome.MISPLACED).sum()),
        given_up=len(found.given_up),
        steps=int(found.steps),
    )
