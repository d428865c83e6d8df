"""Matches of a pattern, the slow and certain way: every start row, every attempt, in order of preference.

Conditions are Python functions of an `Attempt`. Nothing here is shared with the search but the tree of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from riverrun.patterns.tree import Chain, Gap, MatchPattern, PatternChoice, Permutation, Repeat, RowVariable, Tree

Taken = tuple[tuple[int, str], ...]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    """The rows matched so far, the last of them being tried, and the row that is looked at."""

    rows: Sequence[Row]
    taken: Taken
    row: int

    def value(self, column: str, back: int = 0) -> Any:
        return self.rows[self.row - back][column] if self.row >= back else None

    def of(self, variable: str | None) -> list[int]:
        return [row for row, name in self.taken if variable is None or name == variable]

    def last(self, variable: str | None, column: str, n: int = 0, back: int = 0) -> Any:
        rows = self.of(variable)
        return self.rows[rows[-1 - n] - back][column] if n < len(rows) and rows[-1 - n] >= back else None

    def first(self, variable: str | None, column: str, n: int = 0) -> Any:
        rows = self.of(variable)
        return self.rows[rows[n]][column] if n < len(rows) else None

    def values(self, variable: str | None, column: str) -> list[Any]:
        return [self.rows[row][column] for row in self.of(variable) if self.rows[row][column] is not None]


Conditions = Mapping[str, Callable[[Attempt], bool | None]]


@dataclass(frozen=True)
class MatchSetting:
    """The rules of a match; times of rows are in the column `time`."""

    within: int | None = None
    after: str = "skip past last"
    timeouts: bool = False
    limit: int = 1 << 60


@dataclass(frozen=True)
class ExpectedMatch:
    """What became of a start row: match, timed out, misplaced or given up; or that it is open, as rows may still come."""

    outcome: str
    taken: Taken


@dataclass(frozen=True)
class _Reached:
    """How far an attempt has come: `asks` says that it wants a row that is not there."""

    next: int
    taken: Taken
    asks: bool = False


def matches(
    pattern: MatchPattern,
    conditions: Conditions,
    rows: Sequence[Row],
    setting: MatchSetting,
    watermark: int | None = None,
) -> list[ExpectedMatch]:
    """Everything that a whole sequence gives, in order; or what is decided of one whose next row is not older than the
    watermark."""
    found, start = [], 0
    while start < len(rows):
        result = _Start(pattern, conditions, rows, setting, start, watermark).result()
        if result is not None and result.outcome == "open":
            break
        if result is None:
            start += 1
            continue
        beyond = start + 1
        if result.outcome == "match":
            target = _target(setting.after, result.taken, start)
            if target is None or target <= start:
                result = replace(result, outcome="misplaced")
            else:
                beyond = target
        found.append(result)
        start = beyond
    return found


def _target(after: str, taken: Taken, start: int) -> int | None:
    match after.split():
        case ["skip", "past", "last"]:
            return taken[-1][0] + 1
        case ["skip", "to", "next"]:
            return start + 1
        case ["skip", "to", which, name]:
            rows = [row for row, variable in taken if variable == name]
            return None if not rows else rows[0] if which == "first" else rows[-1]
    raise AssertionError(after)


class _Start:
    def __init__(
        self,
        pattern: MatchPattern,
        conditions: Conditions,
        rows: Sequence[Row],
        setting: MatchSetting,
        start: int,
        watermark: int | None,
    ) -> None:
        self.pattern, self.conditions, self.rows, self.setting, self.start = pattern, conditions, rows, setting, start
        last = len(rows)
        self.open = watermark is not None
        if setting.within is not None:
            deadline = rows[start]["time"] + setting.within
            self.open = watermark is not None and watermark <= deadline
            last = sum(row["time"] <= deadline for row in rows)
        self.capped = last > start + setting.limit
        self.stop = start + setting.limit if self.capped else last

    def result(self) -> ExpectedMatch | None:
        timed_out: Taken | None = None
        for reached in self.attempts(self.pattern.tree, _Reached(self.start, ())):
            if reached.asks:
                if self.capped:
                    return ExpectedMatch("given up", ())
                if self.open:
                    return ExpectedMatch("open", ())
                timed_out = timed_out or reached.taken
            elif not any(self.follows(name, reached) for name in self.pattern.absent):
                if self.pattern.absent and self.capped:
                    return ExpectedMatch("given up", ())
                if self.pattern.absent and self.open:
                    return ExpectedMatch("open", ())
                return ExpectedMatch("match", reached.taken)
        return ExpectedMatch("timed out", timed_out) if timed_out and self.setting.timeouts else None

    def follows(self, name: str, reached: _Reached) -> bool:
        return any(self.is_(name, row, reached.taken) for row in range(reached.taken[-1][0] + 1, self.stop))

    def is_(self, name: str, row: int, taken: Taken) -> bool:
        condition = self.conditions.get(name)
        return condition is None or condition(Attempt(self.rows, (*taken, (row, name)), row)) is True

    def attempts(self, tree: Tree, reached: _Reached) -> Iterator[_Reached]:
        """All ways to go on from somewhere, the preferred first."""
        if reached.asks:
            yield reached
            return
        match tree:
            case RowVariable(name):
                row = reached.next
                if row >= self.stop:
                    yield replace(reached, asks=True)
                elif self.is_(name, row, reached.taken):
                    yield _Reached(row + 1, (*reached.taken, (row, name)))
            case Gap(absent):
                yield reached
                while reached.taken:
                    row = reached.next
                    if row >= self.stop:
                        yield replace(reached, asks=True)
                        return
                    if any(self.is_(name, row, reached.taken) for name in absent):
                        return
                    reached = _Reached(row + 1, reached.taken)
                    yield reached
            case Chain(parts):
                yield from self.chain(parts, reached)
            case PatternChoice(parts):
                for part in parts:
                    yield from self.attempts(part, reached)
            case Permutation(parts):
                for order in permutations(parts):
                    yield from self.chain(order, reached)
            case Repeat():
                yield from self.repeat(tree, 0, reached)

    def chain(self, parts: Sequence[Tree], reached: _Reached) -> Iterator[_Reached]:
        if not parts:
            yield reached
            return
        for one in self.attempts(parts[0], reached):
            yield from self.chain(parts[1:], one) if not one.asks else [one]

    def repeat(self, tree: Repeat, times: int, reached: _Reached) -> Iterator[_Reached]:
        if not tree.greedy and times >= tree.low:
            yield reached
        if tree.high is None or times < tree.high:
            for one in self.attempts(tree.part, reached):
                yield from self.repeat(tree, times + 1, one) if not one.asks else [one]
        if tree.greedy and times >= tree.low:
            yield reached
