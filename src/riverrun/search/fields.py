"""The columns that queries may name, and values of them as queries write them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Literal

import polars as pl

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = 1_000_000
_LONGEST_DECIMAL = 18
_DIGITS = 40  # more than any column has

FieldKind = Literal["text", "whole", "float", "decimal", "boolean", "date", "time"]


@dataclass(frozen=True)
class SearchField:
    """A column: text, or something that is ordered, and is compared as whole numbers or floats."""

    name: str
    kind: FieldKind
    scale: int = 0  # of decimals

    def closed(self, low: str | None, high: str | None, with_low: bool, with_high: bool) -> tuple[float, float]:
        """The smallest and the largest value that count, of bounds as they are written; None: there is no bound.

        Raises `ValueError` for a text that is no value of this column.
        """
        if self.kind == "float":
            return self._floats(low, high, with_low, with_high)
        least, most = LOWEST, HIGHEST
        if low is not None:
            first, _ = self._units(low)
            least = max(_ceiling(first), LOWEST) if with_low else max(_floor(self._units(low)[1]) + 1, LOWEST)
        if high is not None:
            first, last = self._units(high)
            most = min(_floor(last), HIGHEST) if with_high else min(_ceiling(first) - 1, HIGHEST)
        return least, most

    def _floats(self, low: str | None, high: str | None, with_low: bool, with_high: bool) -> tuple[float, float]:
        least, most = -math.inf, math.inf
        if low is not None:
            least = _float(low) if with_low else math.nextafter(_float(low), math.inf)
        if high is not None:
            most = _float(high) if with_high else math.nextafter(_float(high), -math.inf)
        return least, most

    def _units(self, text: str) -> tuple[Decimal, Decimal]:
        """What a text stands for, in the column's own units: the first and the last moment of a day."""
        match self.kind:
            case "boolean":
                one = Decimal({"true": 1, "false": 0}[text.lower()] if text.lower() in ("true", "false") else "no")
                return one, one
            case "date":
                one = Decimal(date.fromisoformat(text).toordinal() - _EPOCH.toordinal())
                return one, one
            case "time":
                return _moments(text)
        number = _scaled(text, self.scale)
        return number, number


def _scaled(text: str, scale: int) -> Decimal:
    """A number in units of its last digit. One beyond all that columns have is just beyond (`1e999999` would be a number of
    a million digits), and one that is nearly 0 is not 0."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    if number and number.adjusted() + scale > _DIGITS:
        return Decimal(2 * HIGHEST if number > 0 else 2 * LOWEST)
    if number and number.adjusted() + scale < -_DIGITS:
        return Decimal("0.1").copy_sign(number)
    return number.scaleb(scale)


def _float(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError(text)
    return value


def _moments(text: str) -> tuple[Decimal, Decimal]:
    if len(text) == len("2026-01-31"):
        start = _micros(datetime.fromisoformat(text).replace(tzinfo=UTC))
        return Decimal(start), Decimal(start + 86_400 * _MICROSECOND - 1)
    moment = datetime.fromisoformat(text)
    at = _micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return Decimal(at), Decimal(at)


def _micros(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * _MICROSECOND + since.microseconds


def _ceiling(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_CEILING))


def _floor(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_FLOOR))


NOT_A_VALUE = (ValueError, ArithmeticError, KeyError)

EXAMPLES: Mapping[FieldKind, str] = {
    "whole": "5",
    "float": "2.5",
    "decimal": "9.90",
    "boolean": "true",
    "date": "2026-01-31",
    "time": "2026-01-31T12:00:00Z",
}


@dataclass(frozen=True)
class SearchFields:
    """All columns of the documents that can be searched; `text` are those that words without a column are looked for in."""

    fields: tuple[SearchField, ...]
    text: tuple[str, ...]

    @cached_property
    def by_name(self) -> dict[str, SearchField]:
        """By name in lower case."""
        return {field.name.lower(): field for field in self.fields}


def search_fields(columns: Mapping[str, pl.DataType], text: Sequence[str]) -> SearchFields:
    """Which of the columns can be searched, and how."""
    found = []
    for name, kind in columns.items():
        known = _field_kind(kind)
        if known is not None:
            found.append(SearchField(name, known, kind.scale if isinstance(kind, pl.Decimal) else 0))
    return SearchFields(tuple(found), tuple(text))


def _field_kind(kind: pl.DataType) -> FieldKind | None:
    match kind:
        case pl.String():
            return "text"
        case pl.Boolean():
            return "boolean"
        case pl.Date():
            return "date"
        case pl.Datetime():
            return "time"
        case pl.Decimal():
            return "decimal" if (kind.precision or _LONGEST_DECIMAL + 1) <= _LONGEST_DECIMAL else None
    if kind.is_integer():
        return "whole"
    return "float" if kind.is_float() else None
