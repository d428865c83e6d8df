"""How values of a column stand in JSON: what msgspec checks, and the Arrow column that is made of them."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.calendar import fits

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a value that the source does not send, since it did not change (PostgreSQL's TOAST)."""

BAD_VALUE = (ValueError, ArithmeticError, pa.ArrowException)
"""What making a column raises when one of its values is none of the column's."""

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_CUT = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}  # times, divided by
# Room for every decimal there is, and an error instead of a digit less.
_EXACT = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])

Column = Callable[[list[Any]], pa.Array]


class VariableScale(msgspec.Struct, gc=False):
    """A decimal that brings its own scale."""

    scale: int
    value: bytes


@dataclass(frozen=True)
class Wire:
    """The type of a column's values in JSON, null aside, and the Arrow column of a list of them.

    `arrow` raises one of BAD_VALUE when a value does not fit. `unavailable` is what stands for a value that was not sent.
    """

    json: Any
    arrow: Column
    unavailable: Any = None


def plain(kind: ddl.Type) -> Wire:
    """Strings, booleans and numbers, of which there is one way to be written."""
    target = ddl.to_arrow(kind)
    name = str(kind)
    if name in _BITS:
        return Wire(_whole(name), lambda values: pa.array(values, target))
    if name == "boolean":  # MySQL has none, but tinyint(1)
        return Wire(bool | Annotated[int, msgspec.Meta(ge=0, le=1)], _booleans)
    if name in ("float", "double"):
        special = Literal["NaN", "Infinity", "-Infinity"]
        return Wire(float | special, lambda values: pa.array(_floats(values), target))
    if name == "binary":
        return Wire(bytes, lambda values: pa.array(values, target), UNAVAILABLE.encode())
    return Wire(str, lambda values: pa.array(values, target), UNAVAILABLE)


def _whole(name: str) -> Any:
    """Whole numbers that a type has."""
    half = 1 << (_BITS[name] - 1)
    return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]


def documents() -> Wire:
    """Strings, and objects and lists of JSON, which become their text."""
    return Wire(str | dict[str, Any] | list[Any], lambda values: pa.array(_each(values, _text), pa.string()))


def dates() -> Wire:
    """Days since 1970, or 2026-01-31."""
    return Wire(_whole("int") | str, _dates)


def moments(kind: ddl.Type, unit: str | None) -> Wire:
    """Numbers of this unit since 1970, or 2026-01-31T12:00:00Z; a time without a zone is one in UTC."""
    target = ddl.to_arrow(kind)
    return Wire(_whole("bigint") | str, lambda values: _moments(values, unit, target))


def exact_numbers(kind: ddl.Decimal) -> Wire:
    """JSON numbers, to the last digit, or strings that are numbers."""
    target = ddl.to_arrow(kind)
    return Wire(decimal.Decimal, lambda values: _decimals(values, target))


def written_numbers(kind: ddl.Decimal) -> Wire:
    """Strings that are numbers."""
    target = ddl.to_arrow(kind)
    return Wire(str | VariableScale, lambda values: _decimals(_each(values, _decimal), target), UNAVAILABLE)


def doubles_as_decimals(kind: ddl.Decimal) -> Wire:
    """JSON numbers. A string may be one, or the bytes of one: it is refused."""
    target = ddl.to_arrow(kind)
    return Wire(int | float | VariableScale | str, lambda values: _decimals(_each(values, _number), target))


def scaled_bytes(kind: ddl.Decimal, scale: int) -> Wire:
    """Base64 of a whole number, big end first, that is to be divided by 10 ** scale."""
    target = ddl.to_arrow(kind)
    return Wire(bytes | VariableScale, lambda values: _scaled(values, scale, kind, target), UNAVAILABLE.encode())


def lists(element: Wire, kind: ddl.Array) -> Wire:
    """Lists of what another wire has."""
    unavailable = [element.unavailable] if isinstance(element.unavailable, str) else None
    return Wire(list[element.json | None], lambda values: _lists(values, element, kind), unavailable)  # type: ignore[name-defined]


