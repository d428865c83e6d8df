"""A 64-bit hash of key columns that stays the same in every process and with every version of Polars.

It orders the rows of run files, so it must never change. Equal keys have equal hashes: nulls too, NaN whatever its
bits, and -0.0 as 0.0. It is no promise of equality; whoever finds a row by its hash compares the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.datatypes import DataTypeClass

from riverrun.errors import Invalid
from riverrun.state.frames import numbers, pick, present
from riverrun.state.words import WORD, words_of

Hashes = npt.NDArray[np.uint64]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_ROUND = np.uint64(0x9FB21C651E98DF25)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_EDGE = 128
"""Of a longer string its length and this many bytes of either end count; equality is checked elsewhere."""

_BLOCK = 1 << 14
"""Rows hashed at a time: as many as stay in the processor's cache from one operation to the next."""

_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(WORD + 1)], dtype=np.uint64)
_SHIFTS = tuple(np.uint64(bits) for bits in (30, 27, 31, 32))


def hash_columns(rows: pl.DataFrame, columns: Sequence[str], before: Hashes | None = None) -> Hashes:
    """One hash per row over the given columns, in their order; `before` is that of columns that come first."""
    total = np.full(rows.height, _SEED, dtype=np.uint64) if before is None else before.copy()
    for name in columns:
        column = rows.get_column(name)
        bits = _bits_of(column)
        there = present(column)
        for block in _blocks(len(total)):
            one = bits[block].copy()
            _mix(one)
            if there is not None:
                one[~there[block]] = _NULL
            part = total[block]
            part ^= one
            part *= _ROUND
            _mix(part)
    return total


def quick_hashes(rows: pl.DataFrame, columns: Sequence[str]) -> Hashes:
    """The same for use within a step, of columns of every type, in a fraction of the time.

    Another version of Polars gives others, so neither files nor the order of results may depend on them.
    """
    return pick(rows, columns).hash_rows().to_numpy()


def can_hash(kind: pl.DataType | DataTypeClass) -> bool:
    """Whether there are hashes of this type; lists and maps have none."""
    if isinstance(kind, pl.Struct):
        return all(can_hash(field.dtype) for field in kind.fields)
    return not kind.is_nested()


def combine(hashes: Hashes, numbers: npt.NDArray[np.int64]) -> Hashes:
    """One hash for each pair of a hash and a number."""
    total = (hashes ^ numbers.view(np.uint64)) * _ROUND
    _mix(total)
    return total


def _blocks(length: int) -> Iterator[slice]:
    return (slice(at, at + _BLOCK) for at in range(0, length, _BLOCK))


def _mix(x: Hashes) -> None:
    """Spread the bits of every number, in place."""
    first, second, third, _ = _SHIFTS
    x ^= x >> first
    x *= _MIX_A
    x ^= x >> second
    x *= _MIX_B
    x ^= x >> third


def _bits_of(column: pl.Series) -> Hashes:
    """64 bits that follow from each value; under a null, any."""
    kind = column.dtype
    if kind.is_integer() or kind == pl.Boolean or (kind.is_temporal() and not kind.is_nested()):
        return cast(Hashes, numbers(column.cast(pl.Int64)).view(np.uint64))
    if kind.is_float():
        # adding 0.0 turns -0.0 into 0.0; all NaN become the one NaN of NumPy
        values = numbers(column.cast(pl.Float64)) + 0.0
        values[np.isnan(values)] = np.nan
        return cast(Hashes, values.view(np.uint64))
    if kind in (pl.String, pl.Binary):
        return _hash_bytes(column)
    if kind.is_decimal():
        return _hash_decimal(column)
    if isinstance(kind, pl.Struct):
        return hash_columns(column.struct.unnest(), [field.name for field in kind.fields])
    raise Invalid(f"column {column.name!r} of type {kind} cannot be a key", hint="Use a part of it, or its text")


def _hash_decimal(column: pl.Series) -> Hashes:
    if column.is_empty():
        return np.empty(0, dtype=np.uint64)
    array = column.rechunk().to_arrow()
    halves = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low = halves[:, 0].copy()
    _mix(low)
    return low ^ halves[:, 1] * _ROUND


def _hash_bytes(column: pl.Series) -> Hashes:
    if column.is_empty():
        return np.empty(0, dtype=np.uint64)
    offsets, words = words_of(column, "<u8")
    hashes = np.empty(len(column), dtype=np.uint64)
    for block in _blocks(len(column)):
        bounds = offsets[block.start : block.stop + 1]
        starts, lengths = bounds[:-1], bounds[1:] - bounds[:-1]
        part = hashes[block]
        np.multiply(lengths.view(np.uint64), _SEED, out=part)
        longest = int(lengths.max())
        _absorb(part, words, starts, lengths if longest <= _EDGE else np.minimum(lengths, _EDGE))
        if longest > _EDGE:
            long = np.flatnonzero(lengths > _EDGE)
            tails = np.minimum(lengths[long] - _EDGE, _EDGE)
            part[long] = _absorb(part[long], words, starts[long] + lengths[long] - tails, tails)
    return hashes


def _absorb(hashes: Hashes, words: Hashes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Mix `lengths` bytes from `starts` into `hashes`, in place, one word of every row at a time."""
    rows: npt.NDArray[np.intp] | None = None  # which rows still have bytes; None: all of them
    shortest, longest = int(lengths.min()), int(lengths.max())
    for at in range(0, longest, WORD):
        if shortest <= at:
            more = np.flatnonzero(lengths > at)
            rows = more if rows is None else rows[more]
            starts, lengths = starts[more], lengths[more]
            shortest = int(lengths.min())
        word = words[starts + at if at else starts]
        if shortest < at + WORD:
            word &= _MASKS[longest - at if shortest == longest else np.minimum(lengths - at, WORD)]
        word ^= hashes if rows is None else hashes[rows]
        word *= _ROUND
        word ^= word >> _SHIFTS[3]
        hashes[slice(None) if rows is None else rows] = word
    return hashes
