"""Matches as the rows that a match hands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.kernel import Counts, Step
from riverrun.kernels.match_rows import KeyRows
from riverrun.patterns.measures import MatchValue
from riverrun.patterns.navigation import RowOf, TotalOf
from riverrun.patterns.results import MatchedRows
from riverrun.patterns.tables import Found, Outcome
from riverrun.state.frames import beside, constant, frame_of, numbers, pick, series

MATCH_START, MATCH_END, MATCH_ID, TIMED_OUT = "match_start", "match_end", "match_id", "timed_out"
VARIABLE, ROW_NUMBER = "variable", "row_number"
_STAMP = pl.Datetime("us", "UTC")
_PARTITION = np.uint64((1 << 26) - 1)  # of what rows carry: higher bits tell the ways of a union apart


@dataclass(frozen=True)
class MatchOutput:
    """What is handed on of a match: `columns` of its last row, or, with `every_row`, of each of its rows; its `values`.
    `at_deadline` says that a match is known when its time is over."""

    names: tuple[str, ...]  # of variables
    columns: Mapping[str, pl.DataType]
    values: tuple[MatchValue, ...]
    kinds: Mapping[str, pl.DataType]  # of the values
    every_row: bool = False
    within: int | None = None
    at_deadline: bool = False
    timeouts: bool = False
    misplaced: str | None = None  # what is said of matches after which matching can go on nowhere

    @cached_property
    def lookback(self) -> int:
        """How many rows before the first of a match are needed."""
        return max((value.asks.back for value in self.values if isinstance(value.asks, RowOf)), default=0)

    @cached_property
    def none(self) -> pl.DataFrame:
        """No rows."""
        own: dict[str, pl.DataType] = dict(self.columns)
        if self.every_row:
            own |= {MATCH_ID: pl.String(), VARIABLE: pl.String(), ROW_NUMBER: pl.Int64(), **self.kinds}
        else:
            own |= {**self.kinds, MATCH_START: _STAMP, MATCH_END: _STAMP, MATCH_ID: pl.String()}
        if self.timeouts:
            own[TIMED_OUT] = pl.Boolean()
        return pl.DataFrame(
            schema={**own, TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), RECEIVED: _STAMP}
        )

    def rows(self, rows: KeyRows, found: Found) -> pl.DataFrame:
        """What was found in these rows, as it is handed on."""
        if not len(found.outcome):
            return self.none
        frame = rows.frame
        low = rows.starts[np.searchsorted(rows.starts, found.start, side="right") - 1]
        lines = MatchedRows(frame, found, self.names, low, self.every_row)
        time = numbers(frame.get_column(TIME))
        partition, offset = (numbers(frame.get_column(name)).astype(np.int64) for name in (PARTITION, OFFSET))
        match_id, hashes = lines.ids(partition, offset)
        start, end = time[found.start][lines.match], time[found.rows[found.first[1:] - 1]][lines.match]
        over = found.outcome[lines.match] == Outcome.TIMED_OUT
        moment = time[lines.row]
        if not self.every_row and self.within is not None:
            moment = np.where(over | self.at_deadline, start + self.within, end)
        values = [lines.value(value) for value in self.values]
        if self.every_row:
            own = [match_id.alias(MATCH_ID), lines.variable(VARIABLE), series(ROW_NUMBER, lines.number), *values]
        else:
            bounds = [series(MATCH_START, start).cast(_STAMP), series(MATCH_END, end).cast(_STAMP)]
            own = [*values, *bounds, match_id.alias(MATCH_ID)]
        if self.timeouts:
            own.append(series(TIMED_OUT, over))
        hidden = [
            series(TIME, moment),
            series(PARTITION, (hashes[0] & _PARTITION).astype(np.int32)),
            series(OFFSET, (hashes[1] >> np.uint64(2)).astype(np.int64)),
        ]
        carried = lines.columns([*self.columns, RECEIVED])
        made = beside(pick(carried, self.columns), [*own, *hidden]) if self.columns else frame_of([*own, *hidden])
        made = beside(made, [carried.get_column(RECEIVED)])
        return made.select(pl.col(name).cast(kind) for name, kind in self.none.schema.items())

    def stepped(self, step: Step, misplaced: pl.DataFrame, given_up: int) -> Step:
        """The step with what cannot be placed, and what was given up."""
        counts: dict[str, Counts] = {name: replace(part, given_up=given_up) for name, part in step.counts.items()}
        error = constant("_error", self.misplaced, pl.String(), misplaced.height)
        return replace(step, counts=counts, withheld=beside(misplaced, [error]))


def value_kind(value: MatchValue, columns: Mapping[str, pl.DataType]) -> pl.DataType:
    """The type of a value of a match, of rows with these columns."""
    if value.source is None or (isinstance(value.asks, TotalOf) and value.asks.function == "count"):
        return pl.Int64()
    if isinstance(value.asks, TotalOf) and value.asks.function in ("sum", "avg"):
        kind = columns[value.source]
        if value.asks.function == "avg" or kind.is_float():
            return pl.Float64()
        return pl.Decimal((kind.precision or 0) + 10, kind.scale) if isinstance(kind, pl.Decimal) else pl.Int64()
    return columns[value.source]
