"""What rules would have found in rows that are in the log: nothing is written, and no flow is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from riverrun import ddl
from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.durations import to_micros
from riverrun.errors import Invalid, NotFound, RiverrunError, did_you_mean
from riverrun.flow.operators.rule_match import MADE, RULE_ID
from riverrun.flow.schema import Schema
from riverrun.kernels.rule_hits import Hits
from riverrun.log.topic import Topic
from riverrun.rules.columns import AskedColumns, RuleColumns
from riverrun.rules.faults import FAULTS, fault_of, reason_of
from riverrun.rules.matches import RuleMatches
from riverrun.rules.rule import Rule, RuleReader, WrittenRule
from riverrun.rules.search import EpochRows, OpenPlaces, Searched, Starts, search_rule
from riverrun.state.frames import from_arrow, keep, numbers, pick, take
from riverrun.state.keys import number_keys
from riverrun.state.order import lexicographic

LONGEST = 7 * 86_400_000_000
"""How long a match of a rule may take that says nothing itself."""

_MOST = 10_000_000  # rows that are looked at in memory
_STEPS = 1000  # for each of them, and each rule
_ORDER = (TIME, PARTITION, OFFSET)


@dataclass(frozen=True)
class RuleTrial:
    """How many rows were looked at, what was found in them (a row for each match), and which rules are none, or cannot be
    run over these rows, and why."""

    rows: int
    hits: pl.DataFrame
    refused: Mapping[str, str]
    stopped: tuple[str, ...]  # rules that took too many steps


def try_rules(
    topic: Topic, rules: Iterable[WrittenRule], by: Sequence[str], since: datetime | None, most: int = _MOST
) -> RuleTrial:
    """The matches of rules in the rows of a topic that are not older than `since`, as far as the newest of them decides."""
    schema = Schema(tuple((field.name, ddl.from_arrow(field.type)) for field in topic.schema))
    for name in by:
        if name not in schema:
            raise NotFound(f"there is no column {name!r} in topic {topic.name}", hint=did_you_mean(name, list(schema)))
    reader, columns = RuleReader(schema, LONGEST), RuleColumns(schema)
    read: list[Rule] = []
    refused = {}
    for written in rules:
        try:
            read.append(reader.read(written, columns))
        except RiverrunError as error:
            refused[written.rule_id or ""] = reason_of(error)
    rows = _rows(topic, since, most, [schema.resolve(name) for name in by])
    hits, stopped, failed = _found(rows, read, columns, Hits({name: rows.frame.schema[name] for name in by}))
    refused |= failed
    return RuleTrial(len(rows.time), hits.select(RULE_ID, *by, *MADE).sort(MADE[0], RULE_ID), refused, tuple(stopped))


def _rows(topic: Topic, since: datetime | None, most: int, by: Sequence[str]) -> EpochRows:
    start = topic.offsets(since if since is not None else "earliest")
    many = sum(end - start.get(partition, 0) for partition, end in topic.ends().items())
    if many > most:
        raise Invalid(f"topic {topic.name} has {many} rows since then, too many to look at", hint="Look at fewer days")
    frame = from_arrow(topic.read(since))
    frame = frame.with_columns(pl.col(TIME).cast(pl.Int64))
    if since is not None:
        frame = keep(frame, numbers(frame.get_column(TIME)) >= to_micros(since))
    key = number_keys(pick(frame, by))[0][0] if by else np.zeros(frame.height, np.int64)
    order = lexicographic(key, *(numbers(frame.get_column(name)) for name in _ORDER))
    key, frame = key[order], take(frame, order)
    low = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.int64)
    high = np.concatenate([low[1:], [len(key)]]) if len(low) else low
    return EpochRows(frame, np.ascontiguousarray(numbers(frame.get_column(TIME))), low, low, high)


def _found(
    rows: EpochRows, rules: Sequence[Rule], columns: RuleColumns, hits: Hits
) -> tuple[pl.DataFrame, list[str], dict[str, str]]:
    """The matches of rules; the rules that took too many steps; and those that fail on these rows, with the reason."""
    if not len(rows.low):
        return hits.none, [], {}
    used = [name for rule in rules for name in (*rule.reads, *rule.measures.reads)]
    answers = AskedColumns(columns, used, rows.frame, rows.time)
    starts = Starts(rows, columns, used, max((rule.lookback for rule in rules), default=0))
    budget = _STEPS * max(len(rows.time), 10_000)
    epoch = Searched(rows, starts, answers, int(rows.time.max()) + 1, ended=False, budget=budget)
    found: list[tuple[Rule, RuleMatches]] = []
    stopped, failed = [], {}
    for rule in rules:
        try:
            result = search_rule(rule, rows.oldest, OpenPlaces.none(), epoch)
            if result is not None and result.matches.count:
                hits.of([(rule, result.matches)], rows, answers)
                found.append((rule, result.matches))
        except FAULTS as error:
            failed[str(rule.written.rule_id)] = fault_of(error)
            continue
        if result is not None and result.steps > budget:
            stopped.append(str(rule.written.rule_id))
    return hits.of(found, rows, answers), stopped, failed
