"""Strings and bytes as words of 64 bits, so that NumPy hashes and sorts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.state.order import Indexes

WORD = 8
"""Bytes in a word."""

Words = npt.NDArray[Any]


def words_of(column: pl.Series, kind: str) -> tuple[Indexes, Words]:
    """The offsets of the values of a column that has some, and the word at every byte, of the kind `<u8` or `>u8`.

    The last value is followed by zeros. Nothing is copied but the bytes.
    """
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.empty(last - first + WORD, dtype=np.uint8)
    data[last - first :] = 0
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, dtype=np.uint8)[first:last]
    words: Words = np.ndarray((last - first + 1,), dtype=kind, buffer=data, strides=(1,))
    return offsets - first if first else offsets, words
