"""What types are called elsewhere (in Python, NumPy, Arrow, Polars, Avro, PostgreSQL), and what to write here."""

from __future__ import annotations

_ELSEWHERE = {
    "string": ("str", "text", "utf8", "large_string", "object", "json", "jsonb", "uuid", "nvarchar", "enum"),
    "boolean": ("bool", "bit"),
    "tinyint": ("int1",),
    "smallint": ("int16", "int2", "uint8"),
    "int": ("int32", "int4", "uint16"),
    "bigint": ("int64", "uint32", "serial", "bigserial", "counter"),
    "float": ("float32", "float4"),
    "double": ("float64", "float8", "number"),
    "decimal(18,2)": ("money",),
    "decimal(20,0)": ("uint64",),
    "tinyint, or bigint where it means 8 bytes": ("int8",),
    "date": ("date32",),
    "timestamp": ("datetime", "datetime64", "timestamptz", "timestamp_tz", "instant"),
    "timestamp, or string for a time of day": ("time",),
    "binary": ("bytes", "blob", "bytea", "varbinary"),
    "array<…>": ("list",),
    "map<string,…>, or struct<name:…>": ("dict",),
    "struct<name:…>": ("record", "row", "tuple"),
}
MEANT = {word: name for name, words in _ELSEWHERE.items() for word in words}
