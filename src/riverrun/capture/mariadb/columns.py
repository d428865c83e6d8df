"""What mysql-replication says of columns and values, in our words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymysqlreplication.constants import FIELD_TYPE, NONE_SOURCE

from riverrun.capture.mariadb.catalog import BinlogColumn
from riverrun.capture.mariadb.types import ColumnType

_NAMES = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.TIME2: "time",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.DATETIME2: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIMESTAMP2: "timestamp",
    FIELD_TYPE.ENUM: "enum",
    FIELD_TYPE.SET: "set",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.GEOMETRY: "geometry",
    FIELD_TYPE.JSON: "json",
}
_STRINGS = {FIELD_TYPE.STRING: "char", FIELD_TYPE.VARCHAR: "varchar", FIELD_TYPE.VAR_STRING: "varchar"}
_BINARY = {"char": "binary", "varchar": "varbinary", "text": "blob"}


def described(columns: Sequence[Any]) -> tuple[BinlogColumn, ...]:
    """The columns of a table as an event has them."""
    return tuple(BinlogColumn(column.name, _type(column), bool(column.is_primary)) for column in columns)


def _type(column: Any) -> ColumnType:
    if column.type in _STRINGS or column.type == FIELD_TYPE.BLOB:
        name = _STRINGS.get(column.type, "text")
        is_binary = column.character_set_name == "binary" or column.collation_name == "binary"
        return ColumnType(_BINARY[name] if is_binary else name, precision=getattr(column, "max_length", 0))
    name = _NAMES.get(column.type, f"number {column.type}")
    if name == "decimal":
        return ColumnType(name, bool(column.unsigned), column.precision, column.decimals)
    return ColumnType(name, bool(column.unsigned), getattr(column, "fsp", 0) or getattr(column, "bits", 0))


def missing_columns(event: Any, is_update: bool) -> list[str]:
    """The columns that an event's rows do not have."""
    present = event.columns_present_bitmap
    names = [column.name for column in event.columns]
    found = [name for place, name in enumerate(names) if not _has(present, place)]
    if is_update:
        found += [name for place, name in enumerate(names) if not _has(event.columns_present_bitmap2, place)]
    return list(dict.fromkeys(str(name) for name in found))


def _has(bitmap: bytes, place: int) -> bool:
    return bool(bitmap[place // 8] >> place % 8 & 1)


def plain_rows(event: Any, which: str) -> list[dict[str, Any]]:
    """Rows by the names of their columns; sets as text, in the order of their declaration."""
    rows: list[dict[str, Any]] = [row[which] for row in event.rows]
    sets = [column for column in event.columns if column.type == FIELD_TYPE.SET]
    if sets:
        nones = which.replace("values", "none_sources")
        for row, kept in zip(rows, event.rows, strict=True):
            for column in sets:
                value = row.get(column.name)
                if value is not None:
                    row[column.name] = ",".join(one for one in column.set_values if one in value)
                elif kept[nones].get(column.name) == NONE_SOURCE.EMPTY_SET:
                    row[column.name] = ""
    return rows
