"""Matches for any order of arrival, any epochs, rows that come late or are taken back: those of the sorted rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import polars as pl
import pytest

from oracles import pattern_cases
from oracles.memory_state import MemoryState
from oracles.pattern_cases import PatternCase
from oracles.pattern_matcher import SCHEMA, computed, matcher_of
from oracles.patterns import matches
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.match import MatchKernel
from riverrun.kernels.match_output import MatchOutput
from riverrun.patterns.program import ColumnSet

_STAMP = pl.Datetime("us", "UTC")
Taken = tuple[tuple[int, int, str], ...]
Row = dict[str, Any]


def kernel_of(case: PatternCase, horizon: int) -> tuple[MatchKernel, ColumnSet]:
    matcher, columns = matcher_of(case)
    sample = computed(columns, [dict.fromkeys(SCHEMA.names)])
    key: dict[str, pl.DataType] = {"k": pl.String()}
    output = MatchOutput(
        names=matcher.automaton.names,
        columns=key,
        values=(),
        kinds={},
        every_row=True,
        within=case.setting.within,
        at_deadline=bool(case.pattern.absent),
        timeouts=case.setting.timeouts,
    )
    return MatchKernel(("k",), matcher, output, {**key, **sample.schema}, horizon), columns


def arrivals(rng: random.Random, horizon: int) -> list[Row]:
    """Rows of two keys, in the order in which they come: not that of their times."""
    made = []
    for key in ("p", None):
        for row in pattern_cases.rows(rng, rng.randint(0, 8)):
            made.append({**row, "k": key})
    made.sort(key=lambda row: row["time"] + rng.choice([0, 0, 0, 3, 8]))
    for number, row in enumerate(made):
        row |= {"_partition": number % 2, "_offset": number // 2, "_weight": 1}
    if rng.random() < 0.5:
        for row in [row for row in made if rng.random() < 0.25]:
            place = made.index(row)
            made.insert(rng.randint(place + 1, min(place + 6, len(made))), {**row, "_weight": -1})
    return made


class Play:
    """Epochs of a kernel, and what stands after them."""

    def __init__(self, kernel: MatchKernel, columns: ColumnSet) -> None:
        self.kernel, self.columns = kernel, columns
        self.state = MemoryState(kernel.tables)
        self.watermark, self.handed_on, self.number = MIN_TIME, MIN_TIME, 0
        self.rows: Counter[Any] = Counter()
        self.live: dict[tuple[int, int], Row] = {}

    def epoch(self, rows: list[Row], end: int) -> None:
        clock = EpochClock(self.number, self.watermark, end)
        frame = computed(self.columns, [{n: row[n] for n in SCHEMA.names} for row in rows])
        own = {"k": pl.String(), "_partition": pl.Int32(), "_offset": pl.Int64(), "_weight": pl.Int8()}
        carried = pl.DataFrame({name: [row[name] for row in rows] for name in own}, schema=own)
        times = pl.Series("_time", [row["time"] for row in rows], dtype=pl.Int64)
        frame = pl.concat([carried, frame], how="horizontal").with_columns(times, times.cast(_STAMP).alias("_received"))
        order = frame.select(pl.arg_sort_by("_partition", "_offset", maintain_order=True)).to_series()
        step = self.kernel.step(self.state, {"in": frame[order]}, clock)
        for line in step.changes.select("k", "match_id", "variable", "row_number", "_time", "_weight").rows():
            self.rows[line[:-1]] += line[-1]
        assert min(self.rows.values(), default=0) >= 0, "something was taken back that was not there"
        if step.watermark is not None:
            assert step.watermark >= self.handed_on, "the watermark went back"
            assert min(step.changes["_time"], default=MAX_TIME) >= self.handed_on, "a result came too late"
            self.handed_on = step.watermark
        low = self.watermark - self.kernel.horizon
        counts = [row for row in rows if row["time"] >= low]
        assert step.counts["in"].accepted == len(counts)
        for row in counts:
            place = row["_partition"], row["_offset"]
            if row["_weight"] > 0:
                self.live[place] = row
            else:
                self.live.pop(place, None)
        self.watermark, self.number = end, self.number + 1


def expected(case: PatternCase, rows: list[Row]) -> Counter[Any]:
    """Rows of matches, without their ids."""
    found: Counter[Any] = Counter()
    for key in ("p", None):
        mine = [row for row in rows if row["k"] == key]
        ordered = sorted(mine, key=lambda row: (row["time"], row["_partition"], row["_offset"]))
        for match in matches(case.pattern, case.tests, ordered, case.setting):
            if match.outcome in ("match", "timed out"):
                for number, (place, variable) in enumerate(match.taken):
                    found[key, variable, number + 1, ordered[place]["time"]] += 1
    return found


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = pattern_cases.case(rng, history=rng.choice([0.0, 0.5]))
    horizon = rng.choice([0, 0, 4, 50])
    play = Play(*kernel_of(case, horizon))
    coming = arrivals(rng, horizon)
    end = 0
    while coming:
        count = rng.randint(0, 5)
        rows, coming = coming[:count], coming[count:]
        end = max(end, play.watermark, rng.choice([0, max((row["time"] for row in rows), default=0) - 3]))
        play.epoch(rows, end)
    play.epoch([], MAX_TIME)
    shown: Counter[Any] = Counter()
    for (key, _, variable, number, time), count in play.rows.items():
        shown[key, variable, number, time] += count
    assert +shown == expected(case, list(play.live.values())), (seed, case, horizon)


@pytest.mark.parametrize("seeds", [range(start, start + 60) for start in range(0, 240, 60)])
def test_matches_are_those_of_the_sorted_rows(seeds: range) -> None:
    for seed in seeds:
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_more_matches_of_sorted_rows(part: int) -> None:
    for seed in range(10_000 + part * 300, 10_300 + part * 300):
        check(seed)
