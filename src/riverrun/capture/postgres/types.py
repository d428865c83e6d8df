"""PostgreSQL's types: what they become in a topic, and their text as Arrow. Pure.

| PostgreSQL | topic | |
|---|---|---|
| smallint, integer, bigint, oid | smallint, int, bigint, bigint | |
| real, double precision | float, double | NaN and infinity stay |
| numeric(p,s), p up to 38 | decimal(p,s) | NaN is null |
| numeric | string | `decimal="38,9"` makes it decimal(38,9); then NaN, infinity and what does not fit are null |
| boolean | boolean | |
| text, varchar, char, name, citext, enums, uuid, json, jsonb, xml | string | as PostgreSQL writes it |
| bytea | binary | |
| date | date | infinity is 9999-12-31 or 0001-01-01; years outside of 1 to 9999 are null |
| timestamp | timestamp_ntz | likewise |
| timestamp with time zone | timestamp | likewise |
| time, interval, bit, inet, money, arrays, ranges, composite types, everything else | string | as PostgreSQL writes it |
| domains | as the type they are of | |

In a key, types whose values may be written in several ways (real, double precision, bytea) are strings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.capture.decimals import PRECISE, fitting

_SCALARS = {
    16: "boolean",
    17: "binary",
    20: "bigint",
    21: "smallint",
    23: "int",
    26: "bigint",
    700: "float",
    701: "double",
    1082: "date",
    1114: "timestamp_ntz",
    1184: "timestamp",
}
_NUMERIC = 1700
_FIRST, _LAST = "0001-01-01", "9999-12-31"
_TIMES = {"infinity": f"{_LAST} 23:59:59.999999", "-infinity": f"{_FIRST} 00:00:00"}


def topic_type(oid: int, modifier: int, decimal: str | None = None) -> str:
    """The type of a column in its topic, as DDL. `oid` is that of a base type, not of a domain.

    >>> topic_type(1700, ((12 << 16) | 2) + 4), topic_type(1700, -1), topic_type(1700, -1, "38,9")
    ('decimal(12,2)', 'string', 'decimal(38,9)')
    """
    if oid == _NUMERIC:
        if modifier < 4:
            return f"decimal({decimal})" if decimal else "string"
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        # A scale may be negative, or larger than the precision; Spark knows neither.
        if precision <= PRECISE and scale <= precision and not (modifier - 4) & 0x400:
            return f"decimal({precision},{scale})"
        return "string"
    return _SCALARS.get(oid, "string")


def converted(texts: pa.Array, kind: str) -> pa.Array:
    """Text as PostgreSQL writes it → values of a topic's type. Raises pa.ArrowInvalid for what cannot be one."""
    want = ddl.to_arrow(ddl.parse_type(kind))
    if kind == "string":
        return texts
    if kind == "boolean":
        return pc.equal(texts, "t")
    if kind == "binary":
        return _bytes(texts)
    if kind == "date":
        return _dates(texts)
    if kind in ("timestamp", "timestamp_ntz"):
        return _times(texts, want)
    if kind.startswith("decimal"):
        return _decimals(texts, want)
    return texts.cast(want)


def _bytes(texts: pa.Array) -> pa.Array:
    r"""`\x0102…` → the bytes."""
    digits = pc.replace_substring_regex(pc.fill_null(texts, ""), r"^\\x", "")
    raw = np.frombuffer("".join(digits.to_pylist()).encode(), np.uint8)
    values = np.where(raw >= ord("a"), raw - (ord("a") - 10), raw - ord("0")).astype(np.uint8)
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(pc.binary_length(digits).to_numpy() // 2, out=offsets[1:])
    bitmap = None
    if texts.null_count:
        bitmap = pa.py_buffer(np.packbits(pc.is_valid(texts).to_numpy(zero_copy_only=False), bitorder="little"))
    data = pa.py_buffer((values[::2] << 4) | values[1::2])
    return pa.Array.from_buffers(pa.binary(), len(texts), [bitmap, pa.py_buffer(offsets), data])


def _in_calendar(texts: pa.Array) -> pa.Array:
    """Infinity as the last day there is; null for years that only PostgreSQL has."""
    if pc.any(pc.match_substring(texts, "infinity")).as_py():
        positive, negative = pc.equal(texts, "infinity"), pc.equal(texts, "-infinity")
        texts = pc.if_else(positive, _TIMES["infinity"], pc.if_else(negative, _TIMES["-infinity"], texts))
    odd = pc.or_(pc.match_substring(texts, "BC"), pc.greater(pc.find_substring(texts, "-"), 4))
    if pc.any(odd).as_py():
        texts = pc.if_else(odd, pa.scalar(None, pa.string()), texts)
    return texts


def _dates(texts: pa.Array) -> pa.Array:
    plain = pc.utf8_slice_codeunits(_in_calendar(texts), 0, 10)
    return plain.cast(pa.date32())


def _times(texts: pa.Array, want: pa.DataType) -> pa.Array:
    plain = _in_calendar(texts)
    if want.tz is None:
        return plain.cast(want)
    # Sessions are in UTC, so every zone is +00.
    without = pc.replace_substring(plain, "+00", "", max_replacements=1)
    return without.cast(pa.timestamp("us")).cast(pa.int64()).view(want)


def _decimals(texts: pa.Array, want: pa.DataType) -> pa.Array:
    odd = pc.is_in(texts, pa.array(["NaN", "Infinity", "-Infinity"]))
    if pc.any(odd).as_py():
        texts = pc.if_else(odd, pa.scalar(None, pa.string()), texts)
    try:
        return texts.cast(want)
    except pa.ArrowInvalid:  # numbers of any size and scale in a column that was given one
        return fitting(texts, want)
