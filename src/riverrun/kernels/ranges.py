"""Overlapping windows as ranges of sorted rows: which rows each window has, and sums over all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

Numbers = npt.NDArray[np.int64]
Columns = tuple[npt.NDArray[np.generic], ...]

WINDOW = "_window"
_CHUNK = 1 << 20


def trailing(key: Numbers, time: Numbers, at_key: Numbers, at: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """For each moment `at` of a key, the range of rows (sorted by key, time) with a time in (at - size, at]."""
    moments = np.unique(time)
    width = len(moments) + 1
    rows = key * width + np.searchsorted(moments, time)
    lo = at_key * width + np.searchsorted(moments, at - size, side="right")
    hi = at_key * width + np.searchsorted(moments, at, side="right")
    return np.searchsorted(rows, lo), np.searchsorted(rows, hi)


def expanded(rows: pl.DataFrame, lo: Numbers, hi: Numbers) -> Iterator[pl.DataFrame]:
    """The rows of every range, with the number of the range as `_window`, in pieces of bounded size."""
    lengths = hi - lo
    pieces = np.flatnonzero(np.diff(np.cumsum(lengths) // _CHUNK, prepend=-1))
    for first, behind in pairwise([*pieces.tolist(), len(lo)]):
        part = lengths[first:behind]
        window = np.repeat(np.arange(first, behind), part)
        skipped = np.repeat(np.cumsum(part) - part, part)
        index = np.arange(len(window)) - skipped + np.repeat(lo[first:behind], part)
        yield rows[index].with_columns(pl.Series(WINDOW, window))


def fold(
    values: Columns,
    lo: Numbers,
    hi: Numbers,
    combine: Callable[[Columns, Columns], Columns],
    empty: Sequence[float],
) -> Columns:
    """`combine` over the rows of each range, by a balanced tree: as many passes as the longest range has binary digits.

    Nothing is ever subtracted, so a huge or infinite value harms no range that does not contain it.
    """
    blank = tuple(np.full(len(lo), nothing, column.dtype) for nothing, column in zip(empty, values, strict=True))
    left, right = blank, tuple(column.copy() for column in blank)
    lo, hi = lo.copy(), hi.copy()
    while np.any(lo < hi):
        at = np.flatnonzero((lo < hi) & (lo & 1 == 1))
        _assign(left, at, combine(_take(left, at), _take(values, lo[at])))
        lo[at] += 1
        at = np.flatnonzero((lo < hi) & (hi & 1 == 1))
        hi[at] -= 1
        _assign(right, at, combine(_take(values, hi[at]), _take(right, at)))
        lo >>= 1
        hi >>= 1
        if len(values[0]) % 2:
            pads = (column.dtype.type(nothing) for column, nothing in zip(values, empty, strict=True))
            values = tuple(np.append(column, pad) for column, pad in zip(values, pads, strict=True))
        values = combine(tuple(c[0::2] for c in values), tuple(c[1::2] for c in values))
    return combine(left, right)


def _take(columns: Columns, at: npt.NDArray[np.intp]) -> Columns:
    return tuple(column[at] for column in columns)


def _assign(columns: Columns, at: npt.NDArray[np.intp], values: Columns) -> None:
    for column, value in zip(columns, values, strict=True):
        column[at] = value
