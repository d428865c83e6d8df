"""A table as layers of runs: the step's own changes over the manifest's tail over the run files, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.errors import Invalid
from riverrun.state.equality import equal_rows
from riverrun.state.hashing import Hashes, hash_columns
from riverrun.state.merge import newest
from riverrun.state.sorted_run import GONE, Indexes, SortedRun, ascending
from riverrun.state.table import FOUND, TableSpec


@dataclass
class Stored:
    """A run file as the manifest names it; mapped when first needed."""

    file: str
    rows: int
    size: int
    lo: int
    hi: int
    load: Callable[[], SortedRun]

    @cached_property
    def run(self) -> SortedRun:
        return self.load()

    def precedes(self, run: SortedRun) -> bool:
        """Whether most of its buckets are before those of `run`. Without buckets, it never does."""
        return (self.lo + self.hi) // 2 < run.lo

    def live(self, low: int | None) -> int:
        """Rows that are not released, counted in whole segments."""
        return self.rows if low is None or self.lo >= low else self.run.live(low)


class RunTable:
    """One table on runs. Implements `StateTable`. Tails have no key in common; nor have run files of different shards."""

    def __init__(self, spec: TableSpec, low: int | None, tails: Sequence[SortedRun], stored: Sequence[Stored]) -> None:
        self.spec = spec
        self.low = low
        self.tails = list(tails)
        self.stored = list(stored)
        self._changes: list[pl.DataFrame] = []
        self._own: SortedRun | None = None
        self._asked: tuple[pl.DataFrame, Hashes] | None = None

    def probe(self, keys: pl.DataFrame) -> pl.DataFrame:
        if self.spec.single:
            keys, order, hashes = self._distinct(keys, self.spec.address)
            found = self._looked_up(keys, order, hashes)
            return keys.hstack(found.get_columns()).filter(FOUND).select(list(self.spec.schema))
        return self._matching(keys, self.spec.address, None, None)

    def probe_range(self, keys: pl.DataFrame, lo: int, hi: int) -> pl.DataFrame:
        return self._matching(keys, self.spec.probe, lo, hi)

    def _matching(self, keys: pl.DataFrame, on: tuple[str, ...], lo: int | None, hi: int | None) -> pl.DataFrame:
        lo = self._at_least(lo)
        runs = [run for run in self._runs(lo, hi) if run.reaches(lo, hi)]
        if not runs:
            return self.spec.empty()
        keys, order, hashes = self._distinct(keys, on)
        keys = keys[order]
        buckets = keys[self.spec.bucket].to_numpy() if self.spec.bucket in on else None
        compared = [name for name in self.spec.probe if name != self.spec.bucket]
        layers = []
        for run in runs:
            probes, rows = run.find(hashes, buckets, lo, hi)
            found = run.take(rows)
            layers.append(found.filter(equal_rows(keys[probes], found, compared)))
        return self._living(layers)

    def lookup(self, keys: pl.DataFrame) -> pl.DataFrame:
        if not self.spec.single:
            raise Invalid("a table with several rows per address is probed, not looked up")
        keys = self._typed(keys, self.spec.address)
        return self._looked_up(keys, *self._order(keys))

    def _looked_up(self, keys: pl.DataFrame, order: Indexes, hashes: Hashes) -> pl.DataFrame:
        """A key found in a newer layer is not looked for in older ones."""
        values = [name for name in self.spec.schema if name not in self.spec.address]
        compared = [name for name in self.spec.probe if name != self.spec.bucket]
        buckets = keys[self.spec.bucket].to_numpy()[order] if self.spec.bucket else None
        places, layers = [], []
        for run in self._runs(self.low, None):
            probes, rows = run.find(hashes, buckets, self.low, None)
            found, at = run.take(rows), order[probes]
            equal = equal_rows(keys[at], found, compared)
            layers.append(found.filter(equal).select(*values, GONE))
            places.append(at[equal])
            left = np.ones(len(order), dtype=np.bool_)
            left[probes[equal]] = False
            order, hashes = order[left], hashes[left]
            buckets = None if buckets is None else buckets[left]
            if not len(order):
                break
        where = np.full(keys.height, -1)
        at = np.concatenate(places) if places else np.empty(0, np.int64)
        where[at] = np.arange(len(at))
        if not layers:
            layers = [self.spec.empty().select(*values, pl.lit(False).alias(GONE))]
        index = pl.Series(where).cast(pl.UInt32, strict=False)
        found = pl.concat(layers).select(pl.all().gather(index))
        alive = pl.col(GONE).eq_missing(False)
        if found[GONE].any():
            found = found.with_columns(pl.when(alive).then(pl.col(name)).alias(name) for name in values)
        return found.with_columns(alive.alias(FOUND)).drop(GONE)

    def scan(self, lo: int | None = None, hi: int | None = None) -> pl.DataFrame:
        lo = self._at_least(lo)
        return self._living([run.scan(lo, hi) for run in self._runs(lo, hi)])

    def put(self, rows: pl.DataFrame) -> None:
        self._change(self._typed(rows, self.spec.schema), gone=False)

    def remove(self, rows: pl.DataFrame) -> None:
        keys = self._typed(rows, self.spec.key)
        rest = [pl.lit(None, kind).alias(name) for name, kind in self.spec.schema.items() if name not in keys.columns]
        self._change(keys.with_columns(rest).select(list(self.spec.schema)), gone=True)

    def _change(self, rows: pl.DataFrame, gone: bool) -> None:
        if self.spec.bucket and self.low is not None:
            rows = rows.filter(pl.col(self.spec.bucket) >= self.low)
        if not rows.is_empty():
            self._changes.append(rows.with_columns(pl.lit(gone).alias(GONE)))
            self._own = None

    def release(self, below: int) -> None:
        if self.spec.bucket and (self.low is None or below > self.low):
            self.low = below

    def own(self) -> SortedRun | None:
        """The step's own changes, as the newest run."""
        if self._own is None and self._changes:
            self._changes = [newest(self._changes[::-1], self.spec)]
            self._own = SortedRun.build(self._changes[0], self.spec, self._hashed(self._changes[0]))
        return self._own

    def _runs(self, lo: int | None, hi: int | None) -> Iterator[SortedRun]:
        """The layers that can have rows with buckets in [lo, hi), newest first."""
        own = self.own()
        yield from ([] if own is None else [own])
        yield from self.tails
        for stored in self.stored:
            if not self.spec.bucket or ((lo is None or stored.hi >= lo) and (hi is None or stored.lo < hi)):
                yield stored.run

    def _living(self, layers: list[pl.DataFrame]) -> pl.DataFrame:
        if not layers:
            return self.spec.empty()
        rows = newest(layers, self.spec)
        return (rows.filter(~pl.col(GONE)) if rows[GONE].any() else rows).drop(GONE)

    def _hashed(self, keys: pl.DataFrame) -> Hashes:
        """The hashes of keys. What is put back is often what was looked up just before, in the same order."""
        columns = keys.select(self.spec.probe)
        if self._asked is None or not columns.equals(self._asked[0]):
            self._asked = columns, hash_columns(columns, self.spec.probe)
        return self._asked[1]

    def _order(self, keys: pl.DataFrame) -> tuple[Indexes, Hashes]:
        hashes = self._hashed(keys)
        order = ascending(hashes)
        return order, hashes[order]

    def _distinct(self, keys: pl.DataFrame, on: Iterable[str]) -> tuple[pl.DataFrame, Indexes, Hashes]:
        """Each key once, with the order of their hashes."""
        keys = self._typed(keys, on)
        order, hashes = self._order(keys)
        if (hashes[1:] == hashes[:-1]).any():
            keys = keys.unique(maintain_order=True)
            order, hashes = self._order(keys)
        return keys, order, hashes

    def _typed(self, rows: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        return rows.select([pl.col(name).cast(self.spec.schema[name]) for name in columns])

    def _at_least(self, lo: int | None) -> int | None:
        return lo if self.low is None else self.low if lo is None else max(lo, self.low)
