"""The order of rows by their key: nulls first, strings by their bytes, as Polars sorts them, in half its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from riverrun.state.frames import Mask, numbers, present, take
from riverrun.state.order import Integers, is_ascending, lexicographic
from riverrun.state.words import WORD, words_of

_NUMBERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
"""Those of NumPy; it has none of 128 bits."""

_MOST_WORDS = 4
"""Longer strings take more sorts than Polars takes time."""


def sort_by_key(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The rows in the order of their keys; those of one key as they come."""
    if rows.height < 2:
        return rows
    columns: list[Integers] = []
    for name in key:
        parts = _as_integers(rows.get_column(name))
        if parts is None:
            return rows.sort(*key, maintain_order=True)
        columns += parts
    order = lexicographic(*columns)
    return rows if is_ascending(order) else take(rows, order)


def _as_integers(column: pl.Series) -> list[Integers] | None:
    """Integers that are in the order of the values, one column after the other; None of types that have none."""
    kind = column.dtype
    is_number = kind in _NUMBERS or kind.is_temporal()
    if not is_number and kind not in (pl.Boolean, pl.String, pl.Binary):
        return None
    there = present(column)
    if is_number:
        values = [numbers(column)]
    elif kind == pl.Boolean:
        values = [numbers(column).astype(np.uint8)]
    else:
        offsets, words = words_of(column, ">u8")
        lengths = offsets[1:] - offsets[:-1]
        if there is not None:  # what lies under a null is anything
            lengths = np.where(there, lengths, 0)
        if lengths.max() > WORD * _MOST_WORDS:
            return None
        values = [*_words(offsets[:-1], lengths, words), lengths]
    return values if there is None else [there.astype(np.uint8), *(_without_nulls(part, there) for part in values)]


def _words(starts: Integers, lengths: Integers, words: Integers) -> Iterator[Integers]:
    """The first eight bytes of every value, the next eight …, zeros after its end. Which of those are its own and which
    are not, its length says."""
    shortest, longest = int(lengths.min()), int(lengths.max())
    for at in range(0, longest, WORD):
        word = words[np.minimum(starts + at, len(words) - 1)].astype(np.uint64)
        if shortest < at + WORD:
            missing = (WORD - np.clip(lengths - at, 0, WORD)).astype(np.uint64) * np.uint64(8)
            missing = np.minimum(missing, np.uint64(63))
            word >>= missing
            word <<= missing
            word[lengths <= at] = 0
        yield word


def _without_nulls(values: Integers, there: Mask) -> Integers:
    return np.where(there, values, values.dtype.type(0))
