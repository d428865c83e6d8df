"""`s.latest(key)`: a table with the last row of each key by event time; of equal times, the later in the log.

The whole history counts, so no row is late. A row that does not win changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.changes import difference, refuse_retractions
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.state.equality import equijoin
from riverrun.state.table import State, TableSpec

_ORDER = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}


@dataclass(frozen=True)
class LatestKernel:
    """Last row per key. `schema` is that of the value columns, key included; null key parts are equal."""

    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"rows": TableSpec({**self.schema, **_ORDER}, identity=self.key, probe=self.key)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        refuse_retractions(arrived, "latest")
        columns = [*self.schema, *_ORDER]
        held = state["rows"].probe(arrived.select(self.key).unique(maintain_order=True)).select(columns)
        winners = (
            pl.concat([held, arrived.select(columns).cast(dict(held.schema.items()))])
            .sort(*_ORDER, maintain_order=True)
            .unique(self.key, keep="last", maintain_order=True)
        )
        state["rows"].put(equijoin(winners, held, [*self.key, *_ORDER], "anti"))
        visible = [*self.schema, TIME]
        changes = difference(held.select(visible), winners.select(visible), self.key)
        return Step(changes, {"in": Counts(read=len(arrived), accepted=len(arrived))})
