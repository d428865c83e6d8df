"""Rules that come, change and go while rows flow, against the slow and certain way: each version of a rule over the rows that
the watermark passed while it was in force."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from oracles import pattern_cases
from oracles.pattern_cases import PatternCase
from oracles.patterns import ExpectedMatch, matches
from riverrun.errors import RiverrunError
from riverrun.flow.schema import Schema
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock, Step
from riverrun.kernels.rule_match import RuleMatchKernel
from riverrun.kernels.rulebook import Rulebook, RuleLimits
from riverrun.rules.columns import RuleColumns
from riverrun.rules.rule import RuleReader, WrittenRule
from riverrun.state.directory import StateDirectory

STREAM = "k string, time bigint, x bigint, y double, s string, d decimal(10,2)"
COLUMNS = {
    "k": pl.String(),
    "time": pl.Int64(),
    "x": pl.Int64(),
    "y": pl.Float64(),
    "s": pl.String(),
    "d": pl.Decimal(10, 2),
}
RULES = {
    **dict.fromkeys(("rule_id", "pattern", "define", "within", "measures", "after"), pl.String()),
    "enabled": pl.Boolean(),
}
HIDDEN = {"_time": pl.Int64(), "_weight": pl.Int8(), "_partition": pl.Int32(), "_offset": pl.Int64()}
MEASURES = '{"n": "count(*)", "x": "last(x)", "s": "first(s)", "back": "prev(x)", "sum": "sum(x) + 0"}'
LONGEST = 12
READER = RuleReader(Schema.parse(STREAM), LONGEST)


def kernel(limits: RuleLimits | None = None) -> RuleMatchKernel:
    return RuleMatchKernel(("k",), COLUMNS, Rulebook(RULES, READER), limits or RuleLimits())


def readable_case(rng: random.Random) -> PatternCase:
    """A random rule that is none of those that are refused."""
    while True:
        made = pattern_cases.case(rng, rng.choice([0.0, 0.5]))
        made = replace(made, setting=replace(made.setting, limit=1 << 60, timeouts=False))
        if made.setting.within is not None and made.setting.within > LONGEST:
            made = replace(made, setting=replace(made.setting, within=LONGEST))
        try:
            READER.read(WrittenRule.of(row_of("r", made)), RuleColumns(READER.schema))
        except RiverrunError:
            continue
        return made


def row_of(rule_id: str, case: PatternCase, enabled: bool = True) -> dict[str, Any]:
    within = None if case.setting.within is None else f"{case.setting.within} us"
    return {
        "rule_id": rule_id,
        "pattern": case.text,
        "define": json.dumps(case.define),
        "within": within,
        "measures": MEASURES,
        "after": case.setting.after,
        "enabled": enabled,
    }


@dataclass
class RuleVersion:
    """A rule from one moment of event time to another."""

    rule_id: str
    case: PatternCase
    since: int
    until: int = MAX_TIME


@dataclass
class RuleHistory:
    """Epochs as they are made, and the versions of rules they bring."""

    epochs: list[tuple[list[dict[str, Any]], list[dict[str, Any]], int, int]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    versions: list[RuleVersion] = field(default_factory=list)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    watermark: int = MIN_TIME

    def add(self, rows: list[dict[str, Any]], changes: dict[str, PatternCase | None], end: int) -> None:
        changed = []
        for rule_id, case in changes.items():
            old = self.rules.pop(rule_id, None)
            if old is not None:
                changed.append({**old, "_weight": -1})
            for version in self.versions:
                if version.rule_id == rule_id and version.until == MAX_TIME:
                    version.until = self.watermark
            if case is not None:
                self.rules[rule_id] = row_of(rule_id, case)
                changed.append({**self.rules[rule_id], "_weight": 1})
                self.versions.append(RuleVersion(rule_id, case, self.watermark))
        changes_ = [{**row, "_time": 0, "_partition": 0, "_offset": at} for at, row in enumerate(changed)]
        added = [
            {**row, "_time": row["time"], "_weight": 1, "_partition": 0, "_offset": len(self.rows) + at}
            for at, row in enumerate(rows)
        ]
        self.rows += added
        self.epochs.append((added, changes_, self.watermark, end))
        self.watermark = max(self.watermark, end)

    def sequence(self, key: str | None, since: int) -> list[dict[str, Any]]:
        mine = [row for row in self.rows if row["k"] == key and row["time"] >= since]
        return sorted(mine, key=lambda row: (row["time"], row["_offset"]))


def random_history(rng: random.Random) -> RuleHistory:
    history = RuleHistory()
    keys = ["p", "q", None][: rng.randint(1, 3)]
    waiting = [{**row, "k": key} for key in keys for row in pattern_cases.rows(rng, rng.randint(0, 14))]
    waiting.sort(key=lambda row: row["time"] + rng.randint(0, 4))
    names = ["a", "b", "c", "d"][: rng.randint(1, 4)]
    while waiting or not history.epochs:
        changes: dict[str, PatternCase | None] = {}
        for name in names:
            if rng.random() < (0.8 if not history.epochs else 0.15):
                changes[name] = None if rng.random() < 0.25 else readable_case(rng)
        many = rng.randint(0, 8)
        now, waiting = waiting[:many], waiting[many:]
        largest = max([row["time"] for row in now], default=0)
        rest = min([row["time"] for row in waiting], default=largest + 1)
        end = max(history.watermark, min(rest, largest + rng.randint(-5, 1)))
        history.add(now, changes, end if rng.random() < 0.8 else history.watermark)
    history.add([], {}, MAX_TIME)
    return history


def play(made: RuleMatchKernel, history: RuleHistory, rng: random.Random, directory: Path) -> list[Step]:
    """The epochs, with steps that have no effect, and with processes that begin anew."""
    state, entries, steps = StateDirectory(directory), {}, []
    right = {**RULES, **HIDDEN}
    for number, (rows, changes, start, end) in enumerate(history.epochs):
        inputs = {
            "left": pl.DataFrame(rows, schema={**COLUMNS, **HIDDEN}),
            "right": pl.DataFrame(changes, schema=right),
        }
        clock = EpochClock(number, start, max(start, end), 1000)
        while rng.random() < 0.2:  # the epoch fails before it counts
            made.step(state.open(entries, made.tables, "n"), inputs, clock)
            if rng.random() < 0.5:
                state = StateDirectory(directory)
        opened = state.open(entries, made.tables, "n")
        steps.append(made.step(opened, inputs, clock))
        entries = {**entries, **opened.commit(number)}
        if rng.random() < 0.2:
            state = StateDirectory(directory)
    return steps


def expected(history: RuleHistory, version: RuleVersion, key: str | None) -> list[dict[str, Any]]:
    within = LONGEST if version.case.setting.within is None else version.case.setting.within
    setting = replace(version.case.setting, within=within)
    rows = history.sequence(key, version.since)
    found = matches(version.case.pattern, version.case.tests, rows, setting)
    return [hit(history, rows, version, one, key, within) for one in found if one.outcome == "match"]


def hit(
    history: RuleHistory,
    rows: list[dict[str, Any]],
    version: RuleVersion,
    found: ExpectedMatch,
    key: str | None,
    within: int,
) -> dict[str, Any]:
    taken = [rows[row] for row, _ in found.taken]
    last = found.taken[-1][0]
    values = [row["x"] for row in taken if row["x"] is not None]
    return {
        "rule_id": version.rule_id,
        "k": key,
        "match_start": taken[0]["time"],
        "match_end": taken[-1]["time"],
        "_time": taken[0]["time"] + within if version.case.pattern.absent else taken[-1]["time"],
        "measures": {
            "n": len(taken),
            "x": taken[-1]["x"],
            "s": taken[0]["s"],
            "back": rows[last - 1]["x"] if last else None,
            "sum": sum(values) if values else None,
        },
    }


def shown(steps: list[Step]) -> list[dict[str, Any]]:
    rows = []
    for step in steps:
        for row in step.changes.iter_rows(named=True):
            assert row["_weight"] == 1
            times = {name: _micros(row[name]) for name in ("match_start", "match_end")}
            picked = {name: row[name] for name in ("rule_id", "k", "_time")}
            rows.append({**picked, **times, "measures": json.loads(row["measures"])})
    return rows


def _micros(moment: Any) -> int:
    return int(pl.Series([moment]).cast(pl.Int64)[0])


def check(seed: int) -> None:
    rng = random.Random(seed)
    history = random_history(rng)
    with tempfile.TemporaryDirectory() as directory:
        steps = play(kernel(), history, rng, Path(directory))
    found = shown(steps)
    assert all(
        step.quarantined["right"].filter(~pl.col("_error").str.contains("matches say")).is_empty() for step in steps
    )
    ids = [row["match_id"] for step in steps for row in step.changes.iter_rows(named=True)]
    assert len(ids) == len(set(ids))
    for key in {row["k"] for row in history.rows}:
        for version in history.versions:
            got = [row for row in found if row["k"] == key and row["rule_id"] == version.rule_id]
            got = [row for row in got if version.since <= row["match_start"] < version.until]
            want = expected(history, version, key)
            within = LONGEST if version.case.setting.within is None else version.case.setting.within
            assert got == want[: len(got)]
            assert len(got) >= sum(row["match_start"] + within < version.until for row in want)
            assert all(row["match_end"] < version.until for row in got)


@pytest.mark.parametrize("seed", range(30))
def test_rules_find_what_the_oracle_finds(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_rules_find_what_the_oracle_finds(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check(seed)
