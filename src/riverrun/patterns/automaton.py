"""A pattern as tables: states that take one row each, and for each state what may follow, in order of preference.

A state is a variable, or the skipping of a row in a gap. What follows a state is a list of states, or ACCEPT; so one row
is one step, and what a search has to look at is small. Repetitions are written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.patterns.language import unreadable
from riverrun.patterns.tree import (
    ANY,
    Chain,
    Gap,
    MatchPattern,
    PatternChoice,
    Permutation,
    Repeat,
    RowVariable,
    Tree,
    walk,
)

ACCEPT = -1
SKIPPED = -1
"""In the place of a variable: a row in a gap."""

LARGEST = 2000
"""States of one automaton."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Automaton:
    """State q is `variable[q]`, and `targets[first[q]:first[q + 1]]` follow it. The row after the last state has the
    states a match begins with. A row may be skipped by q if it is none of `absent[absent_first[q]:absent_first[q + 1]]`;
    none of `final_absent` may follow the match."""

    names: tuple[str, ...]  # of variables, by number
    variable: Numbers
    first: Numbers
    targets: Numbers
    absent_first: Numbers
    absent: Numbers
    final_absent: Numbers

    @property
    def states(self) -> int:
        return len(self.variable)

    @property
    def beginnings(self) -> frozenset[str]:
        """The variables that the first row of a match can be."""
        return self._named(self.targets[self.first[self.states] : self.first[self.states + 1]])

    @property
    def continuations(self) -> frozenset[str]:
        """The variables that rows after the first can be."""
        return self._named(self.targets[: self.first[self.states]])

    def _named(self, states: Numbers) -> frozenset[str]:
        taken = [int(self.variable[state]) for state in states if state != ACCEPT]
        return frozenset(self.names[number] for number in taken if number != SKIPPED)


def automaton(pattern: MatchPattern) -> Automaton:
    """The automaton of a pattern; refused where it is too large."""
    return _Builder(pattern).build()


class _Builder:
    """Nodes of a graph with empty moves, from the end of the pattern to its beginning."""

    def __init__(self, pattern: MatchPattern) -> None:
        self.pattern = pattern
        self.names = tuple(dict.fromkeys([*pattern.variables, ANY]))
        self.taken: list[tuple[int, tuple[int, ...], int]] = []  # variable or SKIPPED, absent ones, the node after it
        self.moves: dict[int, list[int]] = {}  # a node without a row: nodes it leads to, the preferred one first
        self.nodes = 1  # node 0 accepts
        self.state_of: dict[int, int] = {}

    def build(self) -> Automaton:
        entry = self.tree(self.pattern.tree, 0)
        lists = [self.following(after, number == SKIPPED) for number, _, after in self.taken]
        begin = [state for state in self.following(entry, True) if self.taken[state][0] != SKIPPED]
        absent = [absent for _, absent, _ in self.taken]
        first, targets = _rows([*lists, begin])
        absent_first, absences = _rows(absent)
        return Automaton(
            names=self.names,
            variable=np.array([number for number, _, _ in self.taken], np.int64),
            first=first,
            targets=targets,
            absent_first=absent_first,
            absent=absences,
            final_absent=np.array([self.names.index(name) for name in self.pattern.absent], np.int64),
        )

    def following(self, node: int, before_end: bool) -> list[int]:
        """The states that a node leads to. A match ends with a row of it, not with one that was skipped."""
        found: dict[int, None] = {}
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one in self.moves:
                waiting += reversed(self.moves[one])
            elif one in self.state_of:
                found[self.state_of[one]] = None
            elif not before_end:
                found[ACCEPT] = None
        return list(found)

    def take(self, number: int, absent: tuple[int, ...], after: int) -> int:
        if len(self.taken) == LARGEST:
            why = f"has more than {LARGEST} steps when its repetitions are written out"
            raise unreadable(self.pattern.text, self.widest(), why, "Ask for fewer, or for {n,}")
        self.taken.append((number, absent, after))
        node = self.node()
        self.state_of[node] = len(self.taken) - 1
        return node

    def node(self) -> int:
        self.nodes += 1
        return self.nodes - 1

    def move(self, *nodes: int) -> int:
        node = self.node()
        self.moves[node] = list(nodes)
        return node

    def widest(self) -> int:
        """The repetition that is written most often."""
        parts = [part for part in walk(self.pattern.tree) if isinstance(part, Repeat | Permutation)]
        return max(parts, key=_copies).at if parts else 0

    def tree(self, tree: Tree, after: int) -> int:
        match tree:
            case RowVariable(name):
                return self.take(self.names.index(name), (), after)
            case Gap(absent):
                again = self.move()
                skip = self.take(SKIPPED, tuple(self.names.index(name) for name in absent), again)
                self.moves[again] = [after, skip]
                return again
            case Chain(parts):
                for part in reversed(parts):
                    after = self.tree(part, after)
                return after
            case PatternChoice(parts):
                return self.move(*(self.tree(part, after) for part in parts))
            case Permutation(parts):
                return self.permutation(parts, after)
            case Repeat():
                return self.repeat(tree, after)

    def permutation(self, parts: tuple[Tree, ...], after: int) -> int:
        if all(isinstance(part, RowVariable) for part in parts):
            return self.shared(parts, after)
        return self.move(*(self.tree(Chain(order), after) for order in permutations(parts)))

    def shared(self, parts: tuple[Tree, ...], after: int) -> int:
        """Where nothing inside a part is to be chosen, orders that begin alike share their beginning."""
        if not parts:
            return after
        ways = []
        for number, part in enumerate(parts):
            ways.append(self.tree(part, self.shared(parts[:number] + parts[number + 1 :], after)))
        return self.move(*ways)

    def repeat(self, tree: Repeat, after: int) -> int:
        if tree.high is None:
            again = self.move()
            inside = self.tree(tree.part, again)
            self.moves[again] = [inside, after] if tree.greedy else [after, inside]
            after = again
        else:
            leave = after
            for _ in range(tree.high - tree.low):
                inside = self.tree(tree.part, after)
                after = self.move(inside, leave) if tree.greedy else self.move(leave, inside)
        for _ in range(tree.low):
            after = self.tree(tree.part, after)
        return after


def _copies(part: Any) -> int:
    match part:
        case Repeat():
            return int(part.high or part.low)
        case _:
            return len(part.parts) ** 3


def _rows(lists: list[Any]) -> tuple[Numbers, Numbers]:
    """Lists of numbers, one after the other, and where each begins."""
    first = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return first, np.array([number for one in lists for number in one], np.int64)
