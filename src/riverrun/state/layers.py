"""A table as layers of runs: the step's own changes over the manifest's tail over the run files, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.errors import Invalid
from riverrun.state.equality import equal_values
from riverrun.state.files import Content
from riverrun.state.frames import (
    Mask,
    constant,
    frame_of,
    keep,
    numbers,
    pick,
    series,
    stack,
    take,
    take_or_null,
    typed,
)
from riverrun.state.hashing import Hashes, hash_columns
from riverrun.state.merge import newest
from riverrun.state.order import Indexes, ascending, is_ascending
from riverrun.state.sorted_run import SortedRun
from riverrun.state.table import FOUND, TableSpec


@dataclass
class Stored:
    """A run file as the manifest names it; mapped when first needed."""

    file: str
    rows: int
    content: Content
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


@dataclass(frozen=True)
class Layer:
    """Rows of one run that were asked for, and for which of the keys each."""

    run: SortedRun
    rows: Indexes
    at: Indexes

    def living(self) -> Layer:
        """The same without tombstones."""
        if self.run.gone is None:
            return self
        alive = ~self.run.gone[self.rows]
        return Layer(self.run, self.rows[alive], self.at[alive])


@dataclass(frozen=True)
class AskedKeys:
    """Keys in ascending order of their hashes; `order` has the place of each among those that were given."""

    keys: pl.DataFrame
    hashes: Hashes
    order: Indexes
    buckets: Indexes | None

    def without(self, found: Indexes) -> AskedKeys:
        """What is left when some, by their index here, have been found."""
        left = np.ones(len(self.order), np.bool_)
        left[found] = False
        return AskedKeys(
            self.keys, self.hashes[left], self.order[left], None if self.buckets is None else self.buckets[left]
        )


class RunTable:
    """One table on runs. Implements `StateTable`. Tails have no key in common; nor have run files of different shards."""

    def __init__(self, spec: TableSpec, low: int | None, tails: Sequence[SortedRun], stored: Sequence[Stored]) -> None:
        self.spec = spec
        self.low = low
        self.tails = list(tails)
        self.stored = list(stored)
        self._changes: list[SortedRun] = []

    def probe(self, keys: pl.DataFrame, hashes: Hashes | None = None) -> tuple[pl.DataFrame, Indexes]:
        return self._rows(self._find(keys, self.spec.address, hashes, None, None))

    def probe_range(
        self, keys: pl.DataFrame, lo: int, hi: int, hashes: Hashes | None = None
    ) -> tuple[pl.DataFrame, Indexes]:
        return self._rows(self._find(keys, self.spec.probe, hashes, lo, hi))

    def lookup(self, keys: pl.DataFrame, hashes: Hashes | None = None) -> pl.DataFrame:
        if not self.spec.single:
            raise Invalid("a table with several rows per address is probed, not looked up")
        layers = [layer.living() for layer in self._find(keys, self.spec.address, hashes, None, None)]
        values = [name for name in self.spec.schema if name not in self.spec.address]
        where = np.full(keys.height, -1)
        before = 0
        for layer in layers:
            where[layer.at] = np.arange(before, before + len(layer.at))
            before += len(layer.at)
        found = series(FOUND, where >= 0)
        if not values:
            return found.to_frame()
        rows = (
            stack([layer.run.take(layer.rows, values) for layer in layers]) if layers else pick(self.spec.none, values)
        )
        return take_or_null(rows, where).hstack([found])

    def scan(self, lo: int | None = None, hi: int | None = None) -> pl.DataFrame:
        lo = self._at_least(lo)
        layers = [Layer(run, rows, rows) for run in self._runs(lo, hi) if len(rows := run.within(lo, hi))]
        return self._rows(self._newest(layers))[0]

    def put(self, rows: pl.DataFrame, hashes: Hashes | None = None) -> None:
        if rows.height:
            self._change(typed(rows, self.spec.schema), hashes, gone=False)

    def remove(self, rows: pl.DataFrame, hashes: Hashes | None = None) -> None:
        if rows.height:
            given = [
                rows.get_column(name) if name in self.spec.key else constant(name, None, kind, rows.height)
                for name, kind in self.spec.schema.items()
            ]
            self._change(typed(frame_of(given), self.spec.schema), hashes, gone=True)

    def _change(self, rows: pl.DataFrame, hashes: Hashes | None, gone: bool) -> None:
        hashes = hash_columns(rows, self.spec.probe) if hashes is None else hashes
        if self.spec.bucket and self.low is not None:
            counts = numbers(rows.get_column(self.spec.bucket)) >= self.low
            if not counts.all():
                rows, hashes = keep(rows, counts), hashes[counts]
        if rows.height:
            marks = np.ones(rows.height, np.bool_) if gone else None
            self._changes.append(SortedRun.build(rows, self.spec, hashes, marks))

    def release(self, below: int) -> None:
        if self.spec.bucket and (self.low is None or below > self.low):
            self.low = below

    def own(self) -> list[SortedRun]:
        """The step's own changes, as runs, newest first."""
        return self._changes[::-1]

    def _runs(self, lo: int | None, hi: int | None) -> Iterator[SortedRun]:
        """The layers that can have rows with buckets in [lo, hi), newest first."""
        for run in (*self.own(), *self.tails):
            if run.reaches(lo, hi):
                yield run
        for stored in self.stored:
            if not self.spec.bucket or ((lo is None or stored.hi >= lo) and (hi is None or stored.lo < hi)):
                yield stored.run

    def _find(
        self, keys: pl.DataFrame, on: Sequence[str], hashes: Hashes | None, lo: int | None, hi: int | None
    ) -> Sequence[Layer]:
        """The rows that the keys name, from the newest layer that has them."""
        layers: list[Layer] = []
        if not keys.height:
            return layers
        lo, asked = self._at_least(lo), None
        single = self.spec.single and len(on) == len(self.spec.address)
        for run in self._runs(lo, hi):
            asked = self._asked(keys, on, hashes) if asked is None else asked
            probes, rows = run.find(asked.hashes, asked.buckets, lo, hi)
            at = asked.order[probes]
            equal = self._equal(asked.keys, at, run, rows)
            if not equal.all():
                probes, rows, at = probes[equal], rows[equal], at[equal]
            if len(rows):
                layers.append(Layer(run, rows, at))
            if single:  # a key found in a newer layer is not looked for in older ones
                asked = asked.without(probes)
                if not len(asked.order):
                    break
        return layers if single else self._newest(layers)

    def _asked(self, keys: pl.DataFrame, on: Sequence[str], hashes: Hashes | None) -> AskedKeys:
        keys = typed(keys, {name: self.spec.schema[name] for name in on})
        hashes = hash_columns(keys, self.spec.probe) if hashes is None else hashes
        order = np.arange(len(hashes))
        if not is_ascending(hashes):
            order = ascending(hashes)
            hashes = hashes[order]
        bucket = self.spec.bucket
        buckets = numbers(keys.get_column(bucket))[order] if bucket and bucket in on else None
        return AskedKeys(keys, hashes, order, buckets)

    def _equal(self, keys: pl.DataFrame, at: Indexes, run: SortedRun, rows: Indexes) -> Mask:
        """Where the keys at `at` have the probe columns of the run's `rows`; hashes and buckets are equal."""
        equal = np.ones(len(at), np.bool_)
        compared = [name for name in self.spec.probe if name != self.spec.bucket]
        if len(at) and compared:
            asked, stored = take(pick(keys, compared), at), run.take(rows, compared)
            for name in compared:
                equal &= equal_values(asked.get_column(name), stored.get_column(name))
        return equal

    def _rows(self, layers: Sequence[Layer]) -> tuple[pl.DataFrame, Indexes]:
        """The living rows of layers, and for which of the keys each."""
        if not layers:
            return self.spec.none, np.empty(0, np.int64)
        living = [layer.living() for layer in layers]
        return stack([layer.run.take(layer.rows) for layer in living]), np.concatenate([layer.at for layer in living])

    def _newest(self, layers: Sequence[Layer]) -> Sequence[Layer]:
        """Of the rows of a key, that of the newest layer."""
        if len(layers) < 2:
            return layers
        rows = stack([layer.run.take(layer.rows, self.spec.key) for layer in layers])
        hashes = np.concatenate([layer.run.hashes[layer.rows] for layer in layers])
        chosen = np.zeros(rows.height, np.bool_)
        chosen[newest(rows, hashes, self.spec)] = True
        parts = np.split(chosen, np.cumsum([len(layer.rows) for layer in layers])[:-1])
        return [Layer(layer.run, layer.rows[p], layer.at[p]) for layer, p in zip(layers, parts, strict=True)]

    def _at_least(self, lo: int | None) -> int | None:
        return lo if self.low is None else self.low if lo is None else max(lo, self.low)
