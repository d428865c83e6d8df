"""The order of integers, and of rows by several integers: stable, and quicker than an `argsort`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Indexes = npt.NDArray[np.int64]
Integers = npt.NDArray[Any]

_FEW = 500
_COUNTED = 1 << 16


def ascending(values: Integers) -> Indexes:
    """Indexes that sort integers; equal ones stay as they come."""
    count = len(values)
    if count < _FEW:
        return np.argsort(values, kind="stable")
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest < _COUNTED:  # NumPy sorts so small numbers by counting
        return np.argsort((values - values.dtype.type(lowest)).astype(np.uint16), kind="stable")
    # NumPy sorts values four times as fast as it finds the order of them. So each value is sorted with its index in its
    # lower bits; what these push out of 64 bits is put right by sorting again, which is quick where little is wrong.
    index_bits = (count - 1).bit_length()
    pushed_out = max((highest - lowest).bit_length() + index_bits - 64, 0)
    keys = values.astype(np.uint64)
    keys -= np.uint64(lowest & ((1 << 64) - 1))
    if pushed_out:
        keys >>= np.uint64(pushed_out)
    keys <<= np.uint64(index_bits)
    keys |= np.arange(count, dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << index_bits) - 1)
    order = keys.view(np.int64)
    if pushed_out:
        ordered = values[order]
        if (ordered[1:] < ordered[:-1]).any():
            order = order[np.argsort(ordered, kind="stable")]
    return order


def is_ascending(*columns: Integers) -> bool:
    """Whether rows ascend by the first column, then by the second …: cheaper to see than to sort them again.

    >>> is_ascending(np.array([1, 1, 2]), np.array([5, 7, 0])), is_ascending(np.array([2, 1]))
    (True, False)
    """
    undecided: Any = True
    for values in columns:
        before, after = values[:-1], values[1:]
        if (undecided & (after < before)).any():
            return False
        undecided = undecided & (after == before)
    return True


def lexicographic(*columns: Integers) -> Indexes:
    """Indexes that sort rows by the first column, then by the second …; equal rows stay as they come.

    >>> lexicographic(np.array([1, 0, 1, 0]), np.array([5, 7, 3, 8])).tolist()
    [1, 3, 2, 0]
    """
    order = np.arange(len(columns[0]))
    if is_ascending(*columns):
        return order
    if len(columns) > 1 and len(order) >= _FEW and int(columns[0].max()) - int(columns[0].min()) < _COUNTED:
        # Rows of a partition come in their order, and then a look at the others is all there is to do.
        alone = ascending(columns[0])
        if is_ascending(*(column[alone] for column in columns)):
            return alone
    for column in columns[::-1]:
        if not is_ascending(ordered := column[order]):
            order = order[ascending(ordered)]
    return order


def running_maximum(groups: Indexes, values: Integers) -> Integers:
    """For each value the largest up to there in its group; the numbers of groups ascend.

    >>> running_maximum(np.array([0, 0, 0, 1]), np.array([3, 5, 4, 1]))
    array([3, 5, 5, 1])
    """
    if not len(values):
        return values
    distinct, rank = np.unique(values, return_inverse=True)
    # As ranks, values of a later group are larger than all of an earlier one, so that one pass serves all groups.
    above = groups * len(distinct)
    return distinct[np.maximum.accumulate(rank + above) - above]


def inverse(order: Indexes) -> Indexes:
    """The place of each row in an order."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def lengths(starts: Indexes, total: int) -> Indexes:
    """How long the stretches are that begin at `starts` and fill `total` places; `np.diff` takes ten times as long."""
    found = np.empty(len(starts), np.int64)
    if len(starts):
        np.subtract(starts[1:], starts[:-1], out=found[:-1])
        found[-1] = total - starts[-1]
    return found


def written_out(first: Indexes, lengths: Indexes) -> tuple[Indexes, Indexes]:
    """Ranges of `lengths` numbers from `first` on, written out one after the other: which range, and the number."""
    if (lengths == 1).all():
        return np.arange(len(first)), first
    before = np.cumsum(lengths) - lengths
    return np.repeat(np.arange(len(first)), lengths), np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))


def by_time_and_log(time: Integers, partition: Integers, offset: Integers) -> Indexes:
    """Indexes that sort rows by time, those of one time as they are in the log."""
    same = partition[1:] == partition[:-1]
    if ((partition[1:] > partition[:-1]) | (same & (offset[1:] >= offset[:-1]))).all():
        return ascending(time)
    return lexicographic(time, partition, offset)
