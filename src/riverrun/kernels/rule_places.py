"""Where rules go on in keys, in state: by key, and by the moment at which something is over if no row comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.matching import ID
from riverrun.patterns.tables import Whole
from riverrun.rules.search import EpochRows, OpenPlaces
from riverrun.state.frames import Mask, beside, keep, numbers, pick, series, take
from riverrun.state.keys import agreeing, equal_to_any
from riverrun.state.order import ascending
from riverrun.state.table import StateTable, TableSpec

ALONE = -1
"""In the place of a rule: the key's last row is kept for attempts that have no other one."""

_RULE, _WAKE, _BEYOND = "_rule", "_wake", "_beyond"


@dataclass(frozen=True)
class PlaceEntries:
    """Places of rules in keys of an epoch, as numbers: the key, the rule, the row, whether it goes on after it, and when it
    is over."""

    key: Whole
    rule: Whole
    row: Whole
    beyond: Mask
    wake: Whole

    @classmethod
    def joined(cls, parts: Sequence[PlaceEntries]) -> PlaceEntries:
        """All of several."""
        if not parts:
            nothing = np.empty(0, np.int64)
            return cls(nothing, nothing, nothing, np.empty(0, np.bool_), nothing)
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("key", "rule", "row", "beyond", "wake")
            )
        )

    def where(self, mask: Mask) -> PlaceEntries:
        """Some of them."""
        return PlaceEntries(self.key[mask], self.rule[mask], self.row[mask], self.beyond[mask], self.wake[mask])

    def by_rule(self) -> dict[int, PlaceEntries]:
        """Those of each rule."""
        order = ascending(self.rule)
        rules, first = np.unique(self.rule[order], return_index=True)
        parts = np.split(order, first[1:]) if len(first) else []
        return {int(rule): self.where(part) for rule, part in zip(rules, parts, strict=True)}  # type: ignore[arg-type]

    @property
    def open(self) -> OpenPlaces:
        """As a search is given them."""
        return OpenPlaces(self.key, self.row, self.beyond)


@dataclass(frozen=True)
class Places:
    """The table of places; `by` are the columns of keys."""

    by: Mapping[str, pl.DataType]

    @cached_property
    def spec(self) -> TableSpec:
        own = {_RULE: pl.Int64(), _WAKE: pl.Int64(), TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}
        schema = {**self.by, **own, _BEYOND: pl.Boolean()}
        return TableSpec(schema, identity=(_RULE,), probe=tuple(self.by), bucket=_WAKE, route=())

    def due(self, table: StateTable, clock: EpochClock) -> pl.DataFrame:
        """The keys in which something is over."""
        return pick(table.scan(hi=None if clock.end >= MAX_TIME else clock.end), self.by)

    def of(self, table: StateTable, keys: pl.DataFrame) -> tuple[pl.DataFrame, Whole]:
        """The places in these keys, and the number of the key of each."""
        return table.probe_range(keys, MIN_TIME, MAX_TIME + 1)

    def entries(self, stored: pl.DataFrame, key: Whole, rows: EpochRows) -> PlaceEntries:
        """Places as numbers; those whose row nobody has kept are of rules that are gone."""
        at, row = agreeing(stored, rows.frame, ID)
        found, key = take(stored, at), key[at]
        rule, wake = (numbers(found.get_column(name)) for name in (_RULE, _WAKE))
        return PlaceEntries(key, rule, row, numbers(found.get_column(_BEYOND)), wake)

    def store(
        self, table: StateTable, stored: pl.DataFrame, entries: PlaceEntries, keys: pl.DataFrame, rows: EpochRows
    ) -> None:
        """Put the places that are new, and remove those of these keys that are no more."""
        own = [series(_RULE, entries.rule), series(_WAKE, entries.wake), series(_BEYOND, entries.beyond)]
        ordered = pick(take(rows.frame, entries.row), (TIME, PARTITION, OFFSET)).get_columns()
        fresh = pick(beside(take(keys, entries.key), [*own, *ordered]), self.spec.schema)
        every = list(self.spec.schema)
        same = equal_to_any(stored, fresh, every)
        table.remove(keep(stored, ~same))
        table.put(keep(fresh, ~equal_to_any(fresh, stored, every)))
