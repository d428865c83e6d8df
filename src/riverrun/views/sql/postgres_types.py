"""Types of PostgreSQL as people expect them, and how kept values become values of them and back.

PostgreSQL's text has no NUL character: it is stored as U+FFFD.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from riverrun.views.columns import Kept, is_nested
from riverrun.views.layout import Layout

KEPT = {Kept.WHOLE: "bigint", Kept.DOUBLE: "double precision", Kept.STRING: "text", Kept.BYTES: "bytea"}
_DAY = 86_400_000_000
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.binary(): "bytea",
}


def types_of(layout: Layout) -> dict[str, pa.DataType]:
    """The types of all columns of a table; one that no view has is a number."""
    kinds = [field.type for field in layout.spec.arrow]
    return dict(zip(layout.columns, [*kinds, pa.int64()], strict=False))


def type_name(kind: pa.DataType) -> str:
    """What PostgreSQL calls a type. Strings are compared by their bytes."""
    is_ = pa.types
    if is_.is_nested(kind):
        return "json"
    if is_.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return _NAMES.get(kind, 'text collate "C"')


def kept(column: str, kind: pa.DataType) -> str:
    """SQL for the kept value of a typed column."""
    is_ = pa.types
    if is_.is_timestamp(kind):
        return f"(extract(epoch from {column}) * 1000000)::bigint"
    if is_.is_date(kind):
        return f"({column} - date 'epoch')::bigint"
    if is_.is_boolean(kind) or is_.is_integer(kind):
        return f"{column}::int::bigint" if is_.is_boolean(kind) else f"{column}::bigint"
    if is_.is_floating(kind):
        return f"{column}::double precision"
    if is_.is_decimal(kind) or is_nested(kind):
        return f"{column}::text"
    return column


def typed(column: str, kind: pa.DataType) -> str:
    """SQL for the typed value of a kept column."""
    is_ = pa.types
    if is_.is_timestamp(kind):
        # Days and seconds apart: one number of microseconds would lose digits on its way through a double.
        rest = f"mod(mod({column}, {_DAY}) + {_DAY}, {_DAY})"
        days, seconds = f"(({column} - {rest}) / {_DAY})::int", f"{rest}::double precision / 1000000"
        return f"({type_name(kind)} 'epoch' + make_interval(days => {days}, secs => {seconds}))"
    if is_.is_date(kind):
        return f"(date 'epoch' + {column}::int)"
    if is_.is_boolean(kind):
        return f"({column} <> 0)"
    if is_.is_string(kind) or is_.is_int64(kind) or is_.is_float64(kind) or is_.is_binary(kind):
        return column
    return f"{column}::{type_name(kind)}"


def without_nul(value: Any) -> Any:
    """A kept value that PostgreSQL takes."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
