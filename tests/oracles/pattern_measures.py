"""Random measures of matches, in SQL and in Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from oracles.patterns import Attempt

Measure = tuple[str, Callable[[Attempt], Any]]


def measure(rng: random.Random, variables: Sequence[str]) -> Measure:
    """A value of one row, or a total; of a variable, or of all rows."""
    of = rng.choice([None, *variables])
    column = rng.choice(["x", "y", "s", "d"])
    number = rng.choice(["x", "y", "d"])
    n, back = rng.randint(0, 2), rng.randint(0, 2)
    written = f"{of}.{column}" if of else column
    counted = f"{of}.*" if of else "*"
    added = f"{of}.{number}" if of else number
    return rng.choice(
        [
            (written, lambda at: at.last(of, column)),
            (f"first({written}, {n})", lambda at: at.first(of, column, n)),
            (f"last({written}, {n})", lambda at: at.last(of, column, n)),
            (f"prev({written}, {back})", lambda at: at.last(of, column, 0, back)),
            (f"prev(last({written}, {n}), {back})", lambda at: at.last(of, column, n, back)),
            (f"count({counted})", lambda at: len(at.of(of))),
            (f"count({written})", lambda at: len(at.values(of, column))),
            (f"min({written})", lambda at: min(at.values(of, column), default=None)),
            (f"max({written})", lambda at: max(at.values(of, column), default=None)),
            (f"sum({added})", lambda at: _total(at.values(of, number))),
            (f"avg({added})", lambda at: _mean(at.values(of, number))),
        ]
    )


def _total(values: list[Any]) -> Any:
    return sum(values) if values else None


def _mean(values: list[Any]) -> float | None:
    return float(sum(values)) / len(values) if values else None
