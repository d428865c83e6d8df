"""Columns as the search reads them: whole numbers, real numbers, and for everything else codes that compare alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.patterns.kinds import DIGITS
from riverrun.patterns.tables import Bits, Real, Whole
from riverrun.state.frames import numbers, present


def is_real_column(column: pl.Series) -> bool:
    return column.dtype.is_float()


def is_coded_column(column: pl.Series) -> bool:
    kind = column.dtype
    plain = kind.is_float() or kind.is_integer() or kind == pl.Boolean or kind.is_temporal()
    return not (plain or is_exact_column(column))


def is_exact_column(column: pl.Series) -> bool:
    """Whether a column has decimals that are numbers of 64 bits."""
    return isinstance(column.dtype, pl.Decimal) and (column.dtype.precision or DIGITS + 1) <= DIGITS


def exact_values(column: pl.Series) -> pl.Series:
    """Decimals as whole numbers of their last digit."""
    return column.to_physical().cast(pl.Int64)


def whole_values(columns: Sequence[pl.Series], codes: Mapping[str, Whole], height: int) -> tuple[Whole, Bits]:
    """A line of whole numbers for each column, and where there are any."""
    values, there = np.zeros((len(columns), height), np.int64), np.ones((len(columns), height), np.uint8)
    for line, column in enumerate(columns):
        plain = exact_values(column) if is_exact_column(column) else column
        values[line] = codes[column.name] if column.name in codes else numbers(plain)
        _mark(column, there[line])
    return values, there


def real_values(columns: Sequence[pl.Series], height: int) -> tuple[Real, Bits]:
    """The same for real numbers."""
    values, there = np.zeros((len(columns), height), np.float64), np.ones((len(columns), height), np.uint8)
    for line, column in enumerate(columns):
        values[line] = numbers(column)
        _mark(column, there[line])
    return values, there


def _mark(column: pl.Series, there: Bits) -> None:
    known = present(column)
    if known is not None:
        there[:] = known


def coded(columns: Sequence[pl.Series], constants: Sequence[Any]) -> tuple[dict[str, Whole], list[int]]:
    """Codes of columns of one type, and of constants: equal where values are, and larger where they are."""
    arrays = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in columns]
    if not arrays:
        return {}, []
    kind = arrays[0].type
    arrays.append(pa.array(constants, kind))
    joined = pa.chunked_array([array.cast(kind) for array in arrays]).combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    encoded = joined.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1  # null
    codes = rank[pc.fill_null(encoded.indices.cast(pa.int64()), len(order)).to_numpy()]
    height = len(columns[0])
    found = {column.name: codes[line * height : (line + 1) * height] for line, column in enumerate(columns)}
    return found, [int(code) for code in codes[len(columns) * height :]]
