"""Random patterns over random rows, whole and in pieces, against the slow and certain way."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from oracles import pattern_cases
from oracles.pattern_cases import PatternCase
from oracles.pattern_matcher import OUTCOMES, computed, matcher_of
from oracles.patterns import ExpectedMatch, matches
from riverrun.patterns.matcher import Matcher
from riverrun.patterns.tables import Found, Outcome, Sequences


def shown(matcher: Matcher, found: Found, offset: int) -> list[ExpectedMatch]:
    names = matcher.automaton.names
    results = []
    for number, outcome in enumerate(found.outcome):
        places = range(found.first[number], found.first[number + 1])
        taken = tuple((int(found.rows[p]) + offset, names[found.variables[p]]) for p in places)
        results.append((int(found.start[number]) + offset, ExpectedMatch(OUTCOMES[Outcome(outcome)], taken)))
    results += [(int(start) + offset, ExpectedMatch("given up", ())) for start in found.given_up]
    return [expected for _, expected in sorted(results, key=lambda pair: pair[0])]


def in_pieces(case: PatternCase, rows: list[dict[str, Any]], rng: random.Random) -> list[ExpectedMatch]:
    """The rows as a stream: those that the watermark has passed, then more of them."""
    matcher, columns = matcher_of(case)
    frame = computed(columns, rows)
    times = np.array([row["time"] for row in rows], np.int64)
    marks = sorted(rng.randint(0, times[-1] + 12) for _ in range(rng.randint(0, 5)))
    results: list[ExpectedMatch] = []
    begin = 0
    for watermark, ended in [*((mark, False) for mark in marks), (1 << 60, True)]:
        high = int(np.searchsorted(times, watermark))
        low = max(begin - matcher.lookback, 0)
        sequences = Sequences(*(np.array([place], np.int64) for place in (0, begin - low, high - low)))
        found = matcher.find(frame[low:high], times[low:high].copy(), sequences, watermark, ended)
        results += shown(matcher, found, low)
        begin = low + int(found.next[0])
    return results


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = pattern_cases.case(rng, history=rng.choice([0.0, 0.6]))
    rows = pattern_cases.rows(rng, rng.randint(1, 9))
    expected = matches(case.pattern, case.tests, rows, case.setting)
    assert in_pieces(case, rows, rng) == expected, (seed, case.text, case.define, case.setting, rows)


@pytest.mark.parametrize("hundred", range(5))
def test_matches_are_those_of_every_attempt_in_order_of_preference(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_more_matches(part: int) -> None:
    for seed in range(10_000 + part * 1_500, 11_500 + part * 1_500):
        check(seed)
