"""MariaDB's types: what they become in a topic, and their values as Arrow, read as text or from the binary log. Pure.

| MariaDB | topic | |
|---|---|---|
| tinyint, smallint, mediumint, int, bigint | tinyint, smallint, int, int, bigint | boolean is tinyint |
| the same, unsigned | smallint, int, int, bigint, decimal(20,0) | |
| float, double | float, double | |
| decimal(p,s), p up to 38 | decimal(p,s) | |
| decimal(p,s), p from 39 on | string | `decimal="38,9"` makes it decimal(38,9); what does not fit is null |
| char, varchar, text, json, enum | string | |
| set | string | its members in the order of their declaration, with commas |
| binary, varbinary, blob, geometry and its kinds | binary | |
| date | date | 0000-00-00 and other days that no calendar has are null |
| datetime | timestamp_ntz | likewise |
| timestamp | timestamp | likewise |
| year | int | |
| time, bit | string | as in `-10:00:00.5`, `00000101` |

A table with a column of another type (uuid, inet4, inet6, vector, compressed ones) is not captured: the binary log does not
say what its bytes mean. In a key, binary is a string of hexadecimal digits, and float and double are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.capture.decimals import PRECISE, fitting

_WHOLE = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 5}
_SIGNED = {1: "tinyint", 2: "smallint", 3: "int", 4: "int", 5: "bigint"}
_UNSIGNED = {1: "smallint", 2: "int", 3: "int", 4: "bigint", 5: "decimal(20,0)"}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "set", "time", "bit")
_SPACES = ("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", *_SPACES)
_OTHERS = {"float": "float", "double": "double", "year": "int", "date": "date", "datetime": "timestamp_ntz"}
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class ColumnType:
    """A type as MariaDB has it: its name in information_schema, and what belongs to it."""

    name: str
    unsigned: bool = False
    precision: int = 0  # of decimal; bits of bit; digits behind the second of time; bytes of binary
    scale: int = 0


def topic_type(kind: ColumnType, decimal: str | None = None) -> str | None:
    """The type of a column in its topic, as DDL; None: it cannot be captured.

    >>> [topic_type(kind) for kind in (ColumnType("int", unsigned=True), ColumnType("decimal", precision=40), ColumnType("uuid"))]
    ['bigint', 'string', None]
    """
    if kind.name in _WHOLE:
        return (_UNSIGNED if kind.unsigned else _SIGNED)[_WHOLE[kind.name]]
    if kind.name == "decimal":
        if kind.precision <= PRECISE:
            return f"decimal({kind.precision},{kind.scale})"
        return f"decimal({decimal})" if decimal else "string"
    if kind.name == "timestamp":
        return "timestamp"
    if kind.name in _TEXTS:
        return "string"
    return "binary" if kind.name in _BYTES else _OTHERS.get(kind.name)


def from_texts(texts: Sequence[Any], wanted: str, kind: ColumnType) -> pa.Array:
    """What a query gave, text (or bytes, of binary columns) → values of a topic's type."""
    want = ddl.to_arrow(ddl.parse_type(wanted))
    if kind.name in _BYTES:
        return _binaries(texts, wanted)
    if wanted == "string":
        return pa.array(texts, pa.string())
    found = pa.array(texts, pa.string())
    if wanted in ("date", "timestamp", "timestamp_ntz"):
        none = pc.match_substring_regex(found, "^0000|-00")
        found = pc.if_else(none, pa.scalar(None, pa.string()), found)
        if wanted == "date":
            return found.cast(pa.date32())
        plain = found.cast(pa.timestamp("us"))
        return plain if want.tz is None else plain.cast(pa.int64()).view(want)
    if wanted.startswith("decimal"):
        return _decimals(found, want)
    return found.cast(pa.float64()).cast(want) if wanted == "float" else found.cast(want)


def from_values(values: Sequence[Any], wanted: str, kind: ColumnType) -> pa.Array:
    """What the binary log has → values of a topic's type. Raises ValueError for what cannot be read."""
    want = ddl.to_arrow(ddl.parse_type(wanted))
    if kind.name in _BYTES:
        return _binaries([_padded(value, kind) for value in values], wanted)
    if kind.name == "time":
        return pa.array([_time(value, kind.precision) for value in values], pa.string())
    if wanted == "string":
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    if wanted == "timestamp":
        # The moment 0 is how 0000-00-00 is stored; no other row has it.
        plain = pa.array([None if value == _EPOCH else value for value in values], pa.timestamp("us"))
        return plain.cast(pa.int64()).view(want)
    if wanted.startswith("decimal"):
        return _decimals(pa.array([None if value is None else str(value) for value in values], pa.string()), want)
    if wanted in ("date", "timestamp_ntz"):
        return pa.array([value if isinstance(value, date) else None for value in values], want)
    return pa.array(values, want)


def _binaries(values: Sequence[bytes | None], wanted: str) -> pa.Array:
    if wanted == "string":
        return pa.array([None if value is None else value.hex() for value in values], pa.string())
    return pa.array(values, pa.binary())


def _padded(value: Any, kind: ColumnType) -> bytes | None:
    """The binary log leaves out the zeros at the end of binary(n)."""
    if value is None:
        return None
    if isinstance(value, str):
        raise ValueError("text where bytes should be")
    return bytes(value).ljust(kind.precision, b"\0") if kind.name == "binary" else bytes(value)


def _time(value: timedelta | None, digits: int) -> str | None:
    """A time as MariaDB writes it.

    >>> _time(timedelta(hours=-30), 0), _time(timedelta(microseconds=500_000), 3)
    ('-30:00:00', '00:00:00.500')
    """
    if value is None:
        return None
    whole = abs(value)
    if value < timedelta(0) and digits:
        raise ValueError("negative times with fractions of a second are not read rightly by mysql-replication")
    minutes, seconds = divmod(whole.days * 86400 + whole.seconds, 60)
    text = f"{'-' if value < timedelta(0) else ''}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
    return f"{text}.{whole.microseconds:06d}"[: len(text) + 1 + digits] if digits else text


def _decimals(texts: pa.Array, want: pa.DataType) -> pa.Array:
    try:
        return texts.cast(want)
    except pa.ArrowInvalid:  # more digits than a column has that was given a precision
        return fitting(texts, want)
