"""Values of every scalar type, and when SQL takes two of them for equal or one for larger."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)

FEW: dict[str, list[Any]] = {
    "tinyint": [0, 1, 2, -1],
    "smallint": [0, 1, 2, -1],
    "int": [0, 1, 2, 3],
    "bigint": [0, 1, 2, 3, 2**53 + 1],
    "double": [0.0, -0.0, 1.0, 2.5, math.nan, 2.0**53],
    "string": ["a", "b", "", "é", "a\0b"],
    "boolean": [True, False],
    "date": [date(2026, 1, 1), date(1969, 12, 31)],
    "decimal(12,2)": [Decimal("0.00"), Decimal("1.00"), Decimal("2.50")],
}
"""Small sets for columns that are compared, so that rows meet."""

MANY: dict[str, list[Any]] = {
    "tinyint": [0, 1, -1, 127, -128],
    "smallint": [0, 7, -7, 32767, -32768],
    "int": [0, 1, -1, 5, 13, 2147483647, -2147483648],
    "bigint": [0, 1, -1, 5, 2**53 + 1, -(2**53) - 1, 10**12],
    "float": [0.0, -0.0, 1.5, -2.5, 0.25, 16777216.0, math.nan, math.inf, -math.inf],
    "double": [
        0.0,
        -0.0,
        0.1,
        0.2,
        2.5,
        -7.25,
        1e9,
        math.nan,
        math.inf,
        -math.inf,
        2.0**53,
        1e200,
        1.7976931348623157e308,
    ],
    "decimal(12,2)": [Decimal("0.00"), Decimal("0.10"), Decimal("-0.05"), Decimal("9999999999.99"), Decimal("2.50")],
    "string": ["", " ", "a", "B", "é", "ß", "e\u0301", "👨‍👩‍👧", "a\0b", "it's", "a\n", "\u00a0x", "z" * 40],
    "boolean": [True, False],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
    "timestamp": [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), START, START + timedelta(microseconds=1)],
    "timestamp_ntz": [datetime(1970, 1, 1), datetime(2026, 3, 29, 2, 30, 0, 1)],
    "binary": [b"", b"a", b"\x00\xff"],
}
"""Values that computations get wrong, beside ordinary ones."""

NESTED = "array<struct<a: int, b: string>>"
DEEP: list[Any] = [[], [{"a": 1, "b": "x"}], [{"a": None, "b": ""}, {"a": 2, "b": None}]]
"""Values of that, which nodes hand on and do not look into."""

TEXTS = ["red shoes", "Shoes, red", "red", "a shoe", "", "blue shoes and a red hat"]
QUERIES = ["red", "red shoes", "red OR hat", "red AND NOT shoes", '"red shoes"', "t:shoes", "sho*", "NOT red"]

INTEGRAL = ("tinyint", "smallint", "int", "bigint")
NUMERIC = (*INTEGRAL, "float", "double", "decimal(12,2)")


def at(second: float) -> datetime:
    """A moment so many seconds after the start of 2026."""
    return START + timedelta(seconds=second)


def micros(moment: datetime) -> int:
    return (moment - ORIGIN) // timedelta(microseconds=1)


def moment(number: int) -> datetime:
    return ORIGIN + timedelta(microseconds=number)


def some(dice: random.Random, pool: list[Any], nulls: float = 0.12) -> Any:
    """One of a pool, or null."""
    return None if dice.random() < nulls else dice.choice(pool)


def rank(value: Any) -> tuple[Any, ...]:
    """Sorts as SQL does, ascending: null first, NaN after every number; text by its bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def canonical(value: Any) -> Any:
    """Equal and hashable for what SQL groups together: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, canonical(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(canonical(part) for part in value)
    return value
