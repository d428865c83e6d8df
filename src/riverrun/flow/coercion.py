"""Which types Spark gives to values that meet: operands, arguments, branches of a choice (its ANSI rules)."""

from __future__ import annotations

from collections.abc import Iterable

from riverrun.ddl import Array, Column, Decimal, Map, Scalar, Struct, Type
from riverrun.flow.literals import DAY_TIME, YEAR_MONTH, interval_type
from riverrun.flow.schema import (
    BIGINT,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    as_decimal,
    bounded,
    common,
    is_integral,
    is_numeric,
)
from riverrun.flow.syntax import VOID, Constant, Tree

TIMESTAMP_NTZ = Scalar("timestamp_ntz")
FLOAT = Scalar("float")
DAYS_TO_SECONDS = Scalar("interval day to second")
"""The type of the difference of two timestamps."""

INTERVAL_DAY = Scalar("interval day")
_DATETIMES = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
_PLAIN = (STRING, VOID)


def is_interval(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.name.startswith("interval ")


def is_months(kind: Type) -> bool:
    """Whether it is an interval of months; other intervals are microseconds."""
    return is_interval(kind) and _units(kind)[0] in YEAR_MONTH


def is_days(kind: Type) -> bool:
    """Whether it is an interval of microseconds."""
    return is_interval(kind) and _units(kind)[0] in DAY_TIME


def is_fractional(kind: Type) -> bool:
    return isinstance(kind, Decimal) or kind in (DOUBLE, FLOAT)


def is_datetime(kind: Type) -> bool:
    return kind in _DATETIMES


def _units(kind: Type) -> list[str]:
    return str(kind).removeprefix("interval ").split(" to ")


def is_stored(kind: Type) -> bool:
    """Whether a column can have it: NULL alone has no type, and Riverrun has no intervals."""
    match kind:
        case Array(element):
            return is_stored(element)
        case Map(key, value):
            return is_stored(key) and is_stored(value)
        case Struct(fields):
            return all(is_stored(field.type) for field in fields)
    return kind != VOID and not is_interval(kind)


def exact_wider(left: Type, right: Type) -> Type | None:
    """The type of both, where a string does not become something else."""
    if VOID in (left, right):
        return right if left == VOID else left
    if is_datetime(left) and is_datetime(right):
        return max(left, right, key=_DATETIMES.index)
    if is_interval(left) and is_interval(right):
        return interval_type(_units(left) + _units(right)) if is_months(left) == is_months(right) else None
    return _nested(left, right, strings=False) or common(left, right)


def wider(left: Type, right: Type) -> Type | None:
    """The type of both, where a string becomes what the other one is."""
    return exact_wider(left, right) or promoted(left, right) or _nested(left, right, strings=True)


def widest(types: Iterable[Type], strings: bool = True) -> Type | None:
    """The type that all have in common, looked for from left to right."""
    both = wider if strings else exact_wider
    widest_so_far: Type | None = VOID
    for other in types:
        if widest_so_far is None:
            return None
        widest_so_far = both(widest_so_far, other)
    return widest_so_far


def promoted(left: Type, right: Type) -> Type | None:
    """What a string and something else become in an operation."""
    if STRING not in (left, right):
        return None
    other = right if left == STRING else left
    if is_integral(other):
        return BIGINT
    if is_fractional(other):
        return DOUBLE
    if other in _PLAIN:
        return STRING
    return other if isinstance(other, Scalar) and not is_interval(other) else None


def _nested(left: Type, right: Type, strings: bool) -> Type | None:
    """The common type of two arrays, maps or structs, part by part."""
    both = wider if strings else exact_wider
    match left, right:
        case Array(one), Array(other):
            element = both(one, other)
            return Array(element) if element else None
        case Map(key, value), Map(other_key, other_value):
            keys, values = both(key, other_key), both(value, other_value)
            return Map(keys, values) if keys and values else None
        case Struct(fields), Struct(others) if len(fields) == len(others):
            columns = []
            for mine, yours in zip(fields, others, strict=True):
                kind = both(mine.type, yours.type)
                if kind is None or mine.name.lower() != yours.name.lower():
                    return None
                columns.append(Column(mine.name, kind, mine.nullable or yours.nullable))
            return Struct(tuple(columns))
    return None


def operands(left: Type, right: Type, trees: tuple[Tree, Tree] | None = None) -> tuple[Type, Type] | None:
    """The types that the sides of an operator are cast to. Decimals may stay different: the operation decides."""
    promotion = promoted(left, right)
    if promotion is not None:
        return promotion, promotion
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        one, other = trees or (None, None)
        return _decimals(left, right, one, other)
    both = exact_wider(left, right)
    return None if both is None else (both, both)


def _decimals(left: Type, right: Type, one: Tree | None, other: Tree | None) -> tuple[Type, Type] | None:
    if VOID in (left, right):
        both = right if left == VOID else left
        return both, both
    if DOUBLE in (left, right) or FLOAT in (left, right):
        return DOUBLE, DOUBLE
    first, second = _as_decimal(left, one), _as_decimal(right, other)
    return (first, second) if first and second else None


def _as_decimal(kind: Type, tree: Tree | None) -> Decimal | None:
    """A whole number that is written out counts with the digits it has."""
    if is_integral(kind) and isinstance(tree, Constant) and isinstance(tree.value, int):
        return Decimal(len(str(abs(tree.value))), 0)
    return as_decimal(kind)


def compared(left: Type, right: Type, trees: tuple[Tree, Tree] | None = None) -> Type | None:
    """The type in which two values are compared."""
    sides = operands(left, right, trees)
    if sides is None:
        return None
    return sides[0] if sides[0] == sides[1] else common(*sides)


def computed(operator: str, sides: tuple[Type, Type]) -> Type | None:
    """The result of arithmetic with sides that `operands` has cast."""
    left, right = sides
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _decimal_result(operator, left, right)
    if not is_number(left) or not is_number(right):
        return None
    return {"/": DOUBLE, "div": BIGINT}.get(operator, left)


def is_number(kind: Type) -> bool:
    return is_numeric(kind)


def _decimal_result(operator: str, one: Decimal, other: Decimal) -> Type:
    whole = max(one.precision - one.scale, other.precision - other.scale)
    scale = max(one.scale, other.scale)
    match operator:
        case "*":
            return bounded(one.precision + other.precision + 1, one.scale + other.scale)
        case "/":
            scale = max(6, one.scale + other.precision + 1)
            return bounded(one.precision - one.scale + other.scale + scale, scale)
        case "%" | "pmod":
            return bounded(min(one.precision - one.scale, other.precision - other.scale) + scale, scale)
        case "div":
            return BIGINT
    return bounded(whole + scale + 1, scale)


def datetime_result(operator: str, left: Type, right: Type) -> Type | None:
    """The result of arithmetic with dates, timestamps or intervals; None where there is none of these, or no rule."""
    match operator:
        case "+" if is_datetime(right):
            return datetime_result("+", right, left) if not is_datetime(left) else None
        case "+" | "-" if left == DATE and ((is_integral(right) and right != BIGINT) or right == INTERVAL_DAY):
            return DATE
        case "+" | "-" if left == DATE and is_days(right):
            return TIMESTAMP
        case "+" | "-" if is_datetime(left) and is_interval(right):
            return left
        case "+" | "-" if is_interval(left) and is_interval(right):
            return exact_wider(left, right)
        case "-" if left == DATE and right == DATE:
            return INTERVAL_DAY
        case "-" if is_datetime(left) and is_datetime(right):
            return DAYS_TO_SECONDS
        case "*" if is_interval(right):
            return datetime_result("*", right, left) if is_number(left) else None
        case "*" | "/" if is_interval(left) and is_number(right):
            return Scalar("interval year to month") if is_months(left) else DAYS_TO_SECONDS
    return None
