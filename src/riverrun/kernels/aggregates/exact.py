"""Sums of floats that do not depend on the order of the rows, and that retractions undo without a trace.

A sum is kept as two floats, the value and what rounding took from it. To add a column by group, each number is cut into
slices on a common grid so coarse that sums of slices are exact in any order; these few sums are then added with
compensation. What is lost lies about 1e-32 below the largest number of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SLICES = 4
_SMALLEST = -1074


def slices(values: Floats) -> list[Floats]:
    """Columns that add up to `values`, each exact under summation in any order (but the last, where all are used up).

    NaN and infinities come in a column of their own, the first.
    """
    found: list[Floats] = []
    finite = np.isfinite(values)
    if not finite.all():
        found.append(np.where(finite, 0.0, values))
        values = np.where(finite, values, 0.0)
    carry = len(values).bit_length() + 1
    for _ in range(_SLICES - 1):
        largest = float(np.abs(values).max(initial=0.0))
        if largest == 0.0:
            return found
        exponent = math.frexp(largest)[1] + carry
        if exponent > 1022:
            break
        # adding and subtracting 1.5 · 2^(52 + g) rounds to a multiple of 2^g
        anchor = math.ldexp(1.5, max(exponent - 53, _SMALLEST) + 52)
        coarse = (values + anchor) - anchor
        found.append(coarse)
        values = values - coarse
    if values.any():
        found.append(values)
    return found


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum, and the exact error."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def compensated(columns: Iterable[Floats], rows: int) -> tuple[Floats, Floats]:
    """The sum of columns, row by row, as value and error."""
    value, error = np.zeros(rows), np.zeros(rows)
    with np.errstate(invalid="ignore", over="ignore"):
        for column in columns:
            value, lost = two_sum(value, column)
            error = error + lost
        total, error = two_sum(value, error)
        odd = ~np.isfinite(total)
        if odd.any():
            # with an infinity or NaN in it, the error terms are NaN and mean nothing
            total, error = np.where(odd, value, total), np.where(odd, 0.0, error)
    return total, error


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded product, and the exact error; no error where numbers are too large to be split."""
    product = a * b
    a_high, b_high = _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(error), error, 0.0)


def _high(a: Floats) -> Floats:
    scaled = a * 134217729.0
    high: Floats = scaled - (scaled - a)
    return high


def variance(count: Floats, sums: Sequence[Floats], squares: Sequence[Floats]) -> Floats:
    """The sample variance from (value, error) of the sum and of the sum of squares; NaN for fewer than two rows."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scaled, lost = two_product(squares[0], count)
        lost = lost + squares[1] * count
        squared, rest = two_product(sums[0], sums[0])
        rest = rest + 2.0 * sums[0] * sums[1]
        difference, error = two_sum(scaled, -squared)
        total = difference + (error + (lost - rest))
        result: Floats = np.maximum(total, 0.0) / (count * (count - 1.0))
        return np.where(count > 1, np.where(np.isfinite(sums[0]), result, np.nan), np.nan)
