"""Random patterns in flows: any order of arrival, epochs, crashes, all ways to go on after a match, with a limit of rows and
with corrections, as matches and as their rows, with measures, against the slow and certain way."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import riverrun as rr
from oracles import pattern_cases
from oracles.pattern_cases import PatternCase
from oracles.pattern_measures import Measure, measure
from oracles.patterns import Attempt, matches
from riverrun.errors import Invalid
from riverrun.testing import Crash, run_flow

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
CRASHES = ["host.stepped", "host.committed", "commit.begin", "commit.store"]
COLUMNS = "k string, time long, x long, y double, s string, d decimal(10,2), at timestamp"


class RandomMatch:
    """A flow with one match, the rows it gets and how they come."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.every, self.corrects = rng.random() < 0.5, rng.random() < 0.5
        self.rows = [{**row, "k": key} for key in ("p", None) for row in pattern_cases.rows(rng, rng.randint(1, 9))]
        self.rows.sort(key=lambda row: row["time"] + rng.choice([0, 0, 0, 2, 5]))
        while (flow := self._declared()) is None:
            pass
        self.flow = flow

    def _declared(self) -> rr.Flow | None:
        """None where the case is one of those that are refused."""
        rng = self.rng
        self.case = case = pattern_cases.case(rng, history=0.4)
        self.measures = [measure(rng, [v for v in case.pattern.matched if v != "_"]) for _ in range(4)]
        flow = rr.Flow("f")
        source = flow.stream("r", COLUMNS, time="at", lateness="0 s" if self.corrects else "1 hour")
        setting = case.setting
        try:
            found = source.match(
                case.text,
                define=case.define,
                by="k",
                within=None if setting.within is None else f"{setting.within} seconds",
                after=setting.after,
                rows="all" if self.every else "one",
                on_timeout=setting.timeouts,
                open_rows=min(setting.limit, 10_000),
                measures={f"m{number}": sql for number, (sql, _) in enumerate(self.measures)},
                late=rr.correct("1 hour") if self.corrects else None,
            )
        except Invalid as error:
            assert any(why in str(error) for why in ("needs within", "where the match began", "no row of a match"))
            return None
        flow.view("v", found)
        return flow

    def found(self) -> Counter[Any]:
        """What the flow gives."""
        rng, script, start = self.rng, [], 0
        while start < len(self.rows):
            many = rng.randint(1, 5)
            if rng.random() < 0.3:
                script.append(Crash(at=rng.choice(CRASHES)))
            batch = self.rows[start : start + many]
            script.append({"r": [{**row, "at": START + timedelta(seconds=row["time"])} for row in batch]})
            start += many
        result = run_flow(self.flow, script, partitions=1, shards=rng.choice([1, 3]))
        return Counter(self._line(row) for row in result.views["v"])

    def _line(self, row: dict[str, Any]) -> tuple[Any, ...]:
        place = (
            (row["variable"], row["row_number"], row["time"]) if self.every else (row["match_start"], row["match_end"])
        )
        return row["k"], place, row.get("timed_out"), *(rounded(row[f"m{n}"]) for n in range(len(self.measures)))

    def expected(self) -> Counter[Any]:
        """What every attempt in order of preference gives."""
        lines: Counter[Any] = Counter()
        for key in ("p", None):
            ordered = sorted((row for row in self.rows if row["k"] == key), key=lambda row: row["time"])
            for match in matches(self.case.pattern, self.case.tests, ordered, self.case.setting):
                if match.outcome in ("match", "timed out"):
                    late = match.outcome == "timed out" if self.case.setting.timeouts else None
                    for last in range(len(match.taken)) if self.every else [len(match.taken) - 1]:
                        taken = match.taken[: last + 1]
                        at = Attempt(ordered, taken, taken[-1][0])
                        lines[key, self._place(at), late, *(rounded(value(at)) for _, value in self.measures)] += 1
        return lines

    def _place(self, at: Attempt) -> tuple[Any, ...]:
        times = [at.rows[row]["time"] for row, _ in at.taken]
        if self.every:
            return at.taken[-1][1], len(at.taken), times[-1]
        return START + timedelta(seconds=times[0]), START + timedelta(seconds=times[-1])


def rounded(value: Any) -> Any:
    return round(value, 9) if isinstance(value, float) else value


def check(seed: int) -> None:
    random_match = RandomMatch(seed)
    case: PatternCase = random_match.case
    measures: list[Measure] = random_match.measures
    found, expected = random_match.found(), random_match.expected()
    assert found == expected, (seed, case.text, case.define, case.setting, [sql for sql, _ in measures])


@pytest.mark.parametrize("part", range(4))
def test_crashes_and_epochs_change_nothing(part: int) -> None:
    for seed in range(part * 10, part * 10 + 10):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_more_crashes_and_epochs(part: int) -> None:
    for seed in range(10_000 + part * 500, 10_500 + part * 500):
        check(seed)
