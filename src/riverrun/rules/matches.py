"""What rules found in the rows of an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riverrun.patterns.tables import Found, Outcome, Whole


@dataclass(frozen=True)
class RuleMatches:
    """Matches: match m has `rows[first[m]:first[m + 1]]` of the epoch, which are the variables `variables`, whose names are
    `names`. `low` is the first row of its sequence."""

    names: tuple[str, ...]
    first: Whole
    rows: Whole
    variables: Whole
    low: Whole

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.low)

    @cached_property
    def found(self) -> Found:
        """As a search gives them."""
        none = np.empty(0, np.int64)
        outcome = np.full(self.count, int(Outcome.MATCH))
        return Found(outcome, self.rows[self.first[:-1]], self.first, self.rows, self.variables, none, none, none, 0)


def joined(parts: Sequence[tuple[str, RuleMatches]]) -> RuleMatches:
    """The matches of several rules, by their names: a variable is another one in each."""
    names: list[str] = []
    variables, firsts, many = [], [np.zeros(1, np.int64)], 0
    for rule_id, part in parts:
        variables.append(part.variables + len(names))
        names += [f"{rule_id} {name}" for name in part.names]
        firsts.append(part.first[1:] + many)
        many += len(part.rows)
    rows, low = (np.concatenate([getattr(part, name) for _, part in parts]) for name in ("rows", "low"))
    return RuleMatches(tuple(names), np.concatenate(firsts), rows, np.concatenate(variables), low)
