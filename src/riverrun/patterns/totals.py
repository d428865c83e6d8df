"""Running totals along the rows of matches."""

from __future__ import annotations

from typing import Any

import numpy as np

from riverrun.patterns.compiled import compiled
from riverrun.patterns.evaluation import sum_overflows
from riverrun.patterns.tables import TotalKind, Whole


@compiled
def run_whole(
    values: Any, there: Any, first: Any, smallest: bool, largest: bool, sums: Any, counts: Any, at: Any
) -> None:
    """For each place its match's sum and count so far, and the place of the smallest or the largest value so far. From where
    a sum is no number of 64 bits the count is 0: the sum is null."""
    for number in range(len(first) - 1):
        total, count, best, overflown = 0, 0, -1, False
        for place in range(first[number], first[number + 1]):
            if there[place]:
                value = values[place]
                overflown = overflown or sum_overflows(total, value)
                total = 0 if overflown else total + value
                count = 0 if overflown else count + 1
                if best < 0 or (smallest and value < values[best]) or (largest and value > values[best]):
                    best = place
            sums[place], counts[place], at[place] = total, count, best


@compiled
def _less(one: float, other: float) -> bool:
    return bool(not np.isnan(one) and (np.isnan(other) or one < other))


@compiled
def run_real(
    values: Any, there: Any, first: Any, smallest: bool, largest: bool, sums: Any, counts: Any, at: Any
) -> None:
    """The same for real numbers; NaN is larger than every other."""
    for number in range(len(first) - 1):
        total, count, best = 0.0, 0, -1
        for place in range(first[number], first[number + 1]):
            if there[place]:
                value = values[place]
                total += value
                count += 1
                if best < 0 or (smallest and _less(value, values[best])) or (largest and _less(values[best], value)):
                    best = place
            sums[place], counts[place], at[place] = total, count, best


def running(values: Any, there: Any, first: Whole, function: TotalKind) -> tuple[Any, Whole, Whole]:
    """Sums, counts, and places of the smallest or largest value, up to each place of each match."""
    sums: Any = np.zeros(len(values), values.dtype)
    counts, at = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    if function == TotalKind.COUNT:
        values = np.zeros_like(values)
    run = run_real if values.dtype == np.float64 else run_whole
    run(values, there, first, function == TotalKind.MIN, function == TotalKind.MAX, sums, counts, at)
    return sums, counts, at
