"""What every aggregate is, in plain Python over a list of rows; no state, no batches."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from riverrun.kernels.aggregates import Agg

Row = dict[str, Any]


def place(row: Row) -> tuple[int, int, int]:
    return (row["_time"], row["_partition"], row["_offset"])


def aggregate(agg: Agg, rows: Sequence[Row], span: int | None = None, retracts: bool = False) -> Any:
    """The aggregate of rows that are there; log order counts only where rows stay."""
    chosen = [row for row in rows if agg.where is None or row[agg.where]]
    if agg.fn in ("first", "last"):
        if not chosen:
            return None
        by_value = [((row["_time"], rank(row[agg.column])), row[agg.column]) for row in chosen]
        ordered = sorted(by_value) if retracts else [(0, row[agg.column]) for row in sorted(chosen, key=place)]
        return ordered[0 if agg.fn == "first" else -1][1]
    if agg.column is None:
        return len(chosen) if agg.fn == "count" else len(chosen) * agg.per / span
    chosen = [row for row in chosen if row[agg.column] is not None]
    values = [row[agg.column] for row in chosen]
    match agg.fn:
        case "count":
            return len(values)
        case "sum":
            return total(values)
        case "avg":
            return mean(values)
        case "stddev":
            return deviation(values)
        case "min":
            return min(values, key=rank, default=None)
        case "max":
            return max(values, key=rank, default=None)
        case "distinct" | "approx_distinct":
            return len({rank(value) for value in values})
        case "quantile" | "approx_quantile":
            return quantile(values, agg.q)
        case "collect":
            by_value = [((row["_time"], rank(row[agg.column])), row[agg.column]) for row in chosen]
            return (
                [value for _, value in sorted(by_value)]
                if retracts
                else [r[agg.column] for r in sorted(chosen, key=place)]
            )
        case "top":
            common = sorted(Counter(values).items(), key=lambda pair: (-pair[1], rank(pair[0])))
            return [{"value": value, "count": count} for value, count in common[: agg.n]]
    raise AssertionError(agg.fn)


def rank(value: Any) -> tuple[Any, ...]:
    """Sorts as SQL does: null first, NaN after every number."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value)


def total(values: Sequence[Any]) -> Any:
    if not values:
        return None
    if not isinstance(values[0], float):
        return sum(values[1:], start=values[0])
    odd = {value for value in values if not math.isfinite(value)}
    if odd:
        return sum(odd)
    return float(sum(Fraction(value) for value in values))


def mean(values: Sequence[Any]) -> float | None:
    if not values:
        return None
    summed = total(values)
    if isinstance(summed, float) and not math.isfinite(summed):
        return summed
    exact = Fraction(summed) if isinstance(summed, Decimal) else sum(Fraction(value) for value in values)
    return float(exact / len(values))


def deviation(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    return math.sqrt(statistics.variance([Fraction(value) for value in values]))


def quantile(values: Sequence[float], q: float) -> float | None:
    ordered = sorted((float(value) for value in values), key=rank)
    if not ordered:
        return None
    position = q * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    if low == high or position == math.floor(position):
        return low
    return (math.ceil(position) - position) * low + (position - math.floor(position)) * high
