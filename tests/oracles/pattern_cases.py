"""Random patterns with conditions in SQL and in Python, and random rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal as Exact
from typing import Any

from oracles.patterns import Attempt, MatchSetting
from riverrun.patterns.language import parse
from riverrun.patterns.tree import MatchPattern

VARIABLES = ("a", "b", "c")
_TENTH = Exact("0.1")

Test = Callable[[Attempt], bool | None]


@dataclass(frozen=True)
class PatternCase:
    """A pattern with its conditions in both languages, and its rules."""

    text: str
    define: dict[str, str]
    tests: dict[str, Test]
    setting: MatchSetting

    @property
    def pattern(self) -> MatchPattern:
        return parse(self.text)


def less(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one < other


def different(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else one != other


def single(rng: random.Random) -> tuple[str, Test]:
    """A condition on one row, or on it and those before it."""
    bound = rng.randint(0, 3)
    return rng.choice(
        [
            (f"x < {bound}", lambda at: less(at.value("x"), bound)),
            (f"x > {bound}", lambda at: less(bound, at.value("x"))),
            ("s = 'p'", lambda at: None if at.value("s") is None else at.value("s") == "p"),
            ("x < prev(x)", lambda at: less(at.value("x"), at.value("x", 1))),
            ("x > prev(x, 2)", lambda at: less(at.value("x", 2), at.value("x"))),
            ("s <> prev(s)", lambda at: different(at.value("s"), at.value("s", 1))),
            ("d + 0.1 > prev(d)", lambda at: less(at.value("d", 1), _plus(at.value("d"), _TENTH))),
            ("y * 2 > prev(y) + 1", lambda at: less(_plus(at.value("y", 1), 1), _times(at.value("y"), 2))),
        ]
    )


def across(rng: random.Random, name: str, used: list[str]) -> tuple[str, Test]:
    """A condition on rows of the match."""
    v = rng.choice(used)
    many = rng.randint(1, 4)
    return rng.choice(
        [
            (f"x > {v}.x", lambda at: less(at.last(v, "x"), at.value("x"))),
            (f"x <> prev({v}.x)", lambda at: different(at.value("x"), at.last(v, "x", 0, 1))),
            (f"x >= last({v}.x, 1)", lambda at: _not(less(at.value("x"), at.last(v, "x", 1)))),
            (f"s = first({v}.s)", lambda at: _not(different(at.value("s"), at.first(v, "s")))),
            (f"s < first({v}.s, 1) or x = 1", lambda at: _or(less(at.value("s"), at.first(v, "s", 1)), _is(at, 1))),
            (f"count({v}.*) < {many}", lambda at: len(at.of(v)) < many),
            (f"count({v}.x) < {many}", lambda at: len(at.values(v, "x")) < many),
            (f"coalesce(sum({v}.x), 0) < {2 * many}", lambda at: sum(at.values(v, "x")) < 2 * many),
            (f"y >= avg({v}.y)", lambda at: _not(less(at.value("y"), _avg(at.values(v, "y"))))),
            (f"d > {v}.d", lambda at: less(at.last(v, "d"), at.value("d"))),
            (
                f"-d <= abs(min({v}.d))",
                lambda at: _not(less(_abs(_least(at.values(v, "d"))), _times(at.value("d"), -1))),
            ),
            (
                f"d * 2 > sum({v}.d) - 0.05",
                lambda at: less(_plus(_sum(at.values(v, "d")), -_TENTH / 2), _times(at.value("d"), 2)),
            ),
            (f"coalesce({v}.d, x) > d", lambda at: less(at.value("d"), _first_of(at.last(v, "d"), at.value("x")))),
            (
                f"greatest(d, max({v}.d), 0) < 1.15",
                lambda at: max([0, *at.values(v, "d"), *_known(at.value("d"))]) < Exact("1.15"),
            ),
            (f"case {v}.d when 0.1 then x > 1 else d is null end", lambda at: _case(at, v)),
            (f"x between min({v}.x) and max(x)", lambda at: _between(at, v)),
            (f"count(*) <= {many}", lambda at: len(at.of(None)) <= many),
            ("s = first(s) and x is not null", _first_s),
            (f"{v}.x is null or {name}.x > 0", lambda at: _or(at.last(v, "x") is None, less(0, at.value("x")))),
            (f"time - first(time) < {3 * many}", lambda at: at.value("time") - at.first(None, "time") < 3 * many),
        ]
    )


def _known(value: Any) -> list[Any]:
    return [] if value is None else [value]


def _first_of(one: Any, other: Any) -> Any:
    return other if one is None else one


def _sum(values: list[Any]) -> Any:
    return sum(values) if values else None


def _least(values: list[Any]) -> Any:
    return min(values, default=None)


def _abs(value: Any) -> Any:
    return None if value is None else abs(value)


def _case(at: Attempt, variable: str) -> bool | None:
    return less(1, at.value("x")) if at.last(variable, "d") == _TENTH else at.value("d") is None


def _plus(one: Any, other: Any) -> Any:
    return None if one is None else one + other


def _times(one: Any, other: Any) -> Any:
    return None if one is None else one * other


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _or(one: bool | None, other: bool | None) -> bool | None:
    return True if one or other else None if one is None or other is None else False


def _is(at: Attempt, value: int) -> bool | None:
    return None if at.value("x") is None else at.value("x") == value


def _avg(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _between(at: Attempt, variable: str) -> bool | None:
    low, high = at.values(variable, "x"), at.values(None, "x")
    x = at.value("x")
    one = _not(less(x, min(low))) if low else None
    other = _not(less(max(high), x)) if high else None
    return False if one is False or other is False else None if one is None or other is None else True


def _first_s(at: Attempt) -> bool | None:
    same = _not(different(at.value("s"), at.first(None, "s")))
    return False if at.value("x") is None or same is False else same


def pattern_text(rng: random.Random, depth: int = 2) -> str:
    """A random pattern; some cannot be read."""
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return rng.choice([*VARIABLES, *VARIABLES, "_"])
    if kind < 0.6:
        parts = [pattern_text(rng, depth - 1) for _ in range(rng.randint(2, 3))]
        text = parts[0]
        for part in parts[1:]:
            gap = rng.random()
            absent = "".join(f" !{rng.choice(VARIABLES)}" for _ in range(rng.choice([0, 0, 1, 1, 2])))
            text += (f"{absent} -> " if gap < 0.35 else " ") + part
        return f"({text})"
    if kind < 0.72:
        return f"({pattern_text(rng, depth - 1)} | {pattern_text(rng, depth - 1)})"
    if kind < 0.78:
        count = rng.randint(2, 3)
        return f"permute({', '.join(pattern_text(rng, depth - 1) for _ in range(count))})"
    mark = rng.choice(["?", "*", "+", "{2}", "{1,2}", "{2,}", "{,2}"]) + rng.choice(["", "", "?"])
    return f"({pattern_text(rng, depth - 1)}){mark}"


def case(rng: random.Random, history: float = 0.5) -> PatternCase:
    """A random case with a pattern that can be read."""
    while True:
        text = pattern_text(rng, rng.randint(1, 3))
        within = rng.choice([None, 0, 2, 5, 9]) if rng.random() < 0.8 else 100
        if within is not None and rng.random() < 0.25:
            text = text + "".join(f" !{rng.choice(VARIABLES)}" for _ in range(rng.randint(1, 2)))
        try:
            pattern = parse(text)
        except ValueError:
            continue
        used = [name for name in pattern.variables if name in VARIABLES]
        if not used:
            continue
        chosen = {}
        for name in used:
            if rng.random() < 0.85:
                chosen[name] = across(rng, name, used) if rng.random() < history else single(rng)
                if rng.random() < 0.2:
                    one, other = chosen[name], single(rng)
                    chosen[name] = (f"({one[0]}) and {other[0]}", _both(one[1], other[1]))
        target = rng.choice(used)
        after = rng.choice(["skip past last", "skip to next", f"skip to first {target}", f"skip to last {target}"])
        limit = rng.choice([1 << 30, 1 << 30, 1 << 30, 4])
        setting = MatchSetting(within, after, within is not None and rng.random() < 0.4, limit)
        return PatternCase(
            text,
            {name: sql for name, (sql, _) in chosen.items()},
            {n: test for n, (_, test) in chosen.items()},
            setting,
        )


def _both(one: Test, other: Test) -> Test:
    def both(at: Attempt) -> bool | None:
        truths = (one(at), other(at))
        return False if False in truths else None if None in truths else True

    return both


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """The rows of a sequence, in order of time."""
    time, made = 0, []
    for _ in range(count):
        time += rng.choice([0, 0, 1, 1, 2, 4])
        made.append(
            {
                "time": time,
                "x": rng.choice([None, 0, 1, 2, 3, 4]),
                "y": rng.choice([None, 0.5, 1.0, 2.0, 3.5]),
                "s": rng.choice([None, "p", "q", "r"]),
                "d": rng.choice([None, Exact("-1.20"), Exact("0.10"), Exact("0.20"), Exact("1.10"), Exact("3.00")]),
            }
        )
    return made
