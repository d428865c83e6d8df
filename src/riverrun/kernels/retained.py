"""Rows that a window keeps as they came: for windows whose bounds follow from the rows themselves.

They are found by key, ordered by event time, and taken away again by a retraction of an equal row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from riverrun.kernels.kernel import OFFSET, PARTITION, TIME, WATERMARK, WEIGHT, Clock, Counts, Step
from riverrun.state.table import TableSpec

ARRIVAL = "_arrival"
ORDER = (TIME, PARTITION, OFFSET, ARRIVAL)
"""Event time, and log order between rows of the same time. The last one only tells rows of a union apart."""

ALL = "_all"
"""The key of a window without `by`: the same for every row."""

_HIDDEN = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), ARRIVAL: pl.Int64()}


class Aggregates(Protocol):
    """What is computed over the rows of a window."""

    @property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The result columns."""

    def over(self, rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """One row of results per distinct `key`; `rows` are in the order that counts."""


def keys(by: Sequence[str]) -> tuple[str, ...]:
    """The columns that rows are found by: `by`, or one that is always there."""
    return tuple(by) or (ALL,)


def retained(by: Sequence[str], schema: Mapping[str, pl.DataType], marks: Mapping[str, pl.DataType]) -> TableSpec:
    """A table of rows with the columns of `schema` (`by` and what is aggregated), and marks of the kernel's own."""
    columns = {**schema, **({} if by else {ALL: pl.Int8()}), **marks, **_HIDDEN}
    return TableSpec(columns, identity=(ARRIVAL,), probe=keys(by), bucket=TIME)


def numbered(rows: pl.DataFrame, clock: Clock) -> pl.DataFrame:
    """The rows of an epoch, each with a number of its own that no other epoch gives."""
    first = clock.epoch << 32
    return rows.with_columns(
        pl.lit(0, pl.Int8).alias(ALL), pl.int_range(first, first + len(rows), dtype=pl.Int64).alias(ARRIVAL)
    )


def cancelled(held: pl.DataFrame, retractions: pl.DataFrame, values: Sequence[str]) -> pl.DataFrame:
    """Those `held` rows that `retractions` take away: for each, one that is equal in `values` and time."""
    on = list(dict.fromkeys([*values, TIME]))
    nth = pl.int_range(pl.len()).over(on).alias("_nth")
    candidates = held.sort(ORDER, descending=True).with_columns(nth)
    return candidates.join(retractions.with_columns(nth), on=[*on, "_nth"], how="semi", nulls_equal=True).drop("_nth")


def signed(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Inserted and retracted rows."""
    return rows.filter(pl.col(WEIGHT) > 0), rows.filter(pl.col(WEIGHT) < 0)


def extent(times: pl.Series) -> tuple[int, int]:
    """The half-open interval of the given times; an empty one where there are none."""
    if not len(times):
        return 0, 0
    return int(times.to_numpy().min()), int(times.to_numpy().max()) + 1


def accounted(changes: pl.DataFrame, rows: pl.DataFrame, late: pl.DataFrame, clock: Clock, aside: bool) -> Step:
    """The step of a window over `rows`: its changes, the ledger, and the late rows where they are put aside."""
    counts = Counts(
        read=len(rows),
        accepted=len(rows) - len(late),
        late_dropped=0 if aside else len(late),
        late_aside=len(late) if aside else 0,
    )
    missed = late.select(rows.columns).with_columns(pl.lit(clock.start, pl.Int64).alias(WATERMARK))
    return Step(changes, {"in": counts}, missed if aside else None)
