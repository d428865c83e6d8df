"""One side of a join of tables: its rows in state, found by the join key, and what an epoch does to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.netting import versions
from riverrun.state.frames import keep, pick, present, stack, typed
from riverrun.state.keys import equal_to_any
from riverrun.state.table import State, TableSpec

ROWS = "_rows"


@dataclass(frozen=True)
class Version:
    """Rows of one side before or after the epoch: those that `moved`, and those that moved without a join key."""

    moved: pl.DataFrame
    apart: pl.DataFrame


@dataclass(frozen=True)
class Partners:
    """Rows of one side that stayed, at the join keys the other side touches, and keys of its own that others stay at.

    `others` tells, of the keys that this side touches, at which it has rows that stayed. A side whose join key makes
    its rows unique has none.
    """

    stayed: pl.DataFrame
    others: pl.DataFrame


@dataclass(frozen=True)
class TableSide:
    """One input: its table, its columns and its keys; `counted` where a table says how many rows a join key has."""

    name: str
    schema: Mapping[str, pl.DataType]
    on: tuple[str, ...]
    key: tuple[str, ...]
    counted: bool

    @cached_property
    def tables(self) -> dict[str, TableSpec]:
        rows = TableSpec({**self.schema, TIME: pl.Int64()}, identity=self.key, probe=self.on)
        if not self.counted:
            return {self.name: rows}
        kinds = {name: self.schema[name] for name in self.on}
        return {self.name: rows, self.counts: TableSpec({**kinds, ROWS: pl.Int64()}, identity=self.on, probe=self.on)}

    @property
    def counts(self) -> str:
        return f"{self.name}{ROWS}"

    def moved(self, changes: pl.DataFrame) -> tuple[Version, Version]:
        """Rows before and after the epoch."""
        kinds = {**self.schema, TIME: pl.Int64()}
        old, new = (self._version(typed(rows, kinds)) for rows in versions(changes, self.key, [*kinds]))
        return old, new

    def _version(self, rows: pl.DataFrame) -> Version:
        keyed = np.ones(rows.height, np.bool_)
        for name in self.on:
            there = present(rows.get_column(name))
            keyed = keyed if there is None else keyed & there
        return Version(keep(rows, keyed), keep(rows, ~keyed))

    def partners(self, state: State, old: Version, new: Version, wanted: pl.DataFrame) -> Partners:
        """The rows that stay, at the join keys `wanted`. Comes before `store`."""
        stayed = old.moved.clear()
        if not wanted.is_empty():
            touched = stack([pick(old.moved, self.key), pick(new.moved, self.key)])
            held, _ = state[self.name].probe(wanted)
            stayed = keep(held, ~equal_to_any(held, touched, self.key))
        return Partners(stayed, self._others(state, old.moved, new.moved))

    def _others(self, state: State, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        """The touched join keys where rows stay; how many rows a join key has is written down for the next epoch."""
        on = list(self.on)
        if not self.counted or (old.is_empty() and new.is_empty()):
            return old.select(on).clear()
        touched = (
            pl.concat(
                [
                    old.select(on).with_columns(pl.lit(1).alias("_old"), pl.lit(0).alias("_new")),
                    new.select(on).with_columns(pl.lit(0).alias("_old"), pl.lit(1).alias("_new")),
                ]
            )
            .group_by(on, maintain_order=True)
            .agg(pl.sum("_old", "_new").cast(pl.Int64))
        )
        before = state[self.counts].lookup(touched.select(on))[ROWS].fill_null(0)
        stay = before - touched["_old"]
        counted = touched.select(on).with_columns((stay + touched["_new"]).alias(ROWS))
        state[self.counts].remove(counted.filter(pl.col(ROWS) <= 0))
        state[self.counts].put(counted.filter(pl.col(ROWS) > 0))
        return touched.select(on).filter(stay > 0)

    def store(self, state: State, old: pl.DataFrame, new: pl.DataFrame) -> None:
        state[self.name].remove(old)
        state[self.name].put(new)
