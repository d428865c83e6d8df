"""Which Python values a column takes, as types for msgspec."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

import msgspec

from riverrun import ddl
from riverrun.log.times import TimeForms

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WHOLE = {"float": 24, "double": 53}  # bits of the largest whole number up to which every one has its own value
NOT_FINITE = Literal["NaN", "Infinity", "-Infinity"]  # which JSON has no numbers for
_PYTHON: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "date": dt.date,
    "timestamp_ntz": Annotated[dt.datetime, msgspec.Meta(tz=False)],
    "binary": bytes,
}


def row_struct(
    columns: Sequence[ddl.Column], times: TimeForms, required: Collection[str] = (), foreign: bool = False
) -> Any:
    """A msgspec type for rows with these columns, of which the required ones must have a value.

    `foreign` rows were written by others, or for more columns than are known here: what is unknown is passed over, what is
    left out is UNSET.
    """
    fields: list[Any] = []
    for i, column in enumerate(columns):
        kind = python_type(column.type, times, foreign)
        if column.name in required:
            fields.append((f"c{i}", kind))
        elif foreign:
            fields.append((f"c{i}", kind | None | msgspec.UnsetType, msgspec.UNSET))
        else:
            fields.append((f"c{i}", kind | None, None))
    rename = {f"c{i}": column.name for i, column in enumerate(columns)}
    # Rows are made by the thousand and hold nothing that holds them: without a place in the garbage collector.
    return msgspec.defstruct("Row", fields, forbid_unknown_fields=not foreign, kw_only=True, rename=rename, gc=False)


def python_type(kind: ddl.Type, times: TimeForms, foreign: bool = False) -> Any:
    """What msgspec takes for a value of this type. Whole numbers for a double stay as they are, so none is rounded."""
    inner = times.nested
    match kind:
        case ddl.Decimal():
            return decimal.Decimal
        case ddl.Array(element):
            return list[python_type(element, inner, foreign) | None]  # type: ignore[misc]
        case ddl.Map(key, value):
            return dict[python_type(key, inner, foreign), python_type(value, inner, foreign) | None]  # type: ignore[misc]
        case ddl.Struct(fields):
            return row_struct(fields, inner, [field.name for field in fields if not field.nullable], foreign)
        case ddl.Scalar("timestamp"):
            return times.python
        case ddl.Scalar(name) if name in _BITS:
            half = 1 << (_BITS[name] - 1)
            return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
        case ddl.Scalar(name) if name in _WHOLE:
            most = 1 << _WHOLE[name]
            number = Annotated[int, msgspec.Meta(ge=-most, le=most)] | float
            return number | NOT_FINITE if foreign else number
        case ddl.Scalar(name):
            return _PYTHON[name]
