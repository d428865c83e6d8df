"""A matcher of a random case, and the columns it reads."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from oracles.pattern_cases import PatternCase
from riverrun.flow.schema import Schema
from riverrun.patterns.automaton import automaton
from riverrun.patterns.conditions import read_condition
from riverrun.patterns.matcher import Matcher, MatchRules
from riverrun.patterns.program import ColumnSet
from riverrun.patterns.tables import Outcome, Skip
from riverrun.testing.projection import compute

SCHEMA = pa.schema(
    [("time", pa.int64()), ("x", pa.int64()), ("y", pa.float64()), ("s", pa.string()), ("d", pa.decimal128(10, 2))]
)
OUTCOMES = {Outcome.MATCH: "match", Outcome.TIMED_OUT: "timed out", Outcome.MISPLACED: "misplaced"}
_SKIPS = {"past": Skip.PAST_LAST, "next": Skip.TO_NEXT, "first": Skip.TO_FIRST, "last": Skip.TO_LAST}


def matcher_of(case: PatternCase) -> tuple[Matcher, ColumnSet]:
    columns = ColumnSet(Schema.parse("time bigint, x bigint, y double, s string, d decimal(10,2)"))
    pattern = case.pattern
    conditions = {n: read_condition(n, sql, pattern.variables, columns) for n, sql in case.define.items()}
    words = case.setting.after.split()
    skip = _SKIPS[words[1] if words[1] == "past" else words[2]]
    target = words[3] if len(words) == 4 else None
    rules = MatchRules(case.setting.within, skip, target, case.setting.timeouts, case.setting.limit)
    return Matcher(automaton(pattern), conditions, rules), columns


def computed(columns: ColumnSet, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """What is computed of single rows."""
    if not rows:
        return computed(columns, [dict.fromkeys(SCHEMA.names)]).clear()
    table = pa.Table.from_pylist(rows, SCHEMA)
    result = compute([str(e) for e in columns.expressions.values()], table) if columns.expressions else table
    frame = pl.from_arrow(result.rename_columns(list(columns.expressions) or table.column_names))
    assert isinstance(frame, pl.DataFrame)
    return frame
