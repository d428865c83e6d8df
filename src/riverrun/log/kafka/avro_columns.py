"""Avro of many rows at once, column by column, where all are plain: strings, bytes, numbers, booleans, dates, timestamps.

It is the fast way, and gives exactly what goes the slow way, record by record; None where it is not certain to. A record is
its fields one after the other, and a field is a byte that says whether there is a value, and the value: a number as a
varint, text as its length and its bytes, a float as it is in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import calendar

_NONE, _SOME = 0, 2  # what stands before a value, or instead of one: the branch of the union, as a varint
_LONGEST = 10  # bytes of a varint of 64 bits
_ROOM = np.zeros(_LONGEST, np.uint8)  # behind the last byte, so that nobody looks beyond the end


class _Odd(Exception):
    """Something that only record by record can be said to be right or wrong."""


def encode_columns(rows: pa.RecordBatch) -> list[bytes] | None:
    """A record for each row."""
    pieces: list[Any] = []
    for column in rows.columns:
        if not _is_plain(column.type):
            return None
        pieces += _written(column)
    if not pieces:
        return None
    return list(pc.binary_join_element_wise(*pieces, b"").to_pylist())


def _written(column: pa.Array) -> list[pa.Array]:
    """The bytes of a field of each row, in one part or two."""
    kind, there = column.type, np.asarray(column.is_valid())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy()
        return [_marked(_varints(lengths.astype(np.int64)), there), column.cast(pa.binary()).fill_null(b"")]
    if pa.types.is_floating(kind):
        values = np.ascontiguousarray(column.fill_null(0).to_numpy())
        width = values.itemsize
        return [_marked((values.view(np.uint8).reshape(-1, width), np.full(len(values), width)), there)]
    if pa.types.is_boolean(kind):
        flags = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)
        return [_marked((flags.reshape(-1, 1), np.ones(len(flags), np.int64)), there)]
    return [_marked(_varints(_whole(column)), there)]


def _whole(column: pa.Array) -> np.ndarray:
    """The numbers that a column's values are: of a time its microseconds, of a date its days."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    return np.asarray(column.fill_null(0).to_numpy()).astype(np.int64)


def _varints(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in zigzag as varints, a row each, and how many bytes of it count."""
    left = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    widest = max(1, -(-int(left.max(initial=0)).bit_length() // 7))
    digits = np.empty((len(left), widest), np.uint8)
    lengths = np.ones(len(left), np.int64)
    for i in range(widest):
        digits[:, i] = left & np.uint64(0x7F)
        left = left >> np.uint64(7)
        lengths += left != 0
        digits[:, i] |= np.where(left != 0, 0x80, 0).astype(np.uint8)
    return digits, lengths


def _marked(values: tuple[np.ndarray, np.ndarray], there: np.ndarray) -> pa.Array:
    """Values behind the byte that says that they are there; that they are not, is a byte alone."""
    digits, lengths = values
    every = np.empty((len(digits), digits.shape[1] + 1), np.uint8)
    every[:, 0] = np.where(there, _SOME, _NONE)
    every[:, 1:] = digits
    lengths = np.where(there, lengths + 1, 1)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    flat = every.ravel() if offsets[-1] == every.size else every[np.arange(every.shape[1]) < lengths[:, None]]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(flat))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def decode_columns(values: Sequence[bytes], written: pa.Schema, required: Sequence[str]) -> pa.RecordBatch | None:
    """The rows of records with these fields, in which the required ones have values."""
    if not values or not all(_is_plain(field.type) for field in written):
        return None
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    records = _Records(np.frombuffer(b"".join([*values, _ROOM.tobytes()]), np.uint8), ends)
    try:
        columns = [records.column(field.type) for field in written]
        records.check_end()
        rows = pa.RecordBatch.from_arrays(columns, schema=written)
        rows.validate(full=True)  # that texts are UTF-8
    except (_Odd, pa.ArrowException, OverflowError):
        return None
    if any(rows.column(name).null_count for name in required) or not all(map(calendar.fits, rows.columns)):
        return None
    return rows


class _Records:
    """Where in its record each row is."""

    def __init__(self, data: np.ndarray, ends: np.ndarray) -> None:
        self._data = data
        self._ends = ends
        self._at = np.concatenate([[0], ends[:-1]])

    def column(self, kind: pa.DataType) -> pa.Array:
        """The next field of all rows."""
        self._check_inside()
        marks = self._data[self._at]
        self._at = self._at + 1
        there = marks == _SOME
        if not (there | (marks == _NONE)).all():
            raise _Odd
        valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return self._texts(kind, there, valid)
        if pa.types.is_boolean(kind):
            flags = self._fixed(there, 1)[:, 0]
            if flags.max(initial=0) > 1:
                raise _Odd
            return pa.Array.from_buffers(kind, len(there), [valid, pa.py_buffer(np.packbits(flags, bitorder="little"))])
        if pa.types.is_floating(kind):
            raw = self._fixed(there, kind.bit_width // 8)
        else:
            numbers = self._numbers(there)
            raw = numbers.astype(f"i{kind.bit_width // 8}")
            if not (raw == numbers).all():
                raise _Odd
        return pa.Array.from_buffers(kind, len(there), [valid, pa.py_buffer(np.ascontiguousarray(raw))])

    def check_end(self) -> None:
        """Every record has been read to its end, and none further."""
        if not (self._at == self._ends).all():
            raise _Odd

    def _check_inside(self) -> None:
        if (self._at >= self._ends).any():
            raise _Odd

    def _numbers(self, there: np.ndarray) -> np.ndarray:
        """Varints of those that are there, 0 of the others."""
        found, more = np.zeros(len(there), np.uint64), there
        for i in range(_LONGEST):
            self._check_width(more, 1)
            digits = np.where(more, self._data[np.minimum(self._at, len(self._data) - 1)], 0)
            if i == _LONGEST - 1 and digits.max(initial=0) > 1:
                raise _Odd  # more than 64 bits
            found |= (digits & 0x7F).astype(np.uint64) << np.uint64(7 * i)
            self._at = self._at + more
            more = digits >= 0x80
            if not more.any():
                return (found >> np.uint64(1)).view(np.int64) ^ -(found & np.uint64(1)).view(np.int64)
        raise _Odd

    def _fixed(self, there: np.ndarray, width: int) -> np.ndarray:
        """So many bytes of those that are there, zeros of the others."""
        self._check_width(there, width)
        places = self._at[:, None] + np.arange(width)
        found = self._data[np.minimum(places, len(self._data) - 1)]
        self._at = self._at + np.where(there, width, 0)
        return np.where(there[:, None], found, 0).astype(np.uint8)

    def _check_width(self, there: np.ndarray, width: Any) -> None:
        if ((self._at + width > self._ends) & there).any():
            raise _Odd

    def _texts(self, kind: pa.DataType, there: np.ndarray, valid: Any) -> pa.Array:
        lengths = self._numbers(there)
        if (lengths < 0).any() or (lengths > self._ends - self._at).any():
            raise _Odd
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # For every byte of the column where it is in the records: behind its own text's others.
        places = np.arange(offsets[-1]) + np.repeat(self._at - offsets[:-1], lengths)
        self._at = self._at + lengths
        buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self._data[places])]
        return pa.Array.from_buffers(kind, len(lengths), buffers)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )
