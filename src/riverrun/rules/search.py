"""All rules over the rows of an epoch: one rule after the other, each over the sequences that can bring it something.

A sequence is searched by a rule where an attempt of it is open, or where a row that came can be the first of a match. Most
rules look at few rows of an epoch, so that a thousand of them cost little more than asking each row what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.patterns.tables import Found, Outcome, Sequences, Whole
from riverrun.rules.columns import AskedColumns
from riverrun.rules.measures import MatchedRows
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
    _lows: dict[int, Sequences] = field(default_factory=dict)

    @cached_property
    def key(self) -> Whole:
        """The number of each row's key."""
        return np.repeat(np.arange(len(self.low)), self.high - self.low)

    @cached_property
    def oldest(self) -> int:
        return int(self.time.min()) if len(self.time) else 0

    @cached_property
    def candidates(self) -> Mask:
        """The rows that came, and the last one before them: where an attempt may be open that nobody has written down."""
        rows = np.arange(len(self.time))
        return rows >= (self.fresh - 1)[self.key]

    @cached_property
    def came(self) -> Mask:
        """The rows that came."""
        rows = np.arange(len(self.time))
        return rows >= self.fresh[self.key]

    def since(self, moment: int) -> Sequences:
        """The sequences of a rule that counts since a moment: rows before it are none."""
        known = self._lows.get(moment)
        if known is None:
            low = self.low
            if moment > self.oldest:
                before = np.concatenate([[0], np.cumsum(self.time < moment)])
                low = low + (before[self.high] - before[self.low])
            known = self._lows[moment] = Sequences(low, low, self.high)
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

    matches: MatchedRows
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


def search_rule(
    rule: Rule,
    since: int,
    places: OpenPlaces,
    rows: EpochRows,
    columns: AskedColumns,
    clock: tuple[int, bool],
    budget: int,
) -> RuleFound | None:
    """One rule over the rows of an epoch; None where there is nothing for it. `clock` is the watermark, and whether the
    input has ended."""
    since = max(since, rows.oldest)
    sequences = rows.since(since)
    key, begin = _begins(rule, since, places, rows, sequences, columns)
    if not len(key):
        return None
    matcher = rule.matcher
    low = np.maximum(sequences.low[key], begin - matcher.lookback)
    high = rows.high[key]
    _, chosen = written_out(low, high - low)
    named = []
    for name in matcher.reads:
        if name in columns.truths:
            named.append(series(name, columns.truth(name, sequences, since)[chosen]))
        else:
            named.append(take(frame_of([columns.values(name).alias(name)]), chosen).to_series())
    frame = frame_of(named) if named else pl.DataFrame(height=len(chosen))
    behind = np.cumsum(high - low)
    first = behind - (high - low)
    within = Sequences(first, first + (begin - low), behind)
    found = matcher.find(frame, rows.time[chosen], within, *clock, budget)
    return _found(rule, found, key, begin, _Part(low, first, chosen, sequences.low[key]))


def _begins(
    rule: Rule, since: int, places: OpenPlaces, rows: EpochRows, sequences: Sequences, columns: AskedColumns
) -> tuple[Whole, Whole]:
    """The keys to search, and the row of each where matching begins."""
    where = rows.candidates if rule.needs_rows else rows.came
    if rule.starts is not None:
        starts = columns.truth(rule.starts[0], sequences, since)
        for name in rule.starts[1:]:
            starts = starts | columns.truth(name, sequences, since)
        where = where & starts
    found = np.flatnonzero(where)
    owner = rows.key[found]
    known = np.full(len(rows.low), -1)
    known[places.key] = places.row + places.beyond
    # rows before the rule was there are none of its own, nor are those before the place where it stopped
    counts = (found >= sequences.low[owner]) & (found >= known[owner])
    found, owner = found[counts], owner[counts]
    firsts = np.ones(len(owner), np.bool_)
    firsts[1:] = owner[1:] != owner[:-1]
    begin = np.full(len(rows.low), -1)
    begin[owner[firsts]] = found[firsts]
    stays = ~places.beyond
    begin[places.key[stays]] = places.row[stays]
    key = np.flatnonzero(begin >= 0)
    return key, begin[key]


def _found(rule: Rule, found: Found, key: Whole, begin: Whole, part: _Part) -> RuleFound:
    """What was found, in rows of the epoch."""
    number = np.searchsorted(part.first, found.start, side="right") - 1
    is_match = found.outcome == Outcome.MATCH
    ended = np.zeros(len(key), np.bool_)
    ended[number] = True
    ended[np.searchsorted(part.first, found.given_up, side="right") - 1] = True
    lengths = np.diff(found.first)[is_match]
    _, entries = written_out(found.first[:-1][is_match], lengths)
    matches = MatchedRows(
        names=rule.matcher.automaton.names,
        first=np.concatenate([[0], np.cumsum(lengths)]),
        rows=part.chosen[found.rows[entries]],
        variables=found.variables[entries],
        low=part.visible[number[is_match]],
        key=key[number[is_match]],
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
