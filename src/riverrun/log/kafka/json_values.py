"""Values as JSON objects, with types as HTTP ingest takes them: times with a zone as text, decimals as text, bytes as
base64; infinities and NaN, which JSON has no numbers for, as words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter, is_, is_not
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import calendar, ddl
from riverrun.errors import Invalid
from riverrun.json_faults import BAD_JSON, json_fault, repeated_name
from riverrun.log.json_rows import plain_values
from riverrun.log.kafka.json_columns import encode_columns
from riverrun.log.kafka.values import Decoded, Values
from riverrun.log.row_types import row_struct
from riverrun.log.rows import LARGEST_FLOAT, TEMPORAL
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.times import TimeForms

_ESCAPED_NAME = re.compile(rb'"[^"]*\\u[^"]*"\s*:')
_REFUSED = (pa.ArrowException, Invalid, TypeError, ValueError, OverflowError)
_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_TEXTS = {"string", "binary", "date", "timestamp_ntz"}
MakeTimes = Callable[[Sequence[Any], pa.DataType], pa.Array]
_QUOTE = ord('"')
_TIMESTAMP = ddl.to_arrow(ddl.Scalar("timestamp"))


class JsonValues(Values):
    """One JSON object for each row. What a schema does not name is passed over, so that it may leave out what others
    write, and grow."""

    def __init__(self, spec: StoredSpec, schemas: Mapping[int, pa.Schema], version: int) -> None:
        super().__init__(spec, schemas, version)
        self._times = TimeForms(spec.naive, spec.times)
        # A key may be in the message's key only.
        not_null = [column.name for column in self.columns if not column.nullable and column.name not in spec.key]
        self._required = {*not_null, *([spec.time] if spec.time else [])}
        self._decode = msgspec.json.Decoder(row_struct(self.columns, self._times, self._required, foreign=True)).decode
        # Times may be of forms that Arrow reads otherwise; the usual one it reads much faster.
        usual = not (spec.naive or spec.times)
        times = _WrittenTimes() if usual else self._times
        self._times_at_once = _moments if usual else self._times.array
        self._decode_at_once = msgspec.json.Decoder(
            row_struct(self.columns, times, self._required, foreign=True)
        ).decode
        self._encode = msgspec.json.Encoder().encode
        self._getters = [attrgetter(f"c{i}") for i in range(len(self.columns))]
        self._names = [b'"' + column.name.encode() + b'"' for column in self.columns]
        self._texts = [i for i, column in enumerate(self.columns) if self._is_text(column.type)]
        self._is_nested = any(pa.types.is_nested(field.type) for field in self.schema)

    def _is_text(self, kind: ddl.Type) -> bool:
        """Whether a value of this type is never anything but text in JSON."""
        if isinstance(kind, ddl.Scalar) and kind.name == "timestamp":
            return self._times.epoch is None
        return isinstance(kind, ddl.Scalar) and kind.name in _TEXTS

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        names, clamped = rows.schema.names, [calendar.clamp(column) for column in rows.columns]
        written = encode_columns(pa.RecordBatch.from_arrays(clamped, names))
        if written is not None:
            return written
        columns = list(map(_written, clamped))
        return [self._encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def decode(self, values: Sequence[bytes], versions: Sequence[int]) -> Decoded:
        rows = self._at_once(values)
        if rows is not None:
            return Decoded(rows, range(len(values)), {})
        bad: dict[int, str] = {}
        try:
            structs, kept = list(map(self._decode, values)), list(range(len(values)))
        except BAD_JSON:
            structs, kept = self._one_by_one(values, bad)
        repeated = self._repeated(values, structs, kept)
        if repeated:
            bad |= repeated
            structs = [one for one, place in zip(structs, kept, strict=True) if place not in repeated]
            kept = [place for place in kept if place not in repeated]
        rows, unfit = self._rows(structs)
        if unfit:
            bad |= {kept[i]: why for i, why in unfit.items()}
            kept = [place for i, place in enumerate(kept) if i not in unfit]
        return Decoded(rows, kept, bad)

    def _at_once(self, values: Sequence[bytes]) -> pa.RecordBatch | None:
        """The rows, where all values are rows; None where it is not certain that none of them gives a name twice.

        Without backslashes, every quotation mark begins or ends a name or a text. If there are no more of them than the
        names and texts of these rows have, there are no other names.
        """
        text = b"".join(values)
        if self._is_nested or b"\\" in text:
            return None
        try:
            rows, left_out = self._batch(list(map(self._decode_at_once, values)), self._times_at_once)
        except (*BAD_JSON, *_REFUSED):
            return None
        names = len(values) * len(self.columns) - left_out
        texts = sum(len(values) - rows.column(i).null_count for i in self._texts)
        quotes = np.count_nonzero(np.frombuffer(text, np.uint8) == _QUOTE)
        return rows if quotes == 2 * (names + texts) else None

    def _one_by_one(self, values: Sequence[bytes], bad: dict[int, str]) -> tuple[list[Any], list[int]]:
        structs, kept = [], []
        for i, value in enumerate(values):
            try:
                structs.append(self._decode(value))
                kept.append(i)
            except BAD_JSON as error:
                bad[i] = _why(error, value)
        return structs, kept

    def _repeated(self, values: Sequence[bytes], structs: list[Any], kept: list[int]) -> dict[int, str]:
        """Values with a name given twice. Where names occur as often as columns have values there is none."""
        text = b"\n".join(values[i] for i in kept)
        counts = ((name, get) for name, get in zip(self._names, self._getters, strict=True))
        suspicious = self._is_nested or bool(_ESCAPED_NAME.search(text))
        if not suspicious and all(
            text.count(name) == sum(map(is_not, map(get, structs), repeat(msgspec.UNSET))) for name, get in counts
        ):
            return {}
        found = {i: repeated_name(values[i]) for i in kept}
        return {i: f"the name {name!r} is given twice" for i, name in found.items() if name is not None}

    def _rows(self, structs: list[Any]) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Arrow's view of the rows, which may refuse what JSON allows: a decimal that does not fit, a time of year 10000."""
        try:
            return self._batch(structs)[0], {}
        except _REFUSED as error:
            if len(structs) == 1:
                return self._batch([])[0], {0: str(error).partition("\n")[0]}
        middle = len(structs) // 2
        (first, bad), (second, more) = self._rows(structs[:middle]), self._rows(structs[middle:])
        return pa.concat_batches([first, second]), {**bad, **{i + middle: why for i, why in more.items()}}

    def _batch(self, structs: list[Any], times: MakeTimes | None = None) -> tuple[pa.RecordBatch, int]:
        """The rows, and how many values were left out."""
        arrays, left_out = [], 0
        for get, field in zip(self._getters, self.schema, strict=True):
            try:
                arrays.append(self._column(list(map(get, structs)), field.type, times or self._times.array))
            except _REFUSED as error:
                raise Invalid(f"column {field.name!r}: {error}") from None
            if arrays[-1].null_count:
                left_out += sum(map(is_, map(get, structs), repeat(msgspec.UNSET)))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), left_out

    def _column(self, values: list[Any], want: pa.DataType, times: MakeTimes) -> pa.Array:
        """Values as they are; where Arrow refuses them, those that were left out as nulls. Looking first would cost as much
        as all the rest, since it touches every value."""
        if not pa.types.is_nested(want):
            try:
                return self._array(values, want, times)
            except _REFUSED:
                if not any(value is msgspec.UNSET for value in values):
                    raise
        return self._array([None if value is msgspec.UNSET else value for value in values], want, times)

    def _array(self, values: list[Any], want: pa.DataType, times: MakeTimes) -> pa.Array:
        if pa.types.is_nested(want):
            values = msgspec.to_builtins(values, builtin_types=TEMPORAL)
            array = _with_words(values, want)
        elif want == _TIMESTAMP:
            array = times(values, want)
        elif pa.types.is_floating(want):
            array = _with_words(values, want)
            if pa.types.is_float32(want) and any(_overflows(value) for value in values):
                raise Invalid("a number is too large for a float")
        else:
            array = pa.array(values, want)
        if calendar.has_times(want) and not calendar.fits(array):
            raise Invalid("a time outside the years 1 to 9999 in UTC")
        return array


