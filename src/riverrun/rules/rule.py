"""A rule: a row of text → a matcher, what is said of its matches, or why it cannot be read.

Everything that `s.match` refuses in a flow is refused here in words that stand in `rules.quarantine`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from riverrun.durations import micros, show
from riverrun.errors import Invalid, NotFound, RiverrunError, did_you_mean
from riverrun.flow.operators.rule_match import RULE_COLUMNS
from riverrun.flow.schema import Schema
from riverrun.patterns.automaton import ACCEPT, Automaton, automaton
from riverrun.patterns.conditions import read_condition
from riverrun.patterns.language import parse, refuse_endless
from riverrun.patterns.matcher import Matcher, MatchRules
from riverrun.patterns.tables import LIMIT, Skip
from riverrun.patterns.tree import ANY, MatchPattern
from riverrun.rules.columns import RuleColumns
from riverrun.rules.faults import FAULTS, fault_of
from riverrun.rules.measures import RuleMeasures

_AFTER = re.compile(
    r"skip\s+(?:(past)\s+last(?:\s+row)?|to\s+(next)(?:\s+row)?|to\s+(first|last)\s+(\S+))", re.IGNORECASE
)


@dataclass(frozen=True)
class WrittenRule:
    """A rule as it is written: the texts of its row."""

    rule_id: str | None
    pattern: str | None
    define: str | None = None
    within: str | None = None
    measures: str | None = None
    after: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> WrittenRule:
        """That of a row, which may have more columns."""
        return cls(*(row.get(name) for name in RULE_COLUMNS if name != "enabled"))


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule that can be run. `starts` are the truths of which a first row has at least one (None: every row may be one),
    `lookback` is how many rows before a match it asks for."""

    written: WrittenRule
    matcher: Matcher
    measures: RuleMeasures
    lookback: int
    reads: tuple[str, ...]

    @property
    def within(self) -> int:
        """The longest time that a match takes."""
        assert self.matcher.rules.within is not None
        return self.matcher.rules.within

    def work(self, steps: int, rows: int, matches: int) -> int:
        """What it took altogether, in steps of the search: to ask rows for its conditions, to search, to measure matches. It
        is counted, not timed, so that it is the same in every run."""
        return steps + rows * len(self.reads) + matches * self.measures.cost

    @cached_property
    def starts(self) -> tuple[str, ...] | None:
        known = [self.matcher.conditions.get(name) for name in sorted(self.matcher.automaton.beginnings)]
        columns = [one.column for one in known if one is not None and one.column is not None]
        return tuple(dict.fromkeys(columns)) if len(columns) == len(known) else None

    @cached_property
    def needs_rows(self) -> bool:
        """Whether an attempt that has one row comes to nothing unless more rows come."""
        machine = self.matcher.automaton
        begin = machine.targets[machine.first[machine.states] : machine.first[machine.states + 1]]
        ends = any(ACCEPT in machine.targets[machine.first[q] : machine.first[q + 1]] for q in begin.tolist())
        return not ends and not len(machine.final_absent)


@dataclass(frozen=True)
class RuleShape:
    """What a rule says, before its conditions are read."""

    pattern: MatchPattern
    machine: Automaton
    define: Mapping[str, str]
    measures: Mapping[str, str]
    within: int
    skip: Skip
    target: str | None


@dataclass(frozen=True)
class RuleReader:
    """Reads rules over rows with the columns `schema`. No match takes longer than `within`, or has more rows than `limit`
    in an open attempt."""

    schema: Schema
    within: int
    limit: int = LIMIT

    def read(self, written: WrittenRule, columns: RuleColumns) -> Rule:
        """The rule that a row is; `Invalid` says why it is none, whatever is wrong with it."""
        try:
            return read_rule(written, columns, self.within, self.limit)
        except RiverrunError:
            raise
        except FAULTS as error:
            raise Invalid(f"this rule cannot be read: {fault_of(error)}", hint="Write it in a simpler way") from error


