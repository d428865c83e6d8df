"""The rules of `s.match_rules` in state: which are in force, since when, and what each has come to.

A version of a rule has a number of its own and the watermark since which it counts. What is read of a rule depends on its text
alone, so compiled rules are kept from step to step by their text, whatever became of the step that read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from riverrun.columns import TIME
from riverrun.errors import RiverrunError
from riverrun.kernels.kernel import EpochClock
from riverrun.kernels.weights import signed
from riverrun.rules.columns import RuleColumns
from riverrun.rules.faults import reason_of
from riverrun.rules.rule import Rule, RuleReader, WrittenRule
from riverrun.state.frames import beside, constant, keep, pick
from riverrun.state.keys import equal_to_any, first_of_each, last_of_each
from riverrun.state.table import State, TableSpec

ERROR = "_error"
RULE_ID = "rule_id"
NUMBER, SINCE, OPEN, HITS, STEPS, OFF = "_number", "_since", "_open", "_hits", "_steps", "_off"
_OWN = {
    NUMBER: pl.Int64(),
    SINCE: pl.Int64(),
    OPEN: pl.Int64(),
    HITS: pl.Int64(),
    STEPS: pl.Int64(),
    OFF: pl.String(),
}
_COMPILED = "compiled"
_FORGOTTEN = 1000  # compiled rules that nobody uses any more


@dataclass(frozen=True)
class RuleLimits:
    """What one rule may take: attempts open at once, and steps of the search for each row of an epoch; a small epoch has
    as many as one with `_FEW` rows."""

    attempts: int = 1_000_000
    steps: int = 1_000

    def budget(self, rows: int) -> int:
        """The steps of an epoch with so many rows."""
        return self.steps * max(rows, _FEW)


_FEW = 10_000


@dataclass
class ActiveRule:
    """A rule in force, and what it has come to; `row` is its row in state."""

    number: int
    since: int
    rule: Rule
    row: dict[str, Any]

    def note(self, hits: int, opened: int, steps: int) -> None:
        """Add what an epoch brought."""
        for name, more in ((HITS, hits), (OPEN, opened), (STEPS, steps)):
            self.row[name] += more

    def switch_off(self, why: str) -> None:
        """It is in force no more, until it is put again."""
        _switch_off(self.row, why)

    def exceeded(self, limits: RuleLimits, budget: int, steps: int) -> str | None:
        """Which limit it is beyond, if it is."""
        if steps > budget:
            return f"it takes more than {budget:,} steps in an epoch (steps= of match_rules)".replace(",", " ")
        if self.row[OPEN] > limits.attempts:
            many = f"it has more than {limits.attempts:,} open attempts (open_attempts= of match_rules)"
            return many.replace(",", " ")
        return None


class Compiled:
    """Rules that were read, by their text."""

    def __init__(self, reader: RuleReader) -> None:
        self.reader = reader
        self.columns = RuleColumns(reader.schema)
        self.rules: dict[WrittenRule, Rule] = {}


@dataclass(frozen=True)
class Rulebook:
    """Rules of a table with the columns `schema`."""

    schema: Mapping[str, pl.DataType]
    reader: RuleReader

    @cached_property
    def spec(self) -> TableSpec:
        return TableSpec({**self.schema, **_OWN}, identity=(RULE_ID,), probe=(RULE_ID,), route=())

    def compiled(self, state: State) -> Compiled:
        """The rules that this process has read."""
        known = state.kept.get(_COMPILED)
        if not isinstance(known, Compiled) or known.reader != self.reader:
            known = state.kept[_COMPILED] = Compiled(self.reader)
        return known

    def update(self, state: State, changes: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Take in the changes of an epoch; gives the rows that cannot be read, with the reason.

        Of a rule that cannot be read any more, the version before it stays in force.
        """
        came, gone = signed(changes)
        came = last_of_each(came, [RULE_ID])
        gone = first_of_each(pick(gone, [RULE_ID]), [RULE_ID])
        table = state["rules"]
        table.remove(keep(gone, ~equal_to_any(gone, came, [RULE_ID])))
        before = {row[RULE_ID]: row for row in table.probe(pick(came, [RULE_ID]))[0].iter_rows(named=True)}
        put, unread, errors = [], [], []
        for place, row in enumerate(pick(came, self.schema).iter_rows(named=True)):
            number = (clock.epoch << 24) + place
            fresh = {**row, NUMBER: number, SINCE: clock.start, OPEN: 0, HITS: 0, STEPS: 0, OFF: None}
            old = before.get(row[RULE_ID])
            if _is_on(row):
                try:
                    self._read(state, WrittenRule.of(row))
                except RiverrunError as error:
                    unread.append(place)
                    errors.append(reason_of(error))
                    continue
                if old is not None and _is_on(old) and old[OFF] is None and WrittenRule.of(old) == WrittenRule.of(row):
                    fresh |= {name: old[name] for name in _OWN}  # the same rule goes on
            put.append(fresh)
        if put:
            table.put(pl.DataFrame(put, schema={**self.schema, **_OWN}))
        return beside(pick(came[unread], [*self.schema, TIME]), [pl.Series(ERROR, errors, pl.String)])

    def active(self, state: State) -> tuple[list[ActiveRule], list[dict[str, Any]]]:
        """The rules in force, in the order of their names; and the rows of those that could be read once and cannot any more:
        they are switched off."""
        compiled = self.compiled(state)
        rules, lost = [], []
        for row in state["rules"].scan().sort(RULE_ID).iter_rows(named=True):
            if _is_on(row) and row[OFF] is None:
                try:
                    rules.append(ActiveRule(row[NUMBER], row[SINCE], self._read(state, WrittenRule.of(row)), row))
                except RiverrunError as error:
                    _switch_off(row, f"switched off: {reason_of(error)}")
                    lost.append(row)
        if len(compiled.rules) > 2 * len(rules) + _FORGOTTEN:
            del state.kept[_COMPILED]
        return rules, lost

    def store(self, state: State, rows: list[dict[str, Any]]) -> None:
        """Keep what rules have come to."""
        if rows:
            state["rules"].put(pl.DataFrame(rows, schema={**self.schema, **_OWN}))

    def told(self, rows: list[dict[str, Any]], errors: list[str], time: int) -> pl.DataFrame:
        """The rows of rules, with what is wrong with them."""
        rules = pl.DataFrame(rows, schema={**self.schema, **_OWN}).select(list(self.schema))
        return beside(rules, [pl.Series(ERROR, errors, pl.String), constant(TIME, time, pl.Int64(), rules.height)])

    def _read(self, state: State, written: WrittenRule) -> Rule:
        compiled = self.compiled(state)
        rule = compiled.rules.get(written)
        if rule is None:
            rule = compiled.rules[written] = self.reader.read(written, compiled.columns)
        return rule


def _switch_off(row: dict[str, Any], why: str) -> None:
    row[OPEN], row[OFF] = 0, why


def _is_on(row: Mapping[str, Any]) -> bool:
    return row.get("enabled") is not False
