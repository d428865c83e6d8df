"""Matches of rules as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.matching import ID, STAMP
from riverrun.kernels.rulebook import RULE_ID
from riverrun.patterns.results import MatchedRows
from riverrun.rules.columns import AskedColumns
from riverrun.rules.matches import RuleMatches, joined
from riverrun.rules.measures import measured
from riverrun.rules.rule import Rule
from riverrun.rules.search import EpochRows
from riverrun.state.frames import frame_of, numbers, pick, series, take

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

    def of(self, found: Sequence[tuple[Rule, RuleMatches]], rows: EpochRows, columns: AskedColumns) -> pl.DataFrame:
        """The rows of all rules' matches."""
        if not found:
            return self.none
        owner = np.repeat(np.arange(len(found)), [matches.count for _, matches in found])
        matches = joined([(str(rule.written.rule_id), part) for rule, part in found])
        first, last = matches.rows[matches.first[:-1]], matches.rows[matches.first[1:] - 1]
        start, end = rows.time[first], rows.time[last]
        # what must not follow is known to be absent when the time is over
        waits = np.array([rule.within if len(rule.matcher.automaton.final_absent) else -1 for rule, _ in found])[owner]
        known = np.where(waits < 0, end, start + waits)
        lines = MatchedRows(rows.frame, matches.found, matches.names, matches.low, every_row=False)
        match_id, hashes = lines.ids(*(numbers(rows.frame.get_column(name)) for name in ID))
        names = pl.Series(RULE_ID, [rule.written.rule_id for rule, _ in found], pl.String)
        made = [
            take(names.to_frame(), owner).to_series(),
            *(take(pick(rows.frame, self.by), first).get_columns() if self.by else []),
            series(START, start).cast(STAMP),
            series(END, end).cast(STAMP),
            match_id.alias(MATCH_ID),
            measured([(rule.measures, part) for rule, part in found], columns).alias(MEASURES),
            series(TIME, known),
            series(RECEIVED, known).cast(STAMP),
            series(PARTITION, (hashes[0] >> np.uint64(40)).astype(np.int32)),
            series(OFFSET, (hashes[1] >> np.uint64(2)).astype(np.int64)),
        ]
        return frame_of(made)
