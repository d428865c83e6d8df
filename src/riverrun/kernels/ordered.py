"""Rows of a stream in the order of event time, those of one time in log order: each waits until the watermark is past it.

Where some rows come at once and others wait (behind an outer join), the order they come in depends on epochs. In this
one it does not. A row that is late does not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.kernels.kernel import Buckets, Counts, EpochClock, Step
from riverrun.kernels.matching import STAMP, KeptRows
from riverrun.kernels.weights import refuse_retractions, weighted
from riverrun.state.frames import beside, keep, numbers, stack, take, typed
from riverrun.state.order import by_time_and_log
from riverrun.state.table import State, TableSpec

_ORDER = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}


@dataclass(frozen=True)
class OrderedKernel:
    """All rows, by event time, with it as `_received`. `by` are columns of `schema` that bring rows to a shard."""

    by: tuple[str, ...]
    schema: Mapping[str, pl.DataType]

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"waiting": self._waiting.spec}

    @cached_property
    def _waiting(self) -> KeptRows:
        return KeptRows(pl.Schema({**self.schema, **_ORDER}), self.by, 0)

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        return {"waiting": self._waiting.buckets(clock.start, clock.end)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, waiting = inputs["in"], self._waiting
        refuse_retractions(arrived, "putting rows in order")
        fresh = typed(arrived, waiting.columns)
        passed = numbers(fresh.get_column(TIME)) < clock.end
        due = stack([waiting.scan(state["waiting"], clock.start, clock.end), keep(fresh, passed)])
        waiting.update(state["waiting"], fresh.clear(), keep(fresh, ~passed), clock.end)
        due = take(due, by_time_and_log(*(numbers(due.get_column(name)) for name in _ORDER)))
        rows = weighted(beside(due, [due.get_column(TIME).cast(STAMP).alias(RECEIVED)]), 1)
        return Step(rows, {"in": Counts(read=len(arrived), accepted=len(arrived))})
