"""A changelog read as a table: the last row of each key in log order; a tombstone deletes.

Turns rows of the topic into weighted changes: the old row is taken back, the new one issued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from riverrun.columns import DELETED, TIME
from riverrun.kernels.changes import difference
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.state.equality import equijoin
from riverrun.state.table import State, TableSpec


@dataclass(frozen=True)
class TableKernel:
    """Last row per key. The input has `_deleted` beside the columns of `schema`, which has the key too."""

    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"rows": TableSpec({**self.schema, TIME: pl.Int64()}, identity=self.key, probe=self.key)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, rows = inputs["in"], state["rows"]
        columns = [*self.schema, TIME]
        newest = arrived.unique(self.key, keep="last", maintain_order=True)
        held = rows.probe(newest.select(self.key)).select(columns)
        present = newest.filter(~pl.col(DELETED)).select(columns).cast(dict(held.schema.items()))
        gone = newest.filter(pl.col(DELETED)).select(self.key)
        rows.remove(equijoin(held, gone, self.key, "semi"))
        rows.put(present)
        changes = difference(held, present, self.key)
        return Step(changes, {"in": Counts(read=len(arrived), accepted=len(arrived))})
