"""How values of Arrow types are kept in stores, and back: the same value and type comes out that went in.

Inside a store a column is one of four things (`Kept`): a whole number, a double, a string or bytes.

| Spark type | kept as |
|---|---|
| boolean, tinyint … bigint | whole number |
| date, timestamp, timestamp_ntz | whole number: days, microseconds since 1970 |
| float, double | double |
| decimal | string with the column's scale |
| string | string |
| binary | bytes |
| array, map, struct | JSON; inside it times and decimals are strings, bytes are base64, NaN and infinities are strings |
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from math import isnan
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import calendar
from riverrun.errors import Invalid

_MOMENT = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))


class Kept(Enum):
    """What a store holds for a column."""

    WHOLE = "whole"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self]


_ARROW = {Kept.WHOLE: pa.int64(), Kept.DOUBLE: pa.float64(), Kept.STRING: pa.string(), Kept.BYTES: pa.binary()}


def kept_as(kind: pa.DataType) -> Kept:
    """What a store holds for values of an Arrow type (as `riverrun.ddl` makes them)."""
    is_ = pa.types
    if is_.is_boolean(kind) or is_.is_integer(kind) or is_.is_date(kind) or is_.is_timestamp(kind):
        return Kept.WHOLE
    if is_.is_floating(kind):
        return Kept.DOUBLE
    if is_.is_binary(kind):
        return Kept.BYTES
    return Kept.STRING


def is_nested(kind: pa.DataType) -> bool:
    """Whether values of the type are kept as JSON."""
    return bool(pa.types.is_nested(kind))


def keep(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column as the store holds it."""
    kind = values.type
    if is_nested(kind):
        return pa.array(_texts(values, kind), pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    return values.cast(kept_as(kind).arrow)


def give_back(values: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """The column as it was before `keep`."""
    if is_nested(kind):
        back = _from_json(kind)
        return pa.array([None if text is None else back(json.loads(text)) for text in values.to_pylist()], kind)
    if pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return calendar.clamp(values.cast(pa.int32()).cast(kind))
    return calendar.clamp(values.cast(kind))


def scalar(value: Any, name: str, kind: pa.DataType) -> pa.Array:
    """One value as an Arrow array of the column's type; a string is read as the type, as in a URL or on a command line."""
    try:
        if isinstance(value, str) and not pa.types.is_string(kind):
            if pa.types.is_timestamp(kind):
                return pa.array([datetime.fromisoformat(value)]).cast(kind)
            return pa.array([value]).cast(kind)
        if isinstance(value, int | float) and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise TypeError("a number is not a time")
        if isinstance(value, datetime) and value.tzinfo is None and pa.types.is_timestamp(kind) and kind.tz:
            raise _no_zone(value)
        return pa.array([value], kind)
    except Invalid:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"{value!r} is not a value of column {name!r} ({kind}): {error}") from None


def _no_zone(value: datetime) -> Invalid:
    return Invalid(f"{value.isoformat(' ')} is a time without a zone", hint="Give it one, as in datetime.now(UTC)")


def _texts(values: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> list[str | None]:
    there = _to_json(kind)
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    return [None if value is None else encode(there(value)) for value in calendar.clamp(values).to_pylist()]


_Convert = Callable[[Any], Any]
_INFINITE = float("inf")


def _same(value: Any) -> Any:
    return value


def _nullable(convert: _Convert) -> _Convert:
    return _same if convert is _same else lambda value: None if value is None else convert(value)


def _to_json(kind: pa.DataType) -> _Convert:
    is_ = pa.types
    if is_.is_map(kind):
        key, item = _to_json(kind.key_type), _nullable(_to_json(kind.item_type))
        return lambda pairs: [[key(k), item(v)] for k, v in pairs]
    if is_.is_struct(kind):
        fields = [(field.name, _nullable(_to_json(field.type))) for field in kind]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if is_.is_nested(kind):
        element = _nullable(_to_json(kind.value_type))
        return _same if element is _same else lambda values: [element(value) for value in values]
    if is_.is_floating(kind):
        return lambda value: value if -_INFINITE < value < _INFINITE else str(value)
    if is_.is_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    if is_.is_decimal(kind):
        return str
    if is_.is_timestamp(kind) or is_.is_date(kind):
        return lambda value: (value.replace(tzinfo=None) if isinstance(value, datetime) else value).isoformat()
    return _same


def _from_json(kind: pa.DataType) -> _Convert:
    is_ = pa.types
    if is_.is_map(kind):
        key, item = _from_json(kind.key_type), _nullable(_from_json(kind.item_type))
        return lambda pairs: [(key(k), item(v)) for k, v in pairs]
    if is_.is_struct(kind):
        fields = [(field.name, _nullable(_from_json(field.type))) for field in kind]
        return lambda value: {name: convert(value.get(name)) for name, convert in fields}
    if is_.is_nested(kind):
        element = _nullable(_from_json(kind.value_type))
        return _same if element is _same else lambda values: [element(value) for value in values]
    if is_.is_floating(kind):
        return float
    if is_.is_binary(kind):
        return base64.b64decode
    if is_.is_decimal(kind):
        return Decimal
    if is_.is_timestamp(kind):
        zone = UTC if kind.tz else None
        return lambda text: datetime.fromisoformat(text).replace(tzinfo=zone)
    if is_.is_date(kind):
        return date.fromisoformat
    return _same


def conform(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """The table with exactly the schema's columns, in its order and types; `Invalid` names what does not fit."""
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise Invalid(f"{what}: no column {missing[0]!r}; it has {', '.join(table.column_names)}")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise Invalid(f"{what}: {error}") from None


def equal_to(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    """Which values are the same: null is null, NaN is NaN."""
    part = value.as_py()
    if part is None:
        return pc.is_null(column)
    return pc.is_nan(column) if isinstance(part, float) and isnan(part) else pc.equal(column, value)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dictionaries of Python values; a map is a dict."""
    names = table.column_names
    columns = [_values(calendar.clamp(column)) for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if column.type != _MOMENT:
        return column.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    # the same as above, and many times faster
    return [None if at is None else _EPOCH + timedelta(0, 0, at) for at in column.cast(pa.int64()).to_pylist()]
