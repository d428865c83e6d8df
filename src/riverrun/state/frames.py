"""Frames taken apart and put together by their columns, at once.

Polars plans a query for every `select`, `filter` or `with_columns`: about a tenth of a millisecond, however few rows
there are. An operator has hundreds of such calls in a step, and most steps have few rows. These functions do the same
to columns that are there already, in a few microseconds; with many rows they take as long as Polars does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from polars.datatypes import numpy_type_to_constructor

from riverrun.state.order import Indexes

Mask = npt.NDArray[np.bool_]
Kinds = Mapping[str, pl.DataType]
_FEW = 1000  # rows that are not worth another thread


def series(name: str, values: npt.NDArray[Any]) -> pl.Series:
    """An array of numbers or booleans as a column."""
    # `pl.Series` calls the same constructor, when it has found out, in ten times as long, what it was given
    construct = _constructor(values.dtype)
    return pl.Series._from_pyseries(construct(name, np.ascontiguousarray(values), False))


@lru_cache(100)
def _constructor(kind: np.dtype[Any]) -> Callable[..., Any]:
    return numpy_type_to_constructor(np.empty(0, kind), np.dtype(kind.name).type)


def frame_of(columns: Sequence[pl.Series]) -> pl.DataFrame:
    """Columns of equal length and different names side by side."""
    return columns[0].to_frame().hstack(list(columns[1:])) if columns else pl.DataFrame()


def from_arrow(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Arrow rows as a frame. Column by column: as a whole they would be converted by another thread, which takes
    milliseconds to be woken where processors are busy."""
    columns = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in rows.columns]
    return frame_of([pl.Series(name, column) for name, column in zip(rows.schema.names, columns, strict=True)])


def to_arrow(rows: pl.DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of an Arrow schema, in its types."""
    columns = [_arrow(rows.get_column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _arrow(column: pl.Series, kind: pa.DataType) -> pa.Array:
    values = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    return values if values.type == kind else values.cast(kind)


def pick(rows: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Some of the columns, in this order."""
    return frame_of([rows.get_column(name) for name in names])


def beside(rows: pl.DataFrame, columns: Sequence[pl.Series]) -> pl.DataFrame:
    """The rows with more columns; those of the same name are replaced, at their place."""
    fresh = {column.name: column for column in columns}
    kept = [fresh.pop(column.name, column) for column in rows.get_columns()]
    return frame_of([*kept, *fresh.values()])


def keep(rows: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    """The rows where the mask is true."""
    if mask.all():
        return rows
    chosen = series("", mask)
    return frame_of([values.filter(chosen) for values in rows.get_columns()])


def take(rows: pl.DataFrame, places: Indexes) -> pl.DataFrame:
    """The rows at these places, in this order."""
    return _gathered(rows, index(places))


def take_or_null(rows: pl.DataFrame, places: Indexes) -> pl.DataFrame:
    """The same, and a row of nulls for each place that is negative."""
    return _gathered(rows, series("", places).cast(pl.UInt32, strict=False))


def _gathered(rows: pl.DataFrame, places: pl.Series) -> pl.DataFrame:
    if len(places) > _FEW:
        return rows[places]
    # As a whole they would be gathered by another thread, which takes long to be woken where processors are busy.
    columns = rows.get_columns()
    return frame_of([pl.Series._from_pyseries(column._s.gather_with_series(places._s)) for column in columns])


def index(places: Indexes) -> pl.Series:
    """Places as Polars wants them: with 32 bits it need not look for negative ones."""
    return series("", places.astype(np.uint32))


def stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of frames with the same columns, one below the other."""
    filled = [frame for frame in frames if frame.height]
    if len(filled) < 2:
        return filled[0] if filled else frames[0]
    total = filled[0]
    for frame in filled[1:]:
        total = total.vstack(frame)
    if total.height > _FEW:
        return total.rechunk()
    return frame_of([column.rechunk() for column in total.get_columns()])


def typed(rows: pl.DataFrame, kinds: Kinds) -> pl.DataFrame:
    """The columns named in `kinds`, with these types."""
    if rows.dtypes == list(kinds.values()) and rows.columns == list(kinds):
        return rows
    return frame_of([cast(rows.get_column(name), kind) for name, kind in kinds.items()])


def cast(column: pl.Series, kind: pl.DataType) -> pl.Series:
    """The column with this type."""
    return column if column.dtype == kind else column.cast(kind)


def constant(name: str, value: Any, kind: pl.DataType, height: int) -> pl.Series:
    """A column that has one value."""
    return _single(name, value, kind).new_from_index(0, height)


@lru_cache(1000)
def _single(name: str, value: Any, kind: pl.DataType) -> pl.Series:
    return pl.Series(name, [value], dtype=kind)


def numbers(column: pl.Series) -> npt.NDArray[Any]:
    """The values of a column of numbers, booleans or times (as integers), read only; under a null there is any value."""
    if column.dtype.is_temporal():
        column = column.cast(pl.Int64)
    if not column.null_count():
        return column.to_numpy()
    values = _one_chunk(column)
    if column.dtype == pl.Boolean:
        return _bits(values.buffers()[1], values.offset, len(values))
    kind = column.slice(0, 0).to_numpy().dtype
    return np.frombuffer(values.buffers()[1], kind)[values.offset : values.offset + len(values)]


def filled(column: pl.Series, value: float) -> npt.NDArray[Any]:
    """The values of such a column, with this one instead of nulls."""
    values, there = numbers(column), present(column)
    return values if there is None else np.where(there, values, np.asarray(value, values.dtype))


def null_unless(column: pl.Series, mask: Mask) -> pl.Series:
    """The column, null where the mask is false."""
    if mask.all():
        return column
    return column.zip_with(series("", mask), constant(column.name, None, column.dtype, len(column)))


def present(column: pl.Series) -> Mask | None:
    """Where a column is not null; None: everywhere."""
    nulls = column.null_count()
    if not nulls:
        return None
    if nulls == len(column):
        return np.zeros(nulls, np.bool_)
    values = _one_chunk(column)
    return _bits(values.buffers()[0], values.offset, len(values))


def without_nulls(rows: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """The rows that have a value in each of these columns."""
    for name in columns:
        there = present(rows.get_column(name))
        if there is not None:
            rows = keep(rows, there)
    return rows


def true(column: pl.Series) -> Mask:
    """Where a column of booleans is true; null is not."""
    mask, there = numbers(column), present(column)
    return mask if there is None else mask & there


def _bits(buffer: pa.Buffer, offset: int, length: int) -> Mask:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=offset + length, bitorder="little")
    return bits[offset:].view(np.bool_)


def _one_chunk(column: pl.Series) -> pa.Array:
    return column.rechunk().to_arrow()
