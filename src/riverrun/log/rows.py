"""Rows as users give them → one Arrow batch of the topic's schema, or an error that names the row and the column.

msgspec is strict where pyarrow is lenient (1.5 for a long, bytes for a string, an int for a timestamp, unknown column),
and pyarrow where msgspec is (overflow, lone surrogates), so both look at every row.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import contains
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import calendar, ddl
from riverrun.durations import wall_clock
from riverrun.errors import Invalid, RecordTooLarge, did_you_mean
from riverrun.log import scalars
from riverrun.log.row_types import row_struct
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.times import NoZone, TimeForms

_TIMESTAMP = ddl.to_arrow(ddl.Scalar("timestamp"))
_FEW = 64
LARGEST_FLOAT = 3.4028235677973362e38  # what is above is rounded to infinity
TEMPORAL = (dt.datetime, dt.date, decimal.Decimal, bytes)


class RowSchema:
    """The schema of one version of a topic, and the way into it."""

    def __init__(self, spec: StoredSpec, max_record_bytes: int) -> None:
        self.columns = ddl.parse(spec.schema)
        self.arrow: pa.Schema = ddl.arrow_schema(self.columns)
        self.names = [column.name for column in self.columns]
        self._topic = spec.name
        # A tombstone has its key only; `_time` belongs to topics without a time column of their own.
        self.hidden = ddl.parse("_deleted boolean" + (", _time timestamp" if spec.time is None else ""))
        self._given = pa.schema([*self.arrow, *ddl.arrow_schema(self.hidden)])
        self._fields = {field.name: field for field in self._given}
        self._struct = pa.struct(list(self.arrow))
        self._key = tuple(spec.key)
        times = [] if spec.time is None else [spec.time]
        not_null = [column.name for column in self.columns if not column.nullable]
        # Of a key of several columns some may be null, as in an outer join's; NOT NULL forbids it.
        alone = spec.key if len(spec.key) == 1 and not spec.null_keys else ()
        self.required = list(dict.fromkeys([*alone, *times, *not_null]))
        self.limit = max_record_bytes
        self.times = TimeForms(spec.naive, spec.times)
        self._floats = [field.name for field in self.arrow if pa.types.is_float32(field.type)]
        self._binary = [field.name for field in self.arrow if pa.types.is_binary(field.type)]
        self._nested_binary = any(pa.types.is_nested(f.type) and "binary" in str(f.type) for f in self.arrow)
        self._timed = [field.name for field in self._given if calendar.has_times(field.type)]
        self._row = row_struct([*self.columns, *self.hidden], self.times)
        self._rows = list[self._row]  # type: ignore[name-defined]

    def batch(self, rows: Any) -> pa.RecordBatch:
        """One batch with the topic's columns, and `_deleted` or `_time` where given. Nothing is coerced with a loss."""
        if isinstance(rows, Mapping):
            batch = self._from_dicts([rows])
        elif isinstance(rows, list | tuple):
            batch = self._from_dicts(rows)
        elif isinstance(rows, pa.RecordBatch) and rows.schema.equals(self.arrow):
            batch = rows
        else:
            batch = self._from_table(_as_table(rows))
        self._check(batch)
        return completed(batch)

    def _from_dicts(self, rows: Sequence[Any]) -> pa.RecordBatch:
        try:
            checked = msgspec.convert(rows, self._rows)
        except (msgspec.ValidationError, TypeError):
            checked = self._checked_slowly(rows := scalars.plain_rows(rows))
        # Only tombstones and derived rows carry hidden columns.
        hidden = [column.name for column in self.hidden if any(map(contains, rows, repeat(column.name)))]
        schema = self._given if hidden else self.arrow
        try:
            if self._has_text_for_binary(rows) or self.times.epoch:
                raise TypeError  # pyarrow would take its letters for the bytes, and any number for microseconds
            if len(rows) < _FEW and not hidden:
                batch = self._from_few(rows)
            else:
                batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError):  # a mapping of one's own, too
            batch = self._by_column(checked, schema)
        self._check_floats(batch, rows)
        return batch.select([*self.names, *hidden]) if hidden else batch

    def _checked_slowly(self, rows: Sequence[Any]) -> Any:
        try:
            return msgspec.convert(rows, self._rows)
        except (msgspec.ValidationError, TypeError) as error:
            row = self._first_bad(rows)
            raise self._explain(error, row, rows[row]) from None

    def _from_few(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """One conversion for all columns: with a few rows, it is the number of conversions that costs."""
        return pa.RecordBatch.from_struct_array(pa.array(rows, self._struct))

    def _has_text_for_binary(self, rows: Sequence[Any]) -> bool:
        if self._nested_binary:
            return True
        return any(isinstance(row.get(name), str) for name in self._binary for row in rows)

    def _check_floats(self, batch: pa.RecordBatch, rows: Sequence[Any]) -> None:
        """pyarrow makes infinity of a number that is too large for a float."""
        for name in self._floats:
            if pc.any(pc.is_inf(batch.column(name))).as_py():
                for i, row in enumerate(rows):
                    if abs(row.get(name) or 0) > LARGEST_FLOAT and not math.isinf(row[name]):
                        raise self._bad(i, name, f"{row[name]} is too large for a float")

    def _by_column(self, checked: list[Any], schema: pa.Schema) -> pa.RecordBatch:
        """The slow way, which finds the row and column at fault, and takes strings for times, dates and decimals."""
        read = msgspec.to_builtins(checked, builtin_types=TEMPORAL)
        arrays = []
        for field in schema:
            values = [row.get(field.name) for row in read]
            make = self.times.array if field.type == _TIMESTAMP else pa.array
            try:
                arrays.append(make(values, field.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                row, why = _first_refused(values, field.type, error, make)
                raise self._bad(row, field.name, why) from None
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _from_table(self, table: pa.Table) -> pa.RecordBatch:
        given = table.column_names
        for name in given:
            if name not in self._fields:
                raise Invalid(f"topic {self._topic} has no column {name!r}", hint=did_you_mean(name, self.names))
        places = {name: i for i, name in enumerate(given)}
        if len(places) < len(given):
            raise Invalid(f"topic {self._topic}: a column is given twice: {given}")
        wanted = [*self.names, *(column.name for column in self.hidden if column.name in places)]
        arrays = []
        for name in wanted:
            field = self._fields[name]
            if name in places:
                arrays.append(self._cast(table.column(places[name]), field))
            else:
                arrays.append(pa.nulls(table.num_rows, field.type))
        schema = self.arrow if len(wanted) == len(self.names) else pa.schema([self._fields[name] for name in wanted])
        return pa.RecordBatch.from_arrays([_one_chunk(a) for a in arrays], schema=schema)

    def _cast(self, column: pa.ChunkedArray, field: pa.Field) -> Any:
        have, want = column.type, field.type
        if have == want:
            return column
        if pa.types.is_dictionary(have):
            return self._cast(column.cast(have.value_type), field)
        try:
            ready = self.times.column(column, want)
            if not _lossless_kind(ready.type, want):
                raise Invalid(f"topic {self._topic}: column {field.name!r} is {want}, not {have}")
            cast = ready.cast(want, safe=True)
            if pa.types.is_float32(want) and pa.types.is_float64(have):
                too_large = pc.index(pc.and_not(pc.is_inf(cast), pc.is_inf(column)), True).as_py()
                if too_large >= 0:
                    raise self._bad(too_large, field.name, f"{column[too_large]} is too large for a float")
            return cast
        except NoZone as error:
            raise self._bad(
                pc.index(pc.is_valid(column), True).as_py(), field.name, error.message, error.hint
            ) from None
        except pa.ArrowException as error:
            row = _first_uncastable(column, lambda part: self.times.column(part, want).cast(want, safe=True))
            raise self._bad(row, field.name, str(error)) from None

    def _check(self, batch: pa.RecordBatch) -> None:
        deleted = batch.column("_deleted") if "_deleted" in batch.schema.names else None
        for name in self.required:
            column = batch.column(name)
            if column.null_count == 0:
                continue
            missing = pc.is_null(column)
            if deleted is not None and name not in self._key:
                missing = pc.and_not(missing, pc.fill_null(deleted, False))
            row = pc.index(missing, True).as_py()
            if row >= 0:
                raise self._bad(row, name, "a value is required")
        for name in self._timed:
            if name in batch.schema.names and not calendar.fits(batch.column(name)):
                raise self._bad(
                    calendar.first_unfit(batch.column(name)), name, "a time outside the years 1 to 9999 in UTC"
                )
        # The whole batch is at least as large as any of its rows.
        if is_larger(batch, self.limit):
            self._check_sizes(batch)

    def _check_sizes(self, batch: pa.RecordBatch) -> None:
        sizes = row_sizes(batch)
        largest = pc.max(sizes).as_py() or 0
        if largest > self.limit:
            row = pc.index(pc.greater(sizes, self.limit), True).as_py()
            raise RecordTooLarge(
                f"topic {self._topic}, row {row}: a record of {largest} bytes is over the limit of {self.limit}",
                hint="Raise the setting max_record_bytes, or store the large value elsewhere and send its address",
            )

    def _first_bad(self, rows: Sequence[Any]) -> int:
        for i, row in enumerate(rows):
            try:
                msgspec.convert(row, self._row)
            except (msgspec.ValidationError, TypeError):
                return i
        return 0

    def _explain(self, error: Exception, row: int, given: Any) -> Invalid:
        text = str(error)
        place = re.search(r" - at (?:`key` in )?`(?:\$(?:\[(?:\.\.\.|\d+)\])?\.?)?([^`]*)`", text)
        what, column = (text[: place.start()], place[1]) if place else (text, "")
        unknown = re.search(r"contains unknown field `([^`]*)`", what)
        if unknown:
            name = f"{column}.{unknown[1]}" if column else unknown[1]
            hint = None if column else did_you_mean(name, self.names)
            return Invalid(f"topic {self._topic}, row {row}: there is no column {name!r}", hint=hint)
        if not column:
            return Invalid(
                f"topic {self._topic}, row {row}: {_lower(what)}", hint="A row is a dict from column to value"
            )
        if self._fields.get(column) and self._fields[column].type == _TIMESTAMP:
            refusal = self.times.refusal(given[column])
            return self._bad(row, column, refusal.message, refusal.hint)
        number = given.get(column) if column in self._fields else None
        if what.startswith("Expected `int` ") and isinstance(number, int) and number.bit_length() <= 256:  # a bound
            what = f"{what}, not {number}"
        return self._bad(row, column, _lower(what))

    def _bad(self, row: int, column: str, why: str, hint: str | None = None) -> Invalid:
        return Invalid(f"topic {self._topic}, row {row}, column {column!r}: {why}", hint=hint)


def completed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Hidden columns that only some rows give: the others are no tombstones, and take the `_time` of now, which is about
    when they are received."""
    for name in ("_deleted", "_time"):
        at = batch.schema.get_field_index(name)
        if at >= 0 and batch.column(at).null_count:
            field = batch.schema.field(at)
            other = pa.scalar(False if name == "_deleted" else wall_clock(), field.type)
            batch = batch.set_column(at, field, pc.fill_null(batch.column(at), other))
    return batch


def key_text(batch: pa.RecordBatch | pa.Table, key: Sequence[str]) -> Any:
    """The key of every row as text: the value itself, or a JSON array of several. Its bytes choose the partition."""
    if len(key) == 1:
        column = batch.column(key[0])
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    return pc.binary_join_element_wise(
        "[", pc.binary_join_element_wise(*(_json_text(batch.column(name)) for name in key), ","), "]", ""
    )


def _json_text(column: Any) -> Any:
    if not (pa.types.is_string(column.type) or pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type)):
        return pc.fill_null(column.cast(pa.string()), "null")
    text = column.cast(pa.string())
    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    return pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "null")


def is_larger(batch: pa.RecordBatch, limit: int) -> bool:
    """Whether a batch has more bytes than that. Most have far less, and then this costs next to nothing."""
    # Columns may share a buffer, which is counted once here; and the buffers of a slice are those of the whole.
    if batch.get_total_buffer_size() * batch.num_columns <= limit:
        return False
    return bool(batch.nbytes > limit)


def row_sizes(batch: pa.RecordBatch) -> Any:
    """About how many bytes each row takes, for limits."""
    total: Any = pa.scalar(0, pa.int64())
    for column in batch.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            size = pc.cast(pc.fill_null(pc.binary_length(column), 0), pa.int64())
        elif pa.types.is_nested(kind):
            # Rare, and only when the batch as a whole is over the limit.
            size = pa.array([column.slice(i, 1).nbytes for i in range(len(column))], pa.int64())
        else:
            size = pa.scalar(8, pa.int64())
        total = pc.add(total, size)
    return total if isinstance(total, pa.Array) else pa.array([total.as_py()] * batch.num_rows, pa.int64())


def _as_table(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    module = type(rows).__module__.partition(".")[0]
    if module == "polars" and hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    if module == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    raise Invalid(
        f"rows cannot be a {type(rows).__name__}",
        hint="Give a dict, a list of dicts, or an Arrow, Polars or pandas table",
    )


def _one_chunk(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _lossless_kind(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a checked cast keeps the meaning: numbers to numbers, strings to strings, times to times."""
    t = pa.types
    numbers = (t.is_integer, t.is_floating, t.is_decimal)
    families = (
        (numbers, numbers),
        ((t.is_string,), (t.is_large_string, t.is_string_view)),
        ((t.is_binary,), (t.is_large_binary, t.is_binary_view, t.is_fixed_size_binary)),
        ((t.is_timestamp,), (t.is_timestamp,)),
        ((t.is_date32,), (t.is_date64,)),
        ((t.is_nested,), (t.is_nested,)),
    )
    return t.is_null(have) or any(
        any(is_kind(want) for is_kind in wanted) and any(is_kind(have) for is_kind in given)
        for wanted, given in families
    )


def _first_uncastable(column: pa.ChunkedArray, cast: Callable[[pa.ChunkedArray], Any]) -> int:
    low, high = 0, len(column)
    while high - low > 1:  # the first half that fails holds the first row that fails
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _first_refused(values: list[Any], want: pa.DataType, error: Exception, make: Callable[..., Any]) -> tuple[int, str]:
    for i, value in enumerate(values):
        try:
            make([value], want)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as found:
            if pa.types.is_decimal(want):
                return i, f"{value} does not fit {want}"
            return i, _lower(str(found))
    return 0, _lower(str(error))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[:2] != text[:2].upper() else text
