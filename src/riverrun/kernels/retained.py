"""Rows that a window keeps as they came: for windows whose bounds follow from the rows themselves.

They are found by key, ordered by event time, and taken away again by a retraction of an equal row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import EpochClock
from riverrun.kernels.windows import ALL, grouped, keys
from riverrun.state.equality import equijoin
from riverrun.state.table import TableSpec

ARRIVAL = "_arrival"
ORDER = (TIME, PARTITION, OFFSET, ARRIVAL)
"""Event time, and log order between rows of the same time. The last one only tells rows of a union apart."""

_HIDDEN = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), ARRIVAL: pl.Int64()}


def retained(by: Sequence[str], schema: Mapping[str, pl.DataType], marks: Mapping[str, pl.DataType]) -> TableSpec:
    """A table of rows with the columns of `schema` (`by` and what is aggregated), and marks of the kernel's own."""
    columns = {**schema, **({} if by else {ALL: pl.Int8()}), **marks, **_HIDDEN}
    return TableSpec(columns, identity=(ARRIVAL,), probe=keys(by), bucket=TIME, route=tuple(by))


def numbered(rows: pl.DataFrame, by: Sequence[str], clock: EpochClock) -> pl.DataFrame:
    """The rows of an epoch with their key, each with a number of its own that no other epoch gives."""
    first = clock.epoch << 32
    return grouped(rows, by).with_columns(pl.int_range(first, first + len(rows), dtype=pl.Int64).alias(ARRIVAL))


def as_they_came(rows: pl.DataFrame, chosen: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
    """Some rows of the epoch, by their numbers."""
    return rows[chosen[ARRIVAL] - (clock.epoch << 32)]


def cancelled(held: pl.DataFrame, retractions: pl.DataFrame, values: Sequence[str]) -> pl.DataFrame:
    """Those `held` rows that `retractions` take away: for each, one that is equal in `values` and time."""
    on = list(dict.fromkeys([*values, TIME]))
    nth = pl.int_range(pl.len()).over(on).alias("_nth")
    candidates = held.sort(ORDER, descending=True).with_columns(nth)
    return equijoin(candidates, retractions.with_columns(nth), [*on, "_nth"], "semi").drop("_nth")
