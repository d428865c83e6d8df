"""Expressions without columns that are known when they are translated."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as Exact

from riverrun.ddl import Decimal, Type
from riverrun.expressions import readers
from riverrun.flow.coercion import is_interval, is_months
from riverrun.flow.schema import BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, is_integral
from riverrun.flow.syntax import Call, Constant

BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_READERS: dict[Type, Callable[[str], object]] = {DATE: readers.read_date, TIMESTAMP: readers.read_timestamp}
_WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_DOUBLE: dict[str, Callable[[float, float], float]] = {**_WHOLE, "/": lambda a, b: a / b}  # type: ignore[dict-item]


def fits(number: int, kind: Type) -> bool:
    """Whether a type of whole numbers has this number."""
    bits = BITS.get(str(kind), 31 if is_months(kind) else 63)
    return -(1 << bits) <= number < 1 << bits


def _number(number: int, kind: Type) -> Constant | None:
    return Constant(kind, number) if (is_integral(kind) or is_interval(kind)) and fits(number, kind) else None


def folded_cast(value: Constant | None, kind: Type) -> Constant | None:
    """A constant in another type; None if it is to be cast for every row."""
    if value is None or isinstance(value.value, bool | float):
        return None
    if value.type == STRING and isinstance(value.value, str):
        return _read(value.value, kind)
    number = value.value
    if kind == DOUBLE and isinstance(number, int | Exact) and _is_exact(value.type):
        return Constant(DOUBLE, float(number))
    if value.type == DATE and kind == TIMESTAMP and isinstance(number, int):
        return Constant(TIMESTAMP, number * readers.DAY)
    if not isinstance(number, int) or not is_integral(value.type):
        return None
    if is_integral(kind) and fits(number, kind):
        return Constant(kind, number)
    if isinstance(kind, Decimal) and abs(number) < 10 ** (kind.precision - kind.scale):
        return Constant(kind, Exact(number))
    return None


def _is_exact(kind: Type) -> bool:
    return is_integral(kind) or isinstance(kind, Decimal)


def _read(text: str, kind: Type) -> Constant | None:
    """A string as something else, if it can be read."""
    value: object = None
    if kind in _READERS:
        try:
            value = _READERS[kind](text)
        except ValueError:  # it would be another one every day
            return None
    elif is_integral(kind):
        trimmed = text.strip(readers.BLANKS)
        is_number = trimmed.lstrip("+-").isdecimal() and trimmed.isascii() and len(trimmed) < 30
        value = int(trimmed) if is_number and trimmed.count("+") + trimmed.count("-") < 2 else None
        value = value if isinstance(value, int) and fits(value, kind) else None
    elif kind == DOUBLE:
        number = readers.read_double(text)
        value = float(number) if number is not None else None
    elif isinstance(kind, Decimal):
        digits = readers.read_decimal(text, kind.precision, kind.scale)
        value = Exact(digits) if digits is not None else None
    elif kind == BOOLEAN and text.isascii():
        value = {"true": True, "false": False}.get(text.strip(readers.BLANKS).lower())
    return None if value is None else Constant(kind, value)


def folded_call(call: Call, values: list[Constant], kind: Type) -> Constant | None:
    """Arithmetic of whole numbers and doubles that are written out."""
    if any(isinstance(value.value, bool) for value in values):
        return None
    if call.name == "negative" and len(values) == 1:
        return _number(-values[0].value, kind) if isinstance(values[0].value, int) else None
    if len(values) != 2:
        return None
    left, right = (value.value for value in values)
    counts = all(is_integral(value.type) or is_interval(value.type) for value in values)
    if counts and call.name in _WHOLE and isinstance(left, int) and isinstance(right, int):
        return _number(_WHOLE[call.name](left, right), kind)
    numbers = all(is_integral(value.type) or value.type == DOUBLE for value in values)
    if kind != DOUBLE or call.name not in _DOUBLE or not numbers:
        return None
    if not isinstance(left, int | float) or not isinstance(right, int | float) or (call.name == "/" and right == 0):
        return None
    return Constant(DOUBLE, _DOUBLE[call.name](float(left), float(right)))
