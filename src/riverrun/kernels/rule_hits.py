"""Matches of rules as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.matching import ID, STAMP
from riverrun.kernels.rulebook import RULE_ID
from riverrun.patterns.tables import Whole
from riverrun.rules.columns import AskedColumns
from riverrun.rules.measures import MatchedRows
from riverrun.rules.rule import Rule
from riverrun.rules.search import EpochRows
from riverrun.state.frames import beside, frame_of, pick, series, take
from riverrun.state.hashing import Hashes, hash_columns

START, END, MATCH_ID, MEASURES = "match_start", "match_end", "match_id", "measures"


@dataclass(frozen=True)
class Hits:
    """Makes rows of matches; `by` are the columns of keys."""

    by: Mapping[str, pl.DataType]

    @cached_property
    def none(self) -> pl.DataFrame:
        """No rows."""
        made = {START: STAMP, END: STAMP, MATCH_ID: pl.String(), MEASURES: pl.String()}
        hidden = {TIME: pl.Int64(), RECEIVED: STAMP, PARTITION: pl.Int32(), OFFSET: pl.Int64()}
        return pl.DataFrame(schema={RULE_ID: pl.String(), **self.by, **made, **hidden})

    def of(self, found: Sequence[tuple[Rule, MatchedRows]], rows: EpochRows, columns: AskedColumns) -> pl.DataFrame:
        """The rows of all rules' matches."""
        if not found:
            return self.none
        owner = np.repeat(np.arange(len(found)), [len(matches.key) for _, matches in found])
        first = np.concatenate([matches.rows[matches.first[:-1]] for _, matches in found])
        last = np.concatenate([matches.rows[matches.first[1:] - 1] for _, matches in found])
        start, end = rows.time[first], rows.time[last]
        # what must not follow is known to be absent when the time is over
        waits = np.array([rule.within if len(rule.matcher.automaton.final_absent) else -1 for rule, _ in found])[owner]
        known = np.where(waits < 0, end, start + waits)
        hashes = _hashes(found, owner, rows)
        texts = [rule.measures.texts(matches, columns).alias(MEASURES) for rule, matches in found]
        names = pl.Series(RULE_ID, [rule.written.rule_id for rule, _ in found], pl.String)
        made = [
            take(names.to_frame(), owner).to_series(),
            *take(pick(rows.frame, self.by), first).get_columns(),
            series(START, start).cast(STAMP),
            series(END, end).cast(STAMP),
            pl.Series(MATCH_ID, [f"{one:016x}" for one in hashes.tolist()], pl.String),
            pl.concat(texts, rechunk=True),
            series(TIME, known),
            series(RECEIVED, known).cast(STAMP),
            series(PARTITION, (hashes >> np.uint64(33)).astype(np.int32)),
            series(OFFSET, (hashes & np.uint64((1 << 62) - 1)).astype(np.int64)),
        ]
        return frame_of(made)


def _hashes(found: Sequence[tuple[Rule, MatchedRows]], owner: Whole, rows: EpochRows) -> Hashes:
    """A number for each match: of the rule, and of the positions and variables of its rows, one after the other."""
    variables = [np.array([_number(name) for name in one.names], np.uint64)[one.variables] for _, one in found]
    lengths = np.concatenate([np.diff(one.first) for _, one in found])
    first = np.cumsum(lengths) - lengths
    nth = np.arange(lengths.sum()) - np.repeat(first, lengths)
    ids = take(pick(rows.frame, ID), np.concatenate([one.rows for _, one in found]))
    said = (np.concatenate(variables) ^ nth.astype(np.uint64)).view(np.int64)
    summed = np.add.reduceat(hash_columns(beside(ids, [series("_said", said)]), [*ID, "_said"]), first)
    names = np.array([_number(rule.written.rule_id or "") for rule, _ in found], np.uint64)
    mixed = (summed ^ names[owner]) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(31))


@cache
def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
