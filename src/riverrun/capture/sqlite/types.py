"""SQLite's types: what they become in a topic, and its values as Arrow. Pure.

A column is of the type that it was declared with; a value may be of another one all the same.

| SQLite | topic | |
|---|---|---|
| INTEGER, INT, BIGINT, INT8 and the like | bigint | what is no whole number is null |
| BOOLEAN, BOOL | boolean | 0 is false, other whole numbers are true; everything else is null |
| REAL, DOUBLE, FLOAT | double | infinity stays; what is no number is null |
| DECIMAL(p,s), NUMERIC(p,s), p up to 38 | decimal(p,s) | rounded to the scale; what is no number or does not fit is null |
| DECIMAL, NUMERIC | string | `decimal="38,9"` makes it decimal(38,9) |
| BLOB | binary | text as its UTF-8, numbers as their text |
| TEXT, VARCHAR, CLOB, DATE, DATETIME, JSON, everything else, no type | string | numbers as their text; bytes are read as UTF-8 |

In a key, double and binary are strings: numbers as their text, bytes that are no UTF-8 in hexadecimal. A key has no null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl

Value = int | float | bytes | None  # text comes as its bytes

_PRECISE = 38
_SIZED = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_WHOLE = re.compile(r"(?<!PO)INT(EGER)?\d*\b")  # SQLite takes a POINT and an INTERVAL for whole numbers, too
_ODD = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError)


def topic_type(declared: str, decimal: str | None = None) -> str:
    """The type of a column in its topic, as DDL.

    >>> topic_type("unsigned big int"), topic_type("NUMERIC(12, 2)"), topic_type("numeric"), topic_type("")
    ('bigint', 'decimal(12,2)', 'string', 'string')
    """
    kind = declared.strip().upper()
    sized = _SIZED.fullmatch(kind)
    if sized:
        precision, scale = int(sized[1]), int(sized[2] or 0)
        return f"decimal({precision},{scale})" if 1 <= precision <= _PRECISE and scale <= precision else "string"
    if kind in ("DECIMAL", "NUMERIC"):
        return f"decimal({decimal})" if decimal else "string"
    if kind in ("BOOLEAN", "BOOL"):
        return "boolean"
    if _WHOLE.search(kind):
        return "bigint"
    if any(name in kind for name in ("CHAR", "CLOB", "TEXT")):
        return "string"
    if "BLOB" in kind:
        return "binary"
    if any(name in kind for name in ("REAL", "FLOA", "DOUB")):
        return "double"
    return "string"


def converted(values: Sequence[Value], kind: str, is_key: bool = False) -> pa.Array:
    """Values as SQLite gives them → those of a topic's type; null where they cannot be."""
    if kind == "bigint":
        return _fitting(values, pa.int64(), lambda value: value if isinstance(value, int) else None)
    if kind == "double":
        return _fitting(values, pa.float64(), lambda value: None if isinstance(value, bytes) else float(value))
    if kind == "boolean":
        return pc.not_equal(converted(values, "bigint"), 0)
    if kind == "binary":
        return _fitting(values, pa.binary(), _as_bytes)
    if kind.startswith("decimal"):
        return _decimals(values, ddl.to_arrow(ddl.parse_type(kind)))
    return _fitting(values, pa.string(), _as_key if is_key else _as_text)


def _fitting(values: Sequence[Value], want: pa.DataType, fit: Callable[[Any], Any]) -> pa.Array:
    """All at once where every value is of the type; else value by value."""
    try:
        return pa.array(values, want)
    except _ODD:
        return pa.array([None if value is None else fit(value) for value in values], want)


def _as_bytes(value: int | float | bytes) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode()


def _as_text(value: int | float | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else repr(value)


def _as_key(value: int | float | bytes) -> str:
    """Two keys stay two."""
    if not isinstance(value, bytes):
        return repr(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"x'{value.hex()}'"


def _decimals(values: Sequence[Value], want: Any) -> pa.Array:
    texts = pa.array([None if value is None else _as_text(value) for value in values], pa.string())
    try:
        return texts.cast(want)
    except pa.ArrowInvalid:
        unit, limit = Decimal(1).scaleb(-want.scale), Decimal(10) ** (want.precision - want.scale)
        return pa.array([_decimal(text, unit, limit) for text in texts.to_pylist()], want)


def _decimal(text: str | None, unit: Decimal, limit: Decimal) -> Decimal | None:
    try:
        with localcontext(prec=2000):
            value = None if text is None else Decimal(text).quantize(unit)
    except InvalidOperation:
        return None
    return value if value is not None and value.is_finite() and abs(value) < limit else None
