"""A few expressions of SQL as data: their text, and what they are worth, by the rules of SQL for null and NaN.

An expression is a tuple: `("column", name)`, `("literal", value)`, or the name of an operation and its operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from random_programs.values import rank

Expression = tuple[Any, ...]
Row = Mapping[str, Any]

_TEXTS = {
    "=": "({} = {})",
    "<": "({} < {})",
    ">=": "({} >= {})",
    "<=>": "({} <=> {})",
    "and": "({} and {})",
    "or": "({} or {})",
    "not": "(not {})",
    "is null": "({} is null)",
    "coalesce": "coalesce({}, {})",
    "case": "case when {} then {} else {} end",
    "long": "cast({} as bigint)",
    "double": "cast({} as double)",
    "+": "({} + {})",
    "*": "({} * {})",
    "concat": "concat({}, {})",
    "length": "length({})",
    "upper": "upper({})",
    "lower": "lower({})",
}


def sql(expression: Expression) -> str:
    """The text of an expression."""
    kind, *parts = expression
    if kind == "column":
        return str(parts[0])
    if kind == "literal":
        return _literal(parts[0])
    return _TEXTS[kind].format(*map(sql, parts))


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case float():
            return f"{value!r}e0" if "e" not in repr(value) else repr(value)
        case Decimal() | int():
            return str(value)
    raise AssertionError(value)


def value(expression: Expression, row: Row) -> Any:
    """What an expression is worth for a row."""
    kind, *parts = expression
    if kind == "column":
        return row[parts[0]]
    if kind == "literal":
        return parts[0]
    if kind == "case":
        return value(parts[1] if value(parts[0], row) else parts[2], row)
    return _OPERATIONS[kind](*(value(part, row) for part in parts))


def _strict(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Null, if an operand is."""
    return lambda *values: None if any(one is None for one in values) else operation(*values)


def _both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _either(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


def _times(one: Any, other: Any) -> Any:
    if isinstance(one, float) and ((math.isinf(one) and other == 0) or math.isnan(one)):
        return math.nan
    return one * other


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "=": _strict(lambda a, b: rank(a) == rank(b)),
    "<": _strict(lambda a, b: rank(a) < rank(b)),
    ">=": _strict(lambda a, b: rank(a) >= rank(b)),
    "<=>": lambda a, b: rank(a) == rank(b),
    "and": _both,
    "or": _either,
    "not": _strict(lambda a: not a),
    "is null": lambda a: a is None,
    "coalesce": lambda a, b: b if a is None else a,
    "long": lambda a: a,
    "double": _strict(float),
    "+": _strict(lambda a, b: a + b),
    "*": _strict(_times),
    "concat": _strict(lambda a, b: a + b),
    "length": _strict(len),
    "upper": _strict(str.upper),
    "lower": _strict(str.lower),
}