@dataclass(frozen=True, slots=True)
class _WrittenTimes(TimeForms):
    """Times stay the texts that they are."""

    @property
    def python(self) -> Any:
        return str


def _moments(texts: Sequence[Any], want: pa.DataType) -> pa.Array:
    """Times in the usual form; `pa.ArrowInvalid` where one is in another."""
    written = pa.array(texts, pa.string())
    if pc.all(pc.match_substring_regex(written, _MOMENT)).as_py() is False:
        raise pa.ArrowInvalid("a time that is written in another way")
    return written.cast(want)


class DocumentValues(Values):
    """A topic with the schema "json string": a value is the document, as it is. A null is `{"json":null}`, since a message
    without a value is a tombstone."""

    _NULL = b'{"json":null}'

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        return [self._NULL if text is None else text.encode() for text in rows.column(0).to_pylist()]

    def decode(self, values: Sequence[bytes], versions: Sequence[int]) -> Decoded:
        texts, kept, bad = [], [], {}
        for i, value in enumerate(values):
            try:
                texts.append(None if value == self._NULL else value.decode())
                kept.append(i)
            except UnicodeDecodeError as error:
                bad[i] = json_fault(error, value)
        return Decoded(pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=self.schema), kept, bad)


def _why(error: Exception, value: bytes) -> str:
    """What is wrong with a value, with the column if one is named."""
    if not isinstance(error, msgspec.ValidationError):
        return json_fault(error, value)
    return str(error).replace(" - at `$.", ", column `")


def _written(column: pa.Array) -> list[Any]:
    """A column as JSON has it, with words for floats that it has no numbers for."""
    kind = column.type
    if pa.types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is False:
        return list(map(_word, column.to_pylist()))
    values = plain_values(column)
    return _words_inside(values) if pa.types.is_nested(kind) and _has_floats(kind) else values


def _word(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _words_inside(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _words_inside(inner) for key, inner in value.items()}
    return [_words_inside(inner) for inner in value] if isinstance(value, list) else _word(value)


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _with_words(values: list[Any], want: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, want)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        return pa.array([_numbers(value, want) for value in values], want)


def _numbers(value: Any, want: pa.DataType) -> Any:
    """Words for infinities and NaN as the numbers they mean."""
    if isinstance(value, list) and pa.types.is_list(want):
        return [_numbers(one, want.value_type) for one in value]
    if isinstance(value, dict) and pa.types.is_map(want):
        return {key: _numbers(one, want.item_type) for key, one in value.items()}
    if isinstance(value, dict) and pa.types.is_struct(want):
        return {name: _numbers(one, want.field(name).type) for name, one in value.items()}
    return float(value) if isinstance(value, str) and pa.types.is_floating(want) else value


def _overflows(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) > LARGEST_FLOAT and not math.isinf(value)
