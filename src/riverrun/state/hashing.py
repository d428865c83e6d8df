"""A 64-bit hash of key columns that stays the same in every process and with every version of Polars.

It orders the rows of run files, so it must never change. Equal keys have equal hashes: nulls too, NaN whatever its
bits, and -0.0 as 0.0. It is no promise of equality; whoever finds a row by its hash compares the columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from riverrun.errors import Invalid

Hashes = npt.NDArray[np.uint64]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_ROUND = np.uint64(0x9FB21C651E98DF25)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_WORD = 8
_EDGE = 128
"""Of a longer string its length and this many bytes of either end count; equality is checked elsewhere."""

_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


def hash_columns(frame: pl.DataFrame, columns: Sequence[str]) -> Hashes:
    """One hash per row over the given columns, in their order."""
    total = np.full(frame.height, _SEED, dtype=np.uint64)
    for name in columns:
        total = _mixed((total ^ _hash_series(frame[name])) * _ROUND)
    return total


def _mixed(x: Hashes) -> Hashes:
    x = (x ^ (x >> np.uint64(30))) * _MIX_A
    x = (x ^ (x >> np.uint64(27))) * _MIX_B
    return x ^ (x >> np.uint64(31))


def _hash_series(series: pl.Series) -> Hashes:
    kind = series.dtype
    if kind.is_integer() or kind == pl.Boolean or (kind.is_temporal() and not kind.is_nested()):
        bits = series.to_physical().cast(pl.Int64).fill_null(0).to_numpy().view(np.uint64)
    elif kind.is_float():
        # adding 0.0 turns -0.0 into 0.0; all NaN become the one NaN of NumPy
        values = series.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
        values[np.isnan(values)] = np.nan
        bits = values.view(np.uint64)
    elif kind in (pl.String, pl.Binary):
        bits = _hash_bytes(series.fill_null("" if kind == pl.String else b""))
    elif kind.is_decimal():
        bits = _hash_decimal(series.fill_null(0))
    elif isinstance(kind, pl.Struct):
        bits = hash_columns(series.struct.unnest(), [field.name for field in kind.fields])
    else:
        raise Invalid(f"column {series.name!r} of type {kind} cannot be a key", hint="Use a part of it, or its text")
    mixed = _mixed(bits)
    if series.null_count():
        mixed[series.is_null().to_numpy()] = _NULL
    return mixed


def _hash_decimal(series: pl.Series) -> Hashes:
    if series.is_empty():
        return np.empty(0, dtype=np.uint64)
    array = _one_chunk(series)
    halves = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    return _mixed(halves[:, 0]) ^ halves[:, 1] * _ROUND


def _hash_bytes(series: pl.Series) -> Hashes:
    if series.is_empty():
        return np.empty(0, dtype=np.uint64)
    array = _one_chunk(series)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + _WORD, dtype=np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, dtype=np.uint8)[first:last]
    # every byte position read as a little-endian word, without copying
    words: Hashes = np.ndarray((last - first + 1,), dtype="<u8", buffer=data, strides=(1,))
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashes = lengths.astype(np.uint64) * _SEED
    _absorb(hashes, words, starts, np.minimum(lengths, _EDGE))
    long = np.flatnonzero(lengths > _EDGE)
    if len(long):
        tails = np.minimum(lengths[long] - _EDGE, _EDGE)
        hashes[long] = _absorb(hashes[long], words, starts[long] + lengths[long] - tails, tails)
    return hashes


def _absorb(hashes: Hashes, words: Hashes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Mix `lengths` bytes from `starts` into `hashes`, in place, one word of every row at a time."""
    rows: npt.NDArray[np.intp] | None = None  # which rows still have bytes; None: all of them
    for at in range(0, _EDGE, _WORD):
        left = lengths - at
        if left.min() <= 0:
            more = np.flatnonzero(left > 0)
            if not len(more):
                break
            rows = more if rows is None else rows[more]
            starts, lengths, left = starts[more], lengths[more], left[more]
        word = words[starts + at] & _MASKS[np.minimum(left, _WORD)]
        mixed = ((hashes if rows is None else hashes[rows]) ^ word) * _ROUND
        mixed ^= mixed >> np.uint64(32)
        hashes[slice(None) if rows is None else rows] = mixed
    return hashes


def _one_chunk(series: pl.Series) -> pa.Array:
    return series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
