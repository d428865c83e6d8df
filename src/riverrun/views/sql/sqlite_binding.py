"""Kept values as SQLite holds them, and back.

A key column holds no NULL, since SQLite takes two NULLs of a unique key for different: in key columns a null is an empty
blob (in binary ones an empty string), values that no column of the type can have. NaN, which SQLite would turn into NULL,
is the string 'NaN'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from riverrun.views.columns import Kept
from riverrun.views.layout import Layout

if TYPE_CHECKING:
    import polars as pl

NAN = "NaN"
_ROWS_PER_STATEMENT = 500  # fewer cost more time per row, more do not cost less
_MOST_PARAMETERS = 32_000
_ROWS_AT_ONCE = 32_000  # as Python objects


def bound(layout: Layout, rows: pl.DataFrame) -> Iterator[tuple[str, list[Any]]]:
    """The rows for statements with many of them each: marks such as "(?,?),(?,?)", and the parameters."""
    width = rows.width
    most = max(1, min(_ROWS_PER_STATEMENT, _MOST_PARAMETERS // max(width, 1)))
    for part in rows.iter_slices(_ROWS_AT_ONCE):
        values: list[Any] = [None] * (part.height * width)
        for i, name in enumerate(rows.columns):
            values[i::width] = _values(part[name], layout.kind(name), name in layout.key)
        for start in range(0, len(values), most * width):
            parameters = values[start : start + most * width]
            yield _marks(len(parameters) // width, width), parameters


@lru_cache(maxsize=256)
def _marks(rows: int, columns: int) -> str:
    return ",".join([f"({','.join('?' * columns)})"] * rows)


def missing(kind: Kept) -> str | bytes:
    """What stands for a null in a key column."""
    return "" if kind is Kept.BYTES else b""


def _values(column: pl.Series, kind: Kept, is_key: bool) -> list[Any]:
    from riverrun.state.frames import numbers

    values = column.to_list()
    if kind is Kept.DOUBLE and np.isnan(numbers(column)).any():
        values = [NAN if value is not None and isnan(value) else value for value in values]
    if is_key and column.null_count():
        none = missing(kind)
        values = [none if value is None else value for value in values]
    return values


def bound_key(layout: Layout, key: Sequence[Any]) -> list[Any]:
    """One key as parameters."""
    kinds = [layout.kind(name) for name in layout.key]
    values = [missing(kind) if part is None else part for part, kind in zip(key, kinds, strict=True)]
    return [NAN if isinstance(value, float) and isnan(value) else value for value in values]