def check_shape(written: WrittenRule, within: int = 1 << 62) -> RuleShape:
    """What can be said of a rule without the columns it is about; `Invalid` says why it is none."""
    if not written.rule_id:
        raise Invalid("rule_id is empty", hint="Give the rule a name")
    if not written.pattern:
        raise Invalid("pattern is empty", hint='Name what a row can be: "a -> b"')
    pattern = parse(written.pattern)
    define: dict[str, str] = {}
    for given, sql in texts("define", written.define).items():
        if given.lower() in define:
            raise Invalid(f"define has {given!r} twice; case does not count")
        define[given.lower()] = sql
    for name in define:
        if name == ANY:
            raise Invalid(f"define: {ANY} is every row", hint="Use another name")
        if name not in pattern.variables:
            raise NotFound(
                f"define: the pattern has no variable {name!r}", hint=did_you_mean(name, list(pattern.variables))
            )
    machine = automaton(pattern)
    skip, target = _after(written.after, pattern, machine)
    longest = _within(written.within, pattern, set(define), within)
    return RuleShape(pattern, machine, define, texts("measures", written.measures), longest, skip, target)


def read_rule(written: WrittenRule, columns: RuleColumns, within: int, limit: int = LIMIT) -> Rule:
    """The rule that a row is; `Invalid` says why it is none. No match may take longer than `within`."""
    shape = check_shape(written, within)
    pattern = shape.pattern
    conditions, lookback = {}, 0
    for name, sql in shape.define.items():
        condition = read_condition(name, sql, pattern.variables, columns.columns)
        lookback = max([lookback, *(program.back for program in condition.programs)])
        conditions[name] = columns.settle(condition)
    rules = MatchRules(shape.within, shape.skip, shape.target, limit=limit)
    matcher = Matcher(shape.machine, conditions, rules)
    measures = RuleMeasures.read(shape.measures, pattern, columns)
    truths = [columns.truths[name] for name in matcher.reads if name in columns.truths]
    reads = [truth.column for truth in truths if truth.column is not None]
    reads += [name for truth in truths for program in truth.programs for name in program.columns]
    reads += [name for name in matcher.reads if name not in columns.truths]
    return Rule(written, matcher, measures, max(lookback, measures.back), tuple(dict.fromkeys(reads)))


def texts(what: str, text: str | None) -> dict[str, str]:
    """A JSON object whose values are texts; nothing is an empty one."""
    if text is None or not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError as error:
        example = '{"large": "amount > 500"}' if what == "define" else '{"amount": "large.amount"}'
        raise Invalid(f"{what} is no JSON object of texts: {error}", hint=f"Write {example}") from None


def _within(text: str | None, pattern: MatchPattern, conditions: set[str], most: int) -> int:
    if text is None or not text.strip():
        if pattern.absent:
            names = " ".join(f"!{name}" for name in pattern.absent)
            raise Invalid(
                f"{names} at the end needs within: until when must it be absent?", hint='within: "30 seconds"'
            )
        refuse_endless(pattern, conditions)
        return most
    try:
        found = micros(text)
    except RiverrunError as error:
        raise Invalid(f"within: {error.message}", hint=error.hint) from None
    if found > most:
        raise Invalid(
            f"within is {show(found)}, and match_rules allows {show(most)}", hint="Raise within= of s.match_rules"
        )
    return found


def _after(text: str | None, pattern: MatchPattern, machine: Automaton) -> tuple[Skip, str | None]:
    if text is None or not text.strip():
        return Skip.PAST_LAST, None
    found = _AFTER.fullmatch(text.strip())
    if found is None:
        hint = 'One of "skip past last", "skip to next", "skip to first X", "skip to last X"'
        raise Invalid(f"after is {text!r}", hint=hint)
    if found[1] or found[2]:
        return (Skip.PAST_LAST if found[1] else Skip.TO_NEXT), None
    which, name = found[3].lower(), found[4].strip("`").lower()
    if name not in pattern.matched:
        raise NotFound(f"after: no row of a match is {name!r}", hint=did_you_mean(name, list(pattern.matched)))
    first = machine.beginnings == {name} and (which == "first" or name not in machine.continuations)
    if first:
        raise Invalid(
            f"after: {text!r} is the row that the match began with: it would be found for ever",
            hint='Write "skip to next"',
        )
    return (Skip.TO_FIRST if which == "first" else Skip.TO_LAST), name
