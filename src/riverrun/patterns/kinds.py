"""How values are kept where rows are compared, and the types that several values have together.

Whole numbers, truths and moments are numbers of 64 bits, and so are decimals of up to 18 digits: as many of their last digit.
Floats and wider decimals are floats. Strings and bytes are codes that compare as they do. Of arrays, structs and maps it is
only known whether they are there.
"""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.ddl import Array, Decimal, Map, Struct, Type
from riverrun.flow.coercion import DAYS_TO_SECONDS, FLOAT, is_datetime, is_interval, is_months
from riverrun.flow.schema import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, is_integral

DIGITS = 18
"""Of a decimal that is a number of 64 bits."""

SEES_NULLS = frozenset(
    (
        *("isnull", "isnotnull", "coalesce", "ifnull", "nvl", "nvl2", "case", "if"),
        *("<=>", "and", "or", "greatest", "least", "concat_ws"),
        *(
            "array",
            "named_struct",
            "map",
            "hash",
            "xxhash64",
            "isnan",
            "equal_null",
            "zeroifnull",
            "format_string",
            "printf",
            "typeof",
            "decode",
        ),
    )
)
"""What is not null where its arguments are. Of a row that is not there everything else is null."""

_INTERVAL = "interval"


def is_real(kind: Type) -> bool:
    """Whether values are kept as real numbers."""
    return kind in (DOUBLE, FLOAT)


def is_exact(kind: Type) -> bool:
    """Whether a value is a decimal that is kept as a whole number."""
    return isinstance(kind, Decimal) and kind.precision <= DIGITS


def is_wide(kind: Type) -> bool:
    """Whether a value is a decimal that is no number of 64 bits."""
    return isinstance(kind, Decimal) and kind.precision > DIGITS


def is_nested(kind: Type) -> bool:
    return isinstance(kind, Array | Map | Struct)


def is_whole(kind: Type) -> bool:
    """Whether values are kept as whole numbers."""
    return is_integral(kind) or is_exact(kind) or kind in (BOOLEAN, DATE) or is_datetime(kind) or is_interval(kind)


def is_number(kind: Type) -> bool:
    return is_integral(kind) or is_real(kind) or isinstance(kind, Decimal)


def scale_of(kind: Type) -> int:
    """The digits behind the point of a whole number or a decimal."""
    return kind.scale if isinstance(kind, Decimal) else 0


def together(kinds: Sequence[Type]) -> Type | None:
    """The type that values of several types are compared and chosen in; None where there is none."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(is_integral(kind) for kind in kinds):
        return BIGINT
    if all(is_integral(kind) or is_exact(kind) for kind in kinds):
        return Decimal(DIGITS, max(scale_of(kind) for kind in kinds))
    if all(is_number(kind) for kind in kinds):
        return DOUBLE
    if all(is_interval(kind) for kind in kinds):
        return kinds[0]
    return None


def calculated(operator: str, left: Type, right: Type) -> Type:
    """The type of a sum, a difference, a product or a quotient of numbers."""
    if operator == "/" or not all(is_integral(kind) or is_exact(kind) for kind in (left, right)):
        return DOUBLE
    if is_integral(left) and is_integral(right):
        return BIGINT
    scales = scale_of(left), scale_of(right)
    scale = sum(scales) if operator == "*" else max(scales)
    return Decimal(DIGITS, scale) if scale <= DIGITS else DOUBLE


def moved(operator: str, left: Type, right: Type) -> Type | None:
    """The type of a difference of moments, or of a moment that is moved by an interval; None where there is none."""
    if is_months(left) or is_months(right):
        return None
    one, other = (_INTERVAL if is_interval(kind) else str(kind) for kind in (left, right))
    return {
        ("-", "timestamp", "timestamp"): DAYS_TO_SECONDS,
        ("-", "timestamp", _INTERVAL): TIMESTAMP,
        ("+", "timestamp", _INTERVAL): TIMESTAMP,
        ("+", _INTERVAL, "timestamp"): TIMESTAMP,
        ("+", _INTERVAL, _INTERVAL): DAYS_TO_SECONDS,
        ("-", _INTERVAL, _INTERVAL): DAYS_TO_SECONDS,
    }.get((operator, one, other))
