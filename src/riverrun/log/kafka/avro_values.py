"""Values as Avro, without a schema registry: the bare record, by the topic's schema as Avro has it (`avro_schema`).

Which version of the schema wrote it is in a header; a message without one was written by the first.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from riverrun import calendar, ddl
from riverrun.errors import not_installed
from riverrun.log.kafka.avro_columns import decode_columns, encode_columns
from riverrun.log.kafka.values import Decoded, Values
from riverrun.log.stored_spec import StoredSpec

_SCALARS: dict[str, Any] = {
    "string": "string",
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_schema(columns: Sequence[ddl.Column], name: str = "Row") -> dict[str, Any]:
    """Columns as a record of Avro. All are nullable there, as a column that is added later must be."""
    fields = [
        {"name": column.name, "type": ["null", _avro_type(column.type, f"{name}_{i}")], "default": None}
        for i, column in enumerate(columns)
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(kind: ddl.Type, name: str) -> Any:
    match kind:
        case ddl.Decimal(precision, scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case ddl.Array(element):
            return {"type": "array", "items": ["null", _avro_type(element, f"{name}_e")]}
        case ddl.Map(ddl.Scalar("string"), value):
            return {"type": "map", "values": ["null", _avro_type(value, f"{name}_v")]}
        case ddl.Map(key, value):  # Avro's maps have texts for keys
            pair = [ddl.Column("key", key, True), ddl.Column("value", value, True)]
            return {"type": "array", "items": avro_schema(pair, f"{name}_p")}
        case ddl.Struct(fields):
            return avro_schema(fields, f"{name}_s")
        case ddl.Scalar(scalar):
            return _SCALARS[scalar]
    raise AssertionError(kind)


class AvroValues(Values):
    """One record of Avro for each row."""

    def __init__(self, spec: StoredSpec, schemas: Mapping[int, pa.Schema], version: int) -> None:
        super().__init__(spec, schemas, version)
        self._avro = _fastavro()
        self._parsed = cache(self._parse)
        self._reads = self._avro.parse_schema(avro_schema(self.columns))
        self._paired = [field.name for field in self.schema if _has_pairs(field.type)]
        required = [column.name for column in self.columns if not column.nullable and column.name not in spec.key]
        self._required = [*required, *([spec.time] if spec.time else [])]

    def _parse(self, version: int) -> Any:
        """The schema that wrote a value: that many columns, since columns are added at the end."""
        known = self.schemas.get(version)
        columns = self.columns if known is None else self.columns[: len(known)]
        return self._avro.parse_schema(avro_schema(columns))

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        clamped = [calendar.clamp(column) for column in rows.columns]
        written = encode_columns(pa.RecordBatch.from_arrays(clamped, rows.schema.names))
        if written is not None:
            return written
        columns = [
            _paired(column) if name in self._paired else column.to_pylist(maps_as_pydicts="strict")
            for name, column in zip(rows.schema.names, clamped, strict=True)
        ]
        values = []
        for row in zip(*columns, strict=True):
            out = io.BytesIO()
            self._avro.schemaless_writer(out, self._reads, dict(zip(rows.schema.names, row, strict=True)))
            values.append(out.getvalue())
        return values

    def decode(self, values: Sequence[bytes], versions: Sequence[int]) -> Decoded:
        if len(set(versions)) == 1:
            found = self._at_once(values, versions[0] or 1)
            if found is not None:
                return Decoded(found, range(len(values)), {})
        return self._one_by_one(values, versions)

    def _at_once(self, values: Sequence[bytes], version: int) -> pa.RecordBatch | None:
        """The rows of records that all were written by this version, if they are plain."""
        known = self.schemas.get(version)
        written = pa.schema(list(self.schema)[: None if known is None else len(known)])
        if not set(self._required) <= set(written.names):
            return None
        rows = decode_columns(values, written, self._required)
        if rows is None:
            return None
        later = [pa.nulls(rows.num_rows, field.type) for field in list(self.schema)[len(written) :]]
        return pa.RecordBatch.from_arrays([*rows.columns, *later], schema=self.schema)

    def _one_by_one(self, values: Sequence[bytes], versions: Sequence[int]) -> Decoded:
        rows, kept, bad = [], [], {}
        for i, (value, version) in enumerate(zip(values, versions, strict=True)):
            try:
                source = io.BytesIO(value)
                row = self._avro.schemaless_reader(source, self._parsed(version or 1), self._reads)
                if source.tell() != len(value):
                    raise ValueError("there is more behind the record; is it framed for a schema registry?")
                missing = next((name for name in self._required if row.get(name) is None), None)
                if missing is not None:
                    raise ValueError(f"column {missing!r}: a value is required")
                rows.append({name: _unpaired(found) if name in self._paired else found for name, found in row.items()})
                kept.append(i)
            except Exception as error:
                # fastavro raises whatever its parts do: EOFError, IndexError, UnicodeDecodeError, OverflowError …
                bad[i] = f"not a record of this topic's Avro schema ({error or type(error).__name__})"
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in self.schema]
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self.schema), kept, bad)


def _has_pairs(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind) and not pa.types.is_string(kind.key_type))


def _paired(column: pa.Array) -> list[Any]:
    return [
        None if pairs is None else [{"key": key, "value": value} for key, value in pairs]
        for pairs in column.to_pylist()
    ]


def _unpaired(pairs: list[dict[str, Any]] | None) -> Any:
    return None if pairs is None else [(pair["key"], pair["value"]) for pair in pairs]


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise not_installed('format="avro"', error, "kafka") from None
    return fastavro
