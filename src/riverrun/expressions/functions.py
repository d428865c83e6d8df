"""Functions in Python for the rows that DuckDB would compute in another way than Spark. A usual row meets none of them.

They are given columns, not rows, and only those rows that a CASE has chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Any

import duckdb
import pyarrow as pa

from riverrun.expressions import casing, readers, writers

Function = Callable[..., Any]


def _matches(text: str, pattern: str) -> bool:
    return _compiled(pattern).search(text) is not None


def _extract(text: str, pattern: str, group: int) -> str:
    match = _compiled(pattern).search(text)
    return "" if match is None else match[group] or ""


def _replace(text: str, pattern: str, replacement: str) -> str:
    return _compiled(pattern).sub(replacement, text)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _round(value: float, digits: int) -> float:
    return float(round_half_up(Decimal(repr(value)), digits))


def round_half_up(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits), context=Context(prec=400, rounding=ROUND_HALF_UP))


def decimal_arithmetic(operator: str, left: str, right: str, precision: int, scale: int) -> str | None:
    """Exact, then rounded half up; None if there are more digits than the precision has."""
    exact = Context(prec=400)
    one, other = Decimal(left), Decimal(right)
    match operator:
        case "+":
            result = exact.add(one, other)
        case "-":
            result = exact.subtract(one, other)
        case "*":
            result = exact.multiply(one, other)
        case _:
            # One more digit than is kept, cut off: it decides the rounding as the exact quotient would.
            quotient = exact.divide(one, other)
            result = quotient.quantize(Decimal(1).scaleb(-scale - 30), context=Context(prec=400, rounding="ROUND_DOWN"))
    rounded = round_half_up(result, scale)
    return f"{rounded:f}" if not rounded or rounded.adjusted() < precision - scale else None


# Name, function, arguments, result, and what a value is not where the function gives None.
_READERS: tuple[tuple[str, Function, list[str], str, str], ...] = (
    ("date", readers.read_date, ["VARCHAR"], "INTEGER", "a date"),
    ("timestamp", readers.read_timestamp, ["VARCHAR"], "BIGINT", "a timestamp"),
    ("timestamp_ntz", readers.read_timestamp_ntz, ["VARCHAR"], "BIGINT", "a timestamp"),
    ("number", readers.read_double, ["VARCHAR"], "VARCHAR", "a number"),
    ("decimal", readers.read_decimal, ["VARCHAR", "INTEGER", "INTEGER"], "VARCHAR", "a decimal of that size"),
    ("to_timestamp", readers.read_pattern, ["VARCHAR", "VARCHAR"], "BIGINT", "a time of that pattern"),
    (
        "add_months",
        readers.add_months,
        ["INTEGER", "INTEGER"],
        "INTEGER",
        "a day and months to add that come to a date",
    ),
    (
        "decimal_arithmetic",
        decimal_arithmetic,
        ["VARCHAR", "VARCHAR", "VARCHAR", "INTEGER", "INTEGER"],
        "VARCHAR",
        "within the digits of the result",
    ),
)
_OTHERS: tuple[tuple[str, Function, list[str], str], ...] = (
    ("upper", casing.upper, ["VARCHAR"], "VARCHAR"),
    ("lower", casing.lower, ["VARCHAR"], "VARCHAR"),
    ("matches", _matches, ["VARCHAR", "VARCHAR"], "BOOLEAN"),
    ("extract", _extract, ["VARCHAR", "VARCHAR", "INTEGER"], "VARCHAR"),
    ("replace", _replace, ["VARCHAR", "VARCHAR", "VARCHAR"], "VARCHAR"),
    ("round", _round, ["DOUBLE", "INTEGER"], "DOUBLE"),
    ("date_string", writers.write_date, ["INTEGER"], "VARCHAR"),
    ("timestamp_string", writers.write_timestamp, ["BIGINT"], "VARCHAR"),
    ("date_format", writers.write_pattern, ["BIGINT", "VARCHAR"], "VARCHAR"),
)
_ARROW = {
    "VARCHAR": pa.string(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
}


def register(db: duckdb.DuckDBPyConnection) -> None:
    """Makes the functions known as spark_…; those that read have a second one, spark_try_…, with null for an error."""
    for name, function, arguments, result, what in _READERS:
        _add(db, f"spark_{name}", function, arguments, result, what)
        _add(db, f"spark_try_{name}", function, arguments, result, None)
    for name, function, arguments, result in _OTHERS:
        _add(db, f"spark_{name}", function, arguments, result, None)


def _add(
    db: duckdb.DuckDBPyConnection, name: str, function: Function, arguments: list[Any], result: str, what: str | None
) -> None:
    def over_columns(*columns: pa.ChunkedArray) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array(_values(function, rows, what), _ARROW[result])

    names = [Parameter(f"column{number}", Parameter.POSITIONAL_ONLY) for number in range(len(arguments))]
    over_columns.__signature__ = Signature(names)  # type: ignore[attr-defined]  # DuckDB counts the parameters
    vectorised: Any = {"type": "arrow", "null_handling": "special"}
    db.create_function(name, over_columns, arguments, result, **vectorised)


def _values(function: Function, rows: Iterable[tuple[Any, ...]], what: str | None) -> list[Any]:
    values = []
    for row in rows:
        value = None if None in row else function(*row)
        if value is None and what is not None and None not in row:
            raise ValueError(f"{' '.join(map(repr, row))} is not {what}")
        values.append(value)
    return values
