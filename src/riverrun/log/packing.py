"""Single rows as bytes: checked one by one when they are sent, made into one batch when they are appended.

A packed row is the sender's no more, so the sender may go on changing it; its size is known; and it can wait on disk.
It is a msgpack array of the hidden columns and then the topic's, which grow at the end: an older one is only shorter.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from riverrun import calendar, ddl
from riverrun.durations import FIRST, LAST
from riverrun.log.row_types import python_type, row_struct
from riverrun.log.rows import LARGEST_FLOAT, TEMPORAL, RowSchema, completed
from riverrun.log.scalars import plain_rows
from riverrun.log.times import EPOCHS

_ARRAY = b"\xdd"  # msgpack: an array whose length follows in 4 bytes
_REFUSED = (msgspec.ValidationError, TypeError, ValueError, OverflowError)
_SURELY_SMALL = 16  # a value takes at most this many times its packed bytes in a batch
_EDGES = (1, 9999)  # years in which a zone decides whether it is one of the calendar in UTC
_NATIVE = {"string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "binary"}


class Packing:
    """How the rows of one topic are packed, by one version of its schema."""

    def __init__(self, schema: RowSchema) -> None:
        self._schema = schema
        self._columns = [*schema.hidden, *schema.columns]
        self._arrow = ddl.arrow_schema(self._columns)
        self._strict = row_struct(self._columns, schema.times, required=schema.required)
        self._lenient = row_struct(self._columns, schema.times)
        self._encode = msgspec.msgpack.Encoder().encode
        # Values of any type, because a batch's are read column by column; without a place in the garbage collector.
        names = [f"c{i}" for i in range(len(self._columns))]
        plain = msgspec.defstruct("Packed", [(name, Any, None) for name in names], array_like=True, gc=False)
        self._decode = msgspec.msgpack.Decoder(list[plain]).decode  # type: ignore[valid-type]
        self._getters = [attrgetter(name) for name in names]
        self._floats = [i for i, field in enumerate(self._arrow) if pa.types.is_float32(field.type)]
        # msgspec knows everything about a value but whether a decimal fits, and which year a time is of in UTC.
        nested = [field.type for field in self._arrow if pa.types.is_nested(field.type)]
        self._tried = any("decimal" in str(column.type) for column in self._columns) or any(
            map(calendar.has_times, nested)
        )
        self._times = [i for i, field in enumerate(self._arrow) if pa.types.is_timestamp(field.type)]
        # pyarrow imports what it needs with the first values, which is too late when the interpreter is ending.
        self.batch([self._encode(())])

    def pack(self, row: Mapping[str, Any]) -> bytes:
        """The row as bytes if `append` would take it, else the error that names the column."""
        try:
            values = msgspec.structs.astuple(msgspec.convert(row, self._strict))
            packed = self._encode(values)
        except _REFUSED:
            # A tombstone, which needs only its key; anything else is refused here, a list of rows too.
            self._schema.batch([row])
            (plain,) = plain_rows([row])
            return self._encode(msgspec.structs.astuple(msgspec.convert(plain, self._lenient)))
        if self._tried or len(packed) * _SURELY_SMALL > self._schema.limit:
            self._schema.batch(row)
        for i in self._floats:
            if values[i] is not None and abs(values[i]) > LARGEST_FLOAT:
                self._schema.batch(row)
        for i in self._times:
            if values[i] is not None and self._is_odd(values[i]):
                self._schema.batch(row)
        return packed

    def _is_odd(self, time: dt.date | float) -> bool:
        """Whether a time may lie outside the calendar, or be none."""
        if isinstance(time, dt.date):
            return time.year in _EDGES
        return not FIRST <= time * EPOCHS[self._schema.times.epoch or "ms"] <= LAST

    def batch(self, packed: Sequence[bytes]) -> pa.RecordBatch:
        """One batch of packed rows, in their order, as `RowSchema.batch` gives it."""
        rows = self._decode(_ARRAY + len(packed).to_bytes(4, "big") + b"".join(packed))
        columns = [list(map(get, rows)) for get in self._getters]
        width = len(columns)
        hidden = len(self._schema.hidden)
        kept = [i for i in range(width) if i >= hidden or any(value is not None for value in columns[i])]
        kept.sort(key=lambda i: (i < hidden, i))
        arrays = [self._array(columns[i], self._columns[i], self._arrow[i]) for i in kept]
        return completed(pa.RecordBatch.from_arrays(arrays, schema=pa.schema([self._arrow[i] for i in kept])))

    def _array(self, values: Sequence[Any], column: ddl.Column, field: pa.Field) -> pa.Array:
        kind = str(column.type)
        times = self._schema.times
        make = times.array if kind == "timestamp" else pa.array
        if kind in _NATIVE or (kind == "timestamp" and not any(isinstance(value, str) for value in values)):
            return make(values, field.type)
        read = msgspec.convert(values, list[python_type(column.type, times) | None])  # type: ignore[misc]
        return make(msgspec.to_builtins(read, builtin_types=TEMPORAL), field.type)
