"""`s.latest(key)`: a table with the last row of each key by event time; of equal times, the later in the log.

The whole history counts, so no row is late. A row that does not win changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.weights import changes_of, refuse_retractions
from riverrun.state.equality import equal_rows
from riverrun.state.frames import Mask, filled, keep, numbers, pick, take, take_or_null, typed
from riverrun.state.keys import KeyGroups, group_rows, placed
from riverrun.state.order import Indexes, by_time_and_log, inverse
from riverrun.state.table import State, TableSpec

_ORDER = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}


@dataclass(frozen=True)
class LatestKernel:
    """Last row per key. `schema` is that of the value columns, key included; null key parts are equal."""

    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"rows": TableSpec({**self.schema, **_ORDER}, identity=self.key, probe=self.key)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived, table = inputs["in"], state["rows"]
        refuse_retractions(arrived, "latest")
        counts = {"in": Counts(read=len(arrived), accepted=len(arrived))}
        if arrived.is_empty():
            return Step(self._unchanged, counts)
        rows = typed(arrived, self.tables["rows"].schema)
        groups = group_rows(rows, self.key)
        last = take(rows, _last_of(rows, groups))
        held, at = table.probe(pick(last, self.key), groups.hashes)
        places = placed(at, len(groups))
        newer = (places < 0) | _is_later(last, take_or_null(held, places))
        if not newer.any():
            return Step(self._unchanged, counts)
        hashes = groups.hashes
        table.put(keep(last, newer), None if hashes is None else hashes[newer])
        # a row that only stands elsewhere in the log changes nothing that is seen
        replaced = groups.as_they_came(newer & (places >= 0))
        visible = [*self.schema, TIME]
        differs = newer.copy()
        differs[replaced] = ~equal_rows(take(held, places[replaced]), take(last, replaced), visible)
        old = take(held, places[groups.as_they_came(differs & (places >= 0))])
        return Step(self._changes(old, take(last, groups.as_they_came(differs))), counts)

    @cached_property
    def _unchanged(self) -> pl.DataFrame:
        none = self.tables["rows"].none
        return self._changes(none, none)

    def _changes(self, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        visible = [*self.schema, TIME]
        return changes_of(pick(old, visible), pick(new, visible))


def _last_of(rows: pl.DataFrame, groups: KeyGroups) -> Indexes:
    """The last row of each group."""
    order = by_time_and_log(*(numbers(rows.get_column(name)) for name in _ORDER))
    rank = inverse(order)
    return order[np.maximum.reduceat(rank[groups.order], groups.starts)] if len(groups) else groups.first


def _is_later(rows: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Which rows are after the others in order; other rows may be null."""
    later, equal = np.zeros(rows.height, np.bool_), np.ones(rows.height, np.bool_)
    for name in _ORDER:
        mine, theirs = numbers(rows.get_column(name)), filled(others.get_column(name), 0)
        later |= equal & (mine > theirs)
        equal &= mine == theirs
    return later
