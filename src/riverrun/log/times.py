"""Times as they are given → timestamps in UTC. Which are taken, a topic says: with a zone always, without one and as
numbers only where `naive` and `times` allow it, since a guess would be off by hours, or by a factor of a thousand.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.durations import to_micros
from riverrun.errors import Invalid

NAIVE = ("utc",)
EPOCHS = {"s": 1_000_000, "ms": 1_000}  # microseconds of one
_ZONED = Annotated[dt.datetime, msgspec.Meta(tz=True)]
_WRITTEN = 'Write it as "2026-01-31T12:00:00Z", or give a datetime with a zone'
_COUNTED = '; a topic made with times="s" or times="ms" takes seconds or milliseconds since 1970'
_ZONE = r":\d\d(\.\d+)? ?(Z|[+-]\d\d(:?\d\d)?)$"
_NUMBER = r"^-?\d+(\.\d+)?$"


class NoZone(Invalid):
    """A time that may be meant in any zone. The hint has the two ways to say which one it is."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} without a zone",
            hint='Give it one, as in datetime.now(UTC), "2026-01-31T12:00:00Z" or df["at"].dt.tz_localize("UTC");'
            ' or make the topic with naive="utc", where all of them are UTC',
        )


@dataclass(frozen=True, slots=True)
class TimeForms:
    """What a topic takes for a timestamp beside a time with a zone. `naive` "utc": times without one, which are UTC;
    `epoch` "s" or "ms": numbers, that long since 1970."""

    naive: str | None = None
    epoch: str | None = None

    @property
    def python(self) -> Any:
        """The msgspec type of a value."""
        moment = dt.datetime if self.naive else _ZONED
        return moment | int | float if self.epoch else moment

    @property
    def nested(self) -> TimeForms:
        """Of values inside arrays, maps and structs: numbers are taken for whole columns only."""
        return replace(self, epoch=None)

    def micros(self, moment: dt.datetime) -> int:
        """Microseconds since 1970 of a datetime."""
        if isinstance(moment, dt.datetime) and moment.tzinfo is None and self.naive:
            moment = moment.replace(tzinfo=dt.UTC)
        return to_micros(moment)

    def array(self, values: Sequence[Any], want: pa.DataType) -> pa.Array:
        """Values that `python` allows as timestamps."""
        if self.epoch is None:
            return pa.array(values, want)
        if set(map(type, values)) <= {int, type(None)}:
            return self._since_1970(pa.array(values, pa.int64()), want)
        factor = EPOCHS[self.epoch]
        read = [round(value * factor) if isinstance(value, int | float) else value for value in values]
        moments = [self.micros(value) if isinstance(value, dt.datetime) else value for value in read]
        return pa.array(moments, pa.int64()).cast(want)

    def column(self, column: pa.ChunkedArray, want: pa.DataType) -> pa.ChunkedArray:
        """A column of a table, which may still have to be cast. `NoZone` where its times have no zone."""
        have = column.type
        if self.epoch and pa.types.is_timestamp(want) and want.tz and pa.types.is_integer(have):
            return self._since_1970(column.cast(pa.int64()), want)
        if self.epoch and pa.types.is_timestamp(want) and want.tz and pa.types.is_floating(have):
            return pc.round(pc.multiply(column, float(EPOCHS[self.epoch]))).cast(pa.int64()).cast(want)
        if not self.naive and _lacks_zone(have, want) and column.null_count < len(column):
            raise NoZone(f"{have} is times")
        return column

    def texts(self, texts: pa.ChunkedArray, want: pa.DataType) -> pa.ChunkedArray:
        """Written times. `pa.ArrowException` where one is none, `NoZone` where one has no zone."""
        if not want.tz:
            return texts.cast(want)
        rest, parts = texts, []
        if self.epoch:
            counted = pc.match_substring_regex(rest, _NUMBER)
            parts.append(self.column(pc.if_else(counted, rest, None).cast(pa.float64()), want))
            rest = pc.if_else(counted, None, rest)
        zoned = pc.match_substring_regex(rest, _ZONE)
        parts.append(pc.if_else(zoned, rest, None).cast(want))
        naive = pc.if_else(zoned, None, rest)
        parts.append(pc.assume_timezone(naive.cast(pa.timestamp("us")), "UTC").cast(want))
        if not self.naive and naive.null_count < len(naive):
            raise NoZone(f"{naive.drop_null()[0].as_py()!r} is a time")
        return pc.coalesce(*parts)

    def refusal(self, value: Any) -> Invalid:
        """Why a value was not taken for a time, and how to write one."""
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            return NoZone(f"{value.isoformat(' ')} is a time")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Invalid(f"{value!r} is a number, not a time", hint=_WRITTEN + _COUNTED)
        try:
            msgspec.convert(value, dt.datetime)
        except msgspec.ValidationError:
            counted = isinstance(value, str) and re.fullmatch(_NUMBER, value)
            return Invalid(f"{value!r} is not a time", hint=_WRITTEN + (_COUNTED if counted else ""))
        return NoZone(f"{value!r} is a time")

    def _since_1970(self, numbers: Any, want: pa.DataType) -> Any:
        return numbers.cast(pa.timestamp(self.epoch, "UTC")).cast(want)


def _lacks_zone(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether times with a zone are wanted somewhere in a type, and times without one are there."""
    if pa.types.is_timestamp(have):
        return pa.types.is_timestamp(want) and want.tz is not None and have.tz is None
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        named = {field.name: field.type for field in want}
        return any(field.name in named and _lacks_zone(field.type, named[field.name]) for field in have)
    if pa.types.is_map(have) and pa.types.is_map(want):
        return _lacks_zone(have.key_type, want.key_type) or _lacks_zone(have.item_type, want.item_type)
    if hasattr(have, "value_type") and hasattr(want, "value_type"):
        return _lacks_zone(have.value_type, want.value_type)
    return False