def _each(values: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _text(value: str | dict[str, Any] | list[Any]) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _booleans(values: list[Any]) -> pa.Array:
    return pa.array(_each(values, bool) if int in set(map(type, values)) else values, pa.bool_())


def _floats(values: list[Any]) -> list[Any]:
    if str not in set(map(type, values)):
        return values
    return [float(value) if type(value) is str else value for value in values]


def _dates(values: list[Any]) -> pa.Array:
    made = pa.array(_each(values, _day), pa.int32()).cast(pa.date32())
    return _within_calendar(made)


def _day(value: int | str) -> int:
    return value if isinstance(value, int) else (dt.date.fromisoformat(value) - _EPOCH.date()).days


def _moments(values: list[Any], unit: str | None, target: pa.DataType) -> pa.Array:
    kinds = set(map(type, values))
    if str in kinds and int not in kinds and (read := _read_alike(values)) is not None:
        counts = read.cast(pa.int64())
    elif str in kinds:
        counts = pa.array(_each(values, lambda value: _micros(value, unit)), pa.int64())
    elif unit is None and int in kinds:
        raise _no_unit(next(value for value in values if value is not None))
    else:
        counts = _in_micros(pa.array(values, pa.int64()), unit or "us")
    return _within_calendar(counts.cast(target))


def _read_alike(values: list[Any]) -> pa.Array | None:
    """Moments that are all written with a zone, or all without; None where Arrow cannot read them all."""
    texts = pa.array(values, pa.string())
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _in_micros(counts: pa.Array, unit: str) -> pa.Array:
    factor, divisor = _CUT[unit]
    try:
        counts = pc.multiply_checked(counts, factor)
    except pa.ArrowInvalid:
        raise _beyond() from None
    if divisor == 1:
        return counts
    floored = np.floor_divide(counts.fill_null(0).to_numpy(), divisor)
    return pa.array(floored, pa.int64(), mask=counts.is_null().to_numpy(zero_copy_only=False))


def _micros(value: int | str, unit: str | None) -> int:
    if isinstance(value, int):
        if unit is None:
            raise _no_unit(value)
        return int(_in_micros(pa.array([value], pa.int64()), unit)[0].as_py())
    moment = dt.datetime.fromisoformat(value)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH) // _MICROSECOND


def _no_unit(value: int) -> ValueError:
    return ValueError(
        f"{value} is a number, and nothing says of which unit; declare the table with times='ms', 'us' or 'ns'"
    )


def _beyond() -> ValueError:
    return ValueError("is not in the years 1 to 9999")


def _within_calendar(made: pa.Array) -> pa.Array:
    if not fits(made):
        raise _beyond()
    return made


def _decimals(values: list[Any], target: pa.DataType) -> pa.Array:
    if any(value is not None and not value.is_finite() for value in values):
        raise ValueError("is not a finite number")
    return pa.array(values, target)


def _decimal(value: str | VariableScale) -> decimal.Decimal:
    if isinstance(value, VariableScale):
        return _EXACT.scaleb(decimal.Decimal(int.from_bytes(value.value, "big", signed=True)), -value.scale)
    try:
        return decimal.Decimal(value)
    except decimal.InvalidOperation:
        raise ValueError(f"{value!r} is not a number") from None


def _number(value: float | str | VariableScale) -> decimal.Decimal:
    if isinstance(value, str):
        raise ValueError(
            f"{value!r} is a string, and nothing says whether it is a number or the bytes of one; declare the table with"
            " decimals='string' or 'precise'"
        )
    return _decimal(value) if isinstance(value, VariableScale) else decimal.Decimal(repr(value))


def _scaled(values: list[Any], scale: int, kind: ddl.Decimal, target: pa.DataType) -> pa.Array:
    if scale != kind.scale or any(type(value) is VariableScale for value in values):
        return _decimals(_each(values, lambda value: _of_bytes(value, scale)), target)
    # A decimal in Arrow is what the bytes say, with 16 of them and the small end first.
    most = 10**kind.precision
    empty, parts = bytes(16), []
    for value in values:
        whole = 0 if value is None else int.from_bytes(value, "big", signed=True)
        if not -most < whole < most:
            raise ValueError(f"{_of_bytes(value, scale)} has more digits than {kind}")
        parts.append(whole.to_bytes(16, "little", signed=True) if value is not None else empty)
    there = np.packbits([value is not None for value in values], bitorder="little") if None in values else None
    buffers = [None if there is None else pa.py_buffer(there), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(target, len(values), buffers)


def _of_bytes(value: bytes | VariableScale, scale: int) -> decimal.Decimal:
    return _decimal(value if isinstance(value, VariableScale) else VariableScale(scale, value))


def _lists(values: Sequence[list[Any] | None], element: Wire, kind: ddl.Array) -> pa.Array:
    sizes = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    inner = element.arrow([part for value in values if value is not None for part in value])
    null = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), inner, ddl.to_arrow(kind), mask=null)
