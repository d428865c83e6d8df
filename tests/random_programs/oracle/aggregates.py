"""Every exact aggregate over a list of rows, by definition."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from random_programs.expressions import value
from random_programs.oracle.facts import Fact
from random_programs.program import Aggregation
from random_programs.values import canonical, rank


def aggregate(made: Aggregation, rows: Sequence[Fact], by_value: bool, span: int | None = None) -> Any:
    """The aggregate of rows. Equal times are ordered by the log, or `by_value` where rows have no place in one."""
    if made.where is not None:
        rows = [row for row in rows if value(made.where, row.values)]
    if made.function == "rate":
        assert span is not None
        return len(rows) * 1_000_000 / span
    if made.value is None:
        return len(rows)
    pairs = [(row, value(made.value, row.values)) for row in rows]
    pairs.sort(key=lambda pair: (pair[0].time, rank(pair[1]) if by_value else pair[0].place))
    if made.function in ("first", "last"):
        return pairs[0 if made.function == "first" else -1][1] if pairs else None
    values = [one for _, one in pairs if one is not None]
    match made.function:
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
        case "distinct":
            return len({canonical(one) for one in values})
        case "quantile":
            return quantile(values, float(made.argument or 0))
        case "collect":
            return values
        case "top":
            often = Counter(canonical(one) for one in values)
            shown = {canonical(one): one for one in values}
            ordered = sorted(often, key=lambda one: (-often[one], rank(shown[one])))
            return [{"value": shown[one], "count": often[one]} for one in ordered[: int(made.argument or 0)]]
    raise AssertionError(made.function)


def total(values: Sequence[Any]) -> Any:
    if not values:
        return None
    if not isinstance(values[0], float):
        return sum(values[1:], start=values[0])
    odd = {canonical(one): one for one in values if not math.isfinite(one)}
    if odd:
        return sum(odd.values())
    return _rounded(sum(Fraction(one) for one in values))


def _rounded(exact: Fraction | int) -> float:
    """The nearest double; beyond the largest there is inf."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def mean(values: Sequence[Any]) -> float | None:
    if not values:
        return None
    summed = total(values)
    if isinstance(summed, float):
        return summed if not math.isfinite(summed) else _rounded(sum(map(Fraction, values)) / len(values))
    return float(Fraction(summed) / len(values))


def deviation(values: Sequence[Any]) -> float | None:
    if len(values) < 2:
        return None
    if any(isinstance(one, float) and not math.isfinite(one) for one in values):
        return math.nan
    squared = statistics.variance([Fraction(one) for one in values])
    unit = 2**600 if squared > 2**1000 else 1  # the square of a double may be none
    return _rounded(squared / unit**2) ** 0.5 * unit


def quantile(values: Sequence[Any], q: float) -> float | None:
    ordered = sorted((float(one) if isinstance(one, int | Decimal) else one for one in values), key=rank)
    if not ordered:
        return None
    position = q * (len(ordered) - 1)
    below, above = math.floor(position), math.ceil(position)
    low, high = ordered[below], ordered[above]
    if below == above or low == high:
        return float(low)
    return float((above - position) * low + (position - below) * high)
