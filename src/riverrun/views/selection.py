"""Rows chosen by conditions with values, ordered and paged: for those who have values, not SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.views.columns import is_nested, keep, scalar
from riverrun.views.spec import ViewSpec

COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
OPERATORS = (*COMPARISONS, "has")


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`. A string is read as the column's type. `eq` and `ne` take None; `has` looks for a part of a
    string, whatever the case of its letters."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows for which all conditions hold, by the columns of `order` (True: descending) and then by key."""

    conditions: tuple[Condition, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        check_count("limit", self.limit)
        check_count("offset", self.offset)


def check_count(name: str, number: object) -> None:
    """`Invalid` unless it can be a number of rows; None is no limit."""
    if number is None:
        return
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 62:
        raise Invalid(f"{name} must be a whole number, 0 or more, not {number!r}")


def comparable(spec: ViewSpec, name: str) -> int:
    """The number of a column that rows can be chosen or ordered by."""
    if name not in spec.visible:
        raise NotFound(f"view {spec.name!r} has no column {name!r}", hint=did_you_mean(name, spec.visible))
    if is_nested(spec.arrow.field(name).type):
        raise Invalid(f"view {spec.name!r}: rows cannot be chosen or ordered by {name!r}, an array, map or struct")
    return spec.names.index(name)


def value_of(spec: ViewSpec, condition: Condition) -> Any:
    """A condition's value as stores keep values of its column."""
    kind = spec.arrow.field(condition.column).type
    if condition.operator not in OPERATORS:
        raise Invalid(f"not an operator: {condition.operator!r}", hint=did_you_mean(condition.operator, OPERATORS))
    if condition.value is None and condition.operator not in ("eq", "ne"):
        raise Invalid(f"view {spec.name!r}: null is neither more nor less than a value of {condition.column!r}")
    if condition.operator == "has" and not (pa.types.is_string(kind) and isinstance(condition.value, str)):
        raise Invalid(f"view {spec.name!r}: {condition.column!r} is {kind}; only strings have strings in them")
    if condition.operator == "has":
        return "%" + re.sub("([!%_])", r"!\1", condition.value) + "%"
    return keep(scalar(condition.value, condition.column, kind))[0].as_py()
