"""Matches of rules as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.matching import ID, STAMP
from riverrun.kernels.rulebook import RULE_ID
from riverrun.rules.columns import AskedColumns
from riverrun.rules.measures import MatchedRows
from riverrun.rules.rule import Rule
from riverrun.rules.search import EpochRows
from riverrun.state.frames import beside, constant, frame_of, pick, series, stack, take
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

    def of(self, rule: Rule, matches: MatchedRows, rows: EpochRows, columns: AskedColumns) -> pl.DataFrame:
        """The rows of one rule's matches."""
        many = len(matches.key)
        start, end = rows.time[matches.rows[matches.first[:-1]]], rows.time[matches.rows[matches.first[1:] - 1]]
        # what must not follow is known to be absent when the time is over
        known = start + rule.within if len(rule.matcher.automaton.final_absent) else end
        hashes = _hashes(rule, matches, rows)
        keys = pick(take(rows.frame, matches.rows[matches.first[:-1]]), self.by).get_columns()
        made = [
            constant(RULE_ID, rule.written.rule_id, pl.String(), many),
            *keys,
            series(START, start).cast(STAMP),
            series(END, end).cast(STAMP),
            pl.Series(MATCH_ID, [f"{one:016x}" for one in hashes.tolist()], pl.String),
            rule.measures.texts(matches, columns).alias(MEASURES),
            series(TIME, known),
            series(RECEIVED, known).cast(STAMP),
            series(PARTITION, (hashes >> np.uint64(33)).astype(np.int32)),
            series(OFFSET, (hashes & np.uint64((1 << 62) - 1)).astype(np.int64)),
        ]
        return frame_of(made)

    def all(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        """Those of all rules."""
        return stack([self.none, *parts])


def _hashes(rule: Rule, matches: MatchedRows, rows: EpochRows) -> Hashes:
    """A number for each match: of the rule, and of the positions and variables of its rows, one after the other."""
    names = np.array([_number(name) for name in matches.names], np.uint64)
    nth = np.arange(len(matches.rows)) - np.repeat(matches.first[:-1], np.diff(matches.first))
    ids = pick(take(rows.frame, matches.rows), ID)
    said = (names[matches.variables] ^ nth.astype(np.uint64)).view(np.int64)
    entries = beside(ids, [series("_said", said)])
    summed = np.add.reduceat(hash_columns(entries, [*ID, "_said"]), matches.first[:-1])
    mixed = (summed ^ np.uint64(_number(rule.written.rule_id or ""))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(31))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
