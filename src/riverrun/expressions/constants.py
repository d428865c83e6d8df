"""Values that are written out, for DuckDB. Each is of its exact type, so that nothing is left to DuckDB's own rules."""

from __future__ import annotations

import math

from riverrun.ddl import Decimal, Type
from riverrun.expressions.forms import refusal
from riverrun.expressions.term import Term, duckdb_type, null, string
from riverrun.flow.coercion import is_interval
from riverrun.flow.schema import BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, is_integral
from riverrun.flow.syntax import Constant


def constant(value: Constant) -> Term:
    """A literal as a term."""
    if value.value is None:
        return null(value.type)
    return Term(_written(value), value.type, constant=value)


def _written(given: Constant) -> str:
    kind, value = given.type, given.value
    if kind == STRING:
        return string(str(value))
    if kind == BOOLEAN:
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes) and kind == BINARY:
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(kind, Decimal):
        return f"CAST('{value:.{kind.scale}f}' AS {duckdb_type(kind)})"
    if isinstance(value, float):
        return f"CAST('{_float(value)}' AS {duckdb_type(kind)})"
    if isinstance(value, int) and (is_integral(kind) or is_interval(kind)):
        return whole(value, kind)
    if isinstance(value, int) and kind == DATE:
        return f"CAST(DATE '1970-01-01' + {value} AS DATE)"
    if isinstance(value, int):
        return f"{'make_timestamptz' if kind == TIMESTAMP else 'make_timestamp'}(CAST({value} AS BIGINT))"
    raise refusal(given.text)


def whole(value: int, kind: Type) -> str:
    """A whole number of a type."""
    return f"CAST({value} AS {duckdb_type(kind)})"


def double(value: float) -> str:
    return f"CAST('{_float(value)}' AS {duckdb_type(DOUBLE)})"


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else str(value)
