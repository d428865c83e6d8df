"""Aggregates per group, over all of history: `group(by).agg(…)` of streams and tables.

A row of results per group, as long as the group has rows. Retractions take rows back exactly, for every aggregate but
the approximate ones, which refuse them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.aggregates.aggregates import LATEST, Aggregates
from riverrun.kernels.aggregates.tallies import CellAddress
from riverrun.kernels.cells import Cells
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.weights import changes_of
from riverrun.kernels.windows import ALL, grouped, keys
from riverrun.state.frames import Mask, frame_of, pick
from riverrun.state.table import State, TableSpec


@dataclass(frozen=True)
class GroupKernel:
    """Results per group. `schema` has the columns `by` and those that are aggregated.

    The time of a result is the largest event time of the group's rows when it was issued.
    """

    by: tuple[str, ...]
    aggregates: Aggregates
    schema: Mapping[str, pl.DataType]

    @cached_property
    def _cells(self) -> Cells:
        place = CellAddress(keys(self.by), {**self.schema, ALL: pl.Int8()}, None)
        return Cells(place, replace(self.aggregates, timed=True))

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return self._cells.tables

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        rows = inputs["in"]
        changed = self._cells.update(state, grouped(rows, self.by), clock.epoch, _all)
        changes = changes_of(self._leaving(changed.old), self._leaving(changed.new))
        return Step(changes, {"in": Counts(read=len(rows), accepted=len(rows))})

    def _leaving(self, results: pl.DataFrame) -> pl.DataFrame:
        time = results.get_column(LATEST).alias(TIME)
        return frame_of([*pick(results, [*self.by, *self.aggregates.schema]), time])


def _all(cells: pl.DataFrame) -> Mask:
    return np.ones(cells.height, np.bool_)
