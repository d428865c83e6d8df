"""State in memory: the same contract as runs on disk, with nothing to open. For tests and the testing kit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.errors import Invalid, NotFound, did_you_mean
from riverrun.state.equality import equijoin
from riverrun.state.table import FOUND, StateTable, TableSpec

Places = npt.NDArray[np.int64]


class MemoryTable:
    """One table as one frame."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._rows = spec.none
        self._low: int | None = None

    def probe(self, keys: pl.DataFrame, hashes: object = None) -> tuple[pl.DataFrame, Places]:
        return self._placed(self._rows, keys, self._spec.address)

    def _placed(self, rows: pl.DataFrame, keys: pl.DataFrame, on: Sequence[str]) -> tuple[pl.DataFrame, Places]:
        """Rows that have the key of one of `keys`, and its place."""
        numbered = keys.select(pl.col(name).cast(self._spec.schema[name]) for name in on).with_row_index("_place")
        found = equijoin(rows, numbered, on)
        return found.drop("_place"), found["_place"].to_numpy().astype(np.int64)

    def lookup(self, keys: pl.DataFrame, hashes: object = None) -> pl.DataFrame:
        if not self._spec.single:
            raise Invalid("a table with several rows per address is probed, not looked up")
        on = list(self._spec.address)
        rows = self._rows.with_columns(pl.lit(True).alias(FOUND))
        found = equijoin(keys.select(on), rows, on, "left", maintain_order="left")
        return found.drop(on).with_columns(pl.col(FOUND).fill_null(False))

    def probe_range(self, keys: pl.DataFrame, lo: int, hi: int, hashes: object = None) -> tuple[pl.DataFrame, Places]:
        return self._placed(self.scan(lo, hi), keys, self._spec.probe)

    def scan(self, lo: int | None = None, hi: int | None = None) -> pl.DataFrame:
        rows = self._rows
        if self._spec.bucket is not None:
            if lo is not None:
                rows = rows.filter(pl.col(self._spec.bucket) >= lo)
            if hi is not None:
                rows = rows.filter(pl.col(self._spec.bucket) < hi)
        return rows

    def put(self, rows: pl.DataFrame, hashes: object = None) -> None:
        new = rows.select([pl.col(name).cast(kind) for name, kind in self._spec.schema.items()])
        if self._spec.bucket is not None and self._low is not None:
            new = new.filter(pl.col(self._spec.bucket) >= self._low)
        self.remove(new)
        self._rows = pl.concat([self._rows, new])

    def remove(self, rows: pl.DataFrame, hashes: object = None) -> None:
        on = list(self._spec.key)
        self._rows = equijoin(self._rows, rows.select(on), on, "anti")

    def release(self, below: int) -> None:
        if self._spec.bucket is not None:
            self._low = below if self._low is None else max(self._low, below)
            self._rows = self.scan(lo=self._low)


class MemoryState:
    """The tables of one node in one shard, in memory."""

    def __init__(self, specs: Mapping[str, TableSpec]) -> None:
        self._tables = {name: MemoryTable(spec) for name, spec in specs.items()}
        self.kept: dict[str, Any] = {}

    def __getitem__(self, table: str) -> StateTable:
        try:
            return self._tables[table]
        except KeyError:
            raise NotFound(f"no state table {table!r}", hint=did_you_mean(table, self._tables)) from None
