"""What the schema inside a message says of its columns: Kafka Connect's types, and the names that give them a meaning."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from riverrun import ddl
from riverrun.envelopes import wire
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.wire import Wire
from riverrun.errors import Invalid

_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_INTEGERS = ("int8", "int16", "int32", "int64")


class ConnectField(msgspec.Struct, gc=False):
    """A field of a schema, or a schema, as it is written."""

    type: str = ""
    field: str | None = None
    name: str | None = None
    parameters: dict[str, str] | None = None
    fields: list[ConnectField] = []
    items: ConnectField | None = None


@dataclass(frozen=True)
class Told:
    """What a schema says of the values of a column."""

    type: str = ""
    name: str | None = None
    scale: str | None = None
    items: Told | None = None


Columns = tuple[tuple[str, Told], ...]
"""What a schema says of each column. Schemas of many versions may say the same."""


class Misfit(Invalid):
    """A declared column is something else by the schema in the message."""


def columns_of(schema: bytes, part: str | None) -> Columns:
    """The columns that a schema describes: those of a field of it ("after"), or its own."""
    found = _DECODER.decode(schema)
    if part is not None:
        found = next((field for field in found.fields if field.field == part), ConnectField())
    return tuple((field.field, _told(field)) for field in found.fields if field.field is not None)


def _told(field: ConnectField) -> Told:
    items = None if field.items is None else _told(field.items)
    return Told(field.type, field.name, (field.parameters or {}).get("scale"), items)


def wires(envelope: Envelope, columns: Columns | None) -> dict[str, Wire]:
    """How each column stands in the messages. None: they bring no schema. `Misfit` where it says something else."""
    told = dict(columns or ())
    return {
        column.name: _wire(column.name, column.type, envelope, told.get(column.name)) for column in envelope.columns
    }


def _wire(name: str, kind: ddl.Type, envelope: Envelope, told: Told | None) -> Wire:
    match kind:
        case ddl.Array(element):
            items = None if told is None else told.items or Told()
            return wire.lists(_wire(name, element, envelope, items), kind)
        case ddl.Decimal():
            return _decimal_wire(name, kind, envelope, told)
        case ddl.Scalar("timestamp" | "timestamp_ntz"):
            return wire.moments(kind, envelope.form.times if told is None else _unit(name, kind, envelope, told))
        case ddl.Scalar("date"):
            if told is not None and told.name not in _DAYS and told.type in _INTEGERS:
                raise _misfit(name, kind, told)
            return wire.dates()
        case ddl.Scalar("string") if envelope.form.name == "maxwell":
            return wire.documents()
        case ddl.Scalar("string") if told is not None and told.type == "bytes":
            raise _misfit(name, kind, told)  # which would be base64, and looks like any other string
        case ddl.Scalar("binary") if told is not None and (told.type != "bytes" or told.name == _DECIMAL):
            raise _misfit(name, kind, told)
    return wire.plain(kind)


def _unit(name: str, kind: ddl.Type, envelope: Envelope, told: Told) -> str | None:
    """The unit of numbers that are timestamps; None where they are not numbers, or nobody says it."""
    if told.type not in _INTEGERS:
        return None
    if told.name is None:
        return envelope.form.times
    if told.name not in _UNITS:
        raise _misfit(name, kind, told)
    return _UNITS[told.name]


def _decimal_wire(name: str, kind: ddl.Decimal, envelope: Envelope, told: Told | None) -> Wire:
    if told is None and envelope.form.name == "maxwell":
        return wire.exact_numbers(kind)
    if told is None and envelope.form.decimals is None:
        return wire.doubles_as_decimals(kind)
    if told is None:
        return (
            wire.scaled_bytes(kind, kind.scale) if envelope.form.decimals == "precise" else wire.written_numbers(kind)
        )
    if told.name == _DECIMAL:
        try:
            return wire.scaled_bytes(kind, int(told.scale or ""))
        except ValueError:
            raise Misfit(f"column {name!r}: the schema in the message has no scale for it") from None
    if told.name == _VARIABLE or told.type == "string":
        return wire.written_numbers(kind)
    if told.type == "bytes":
        raise _misfit(name, kind, told)
    return wire.doubles_as_decimals(kind)


def _misfit(name: str, kind: ddl.Type, told: Told) -> Misfit:
    said = told.name or told.type
    return Misfit(f"column {name!r} is declared as {kind}, and the schema in the message says {said}")


_DECODER = msgspec.json.Decoder(ConnectField)
