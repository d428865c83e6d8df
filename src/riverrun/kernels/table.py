"""A changelog read as a table: the last row of each key in log order; a tombstone deletes.

Turns rows of the topic into weighted changes: the old row is taken back, the new one issued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import DELETED, ENVELOPE, TIME
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.partial_rows import completed
from riverrun.kernels.weights import changes_of
from riverrun.state.equality import equal_rows
from riverrun.state.frames import pick, take, true, typed
from riverrun.state.keys import group_rows, placed
from riverrun.state.table import State, TableSpec


@dataclass(frozen=True)
class TableKernel:
    """Last row per key. The input has `_deleted` beside the columns of `schema`, which has the key too.

    A `partial` row that lacks values has those of the row before it. Where there is none, it is quarantined.
    """

    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    partial: bool = False  # rows may lack values that did not change, and `_envelope` says which

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"rows": TableSpec({**self.schema, TIME: pl.Int64()}, identity=self.key, probe=self.key)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, table = inputs["in"], state["rows"]
        read, unknown = len(arrived), None
        if self.partial and arrived.get_column(ENVELOPE).null_count() < read:
            arrived, unknown = completed(arrived, table, self.key, list(self.schema))
        deleted = int(arrived.get_column(DELETED).sum())
        counts = {"in": Counts(read=read, accepted=len(arrived), quarantined=read - len(arrived), deleted=deleted)}
        quarantined = {} if unknown is None else {"in": unknown}
        if arrived.is_empty():
            return Step(self._unchanged, counts, quarantined=quarantined)
        groups = group_rows(arrived, self.key)
        newest = typed(take(arrived, groups.last), self.tables["rows"].schema)
        gone = true(take(pick(arrived, [DELETED]), groups.last).get_column(DELETED))
        held, at = table.probe(pick(newest, self.key), groups.hashes)
        places = placed(at, len(groups))
        both = groups.as_they_came((places >= 0) & ~gone)
        same = np.zeros(len(groups), np.bool_)
        same[both] = equal_rows(take(held, places[both]), take(newest, both), newest.columns)
        lost = groups.as_they_came((places >= 0) & gone)
        came = groups.as_they_came(~gone & ~same)
        table.remove(take(held, places[lost]))
        table.put(take(newest, came))
        old = take(held, places[groups.as_they_came((places >= 0) & ~same)])
        return Step(changes_of(old, take(newest, came)), counts, quarantined=quarantined)

    @cached_property
    def _unchanged(self) -> pl.DataFrame:
        none = self.tables["rows"].none
        return changes_of(none, none)
