"""Tables that change at random, what SQL says of them as they are now, and the sum of the changes a kernel gives."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import duckdb
import polars as pl

from oracles.ledger import balanced
from oracles.memory_state import MemoryState
from riverrun.columns import TIME, WEIGHT
from riverrun.kernels.kernel import EpochClock, Kernel, Step
from riverrun.state.directory import NodeState, StateDirectory

Row = tuple[Any, ...]
Ops = Sequence[tuple[Row, Row | None]]
"""What happens in an epoch, in order: (key, the rest of the row and its time; None: it is deleted)."""

HIDDEN_KINDS = {TIME: pl.Int64(), WEIGHT: pl.Int8(), "_partition": pl.Int32(), "_offset": pl.Int64()}


class Table:
    """A table with its key first among the columns of `schema`."""

    def __init__(self, schema: Mapping[str, pl.DataType], key: Sequence[str]) -> None:
        assert list(schema)[: len(key)] == list(key)
        self.schema = dict(schema)
        self.key = tuple(key)
        self.rows: dict[Row, Row] = {}

    def apply(self, ops: Ops, backwards: bool = False) -> pl.DataFrame:
        """The changes of an epoch, as they happened or, as when they come from several shards, in another order."""
        changes: list[Row] = []
        for key, row in ops:
            if key in self.rows:
                changes.append((*self.rows.pop(key), -1))
            if row is not None:
                self.rows[key] = (*key, *row)
                changes.append((*self.rows[key], 1))
        if backwards:
            changes.reverse()
        numbered = [(*change, 0, offset) for offset, change in enumerate(changes)]
        return pl.DataFrame(numbered, schema={**self.schema, **HIDDEN_KINDS}, orient="row")

    @property
    def frame(self) -> pl.DataFrame:
        return pl.DataFrame(list(self.rows.values()), schema={**self.schema, TIME: pl.Int64()}, orient="row")


def answer(sql: str, **tables: pl.DataFrame) -> Counter[str]:
    """What DuckDB says."""
    database = _database()
    for name, rows in tables.items():
        database.register(name, rows.to_arrow())
    return Counter(shown(row) for row in database.execute(sql).fetchall())


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all questions; to open one takes longer than to answer."""
    return duckdb.connect()


def shown(row: Sequence[Any]) -> str:
    """A row as text, so that NaN equals itself; -0.0 is 0.0."""
    return repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row))


class Play:
    """Steps a kernel with its state in memory or in files, and keeps the sum of its changes.

    Of every step it checks: the ledger, that retractions come first and take away what is there, that nothing cancels,
    and that the same epoch gives the same rows.
    """

    def __init__(self, kernel: Kernel, directory: str | None = None) -> None:
        self.kernel = kernel
        self.sum: Counter[str] = Counter()
        self.epoch = 0
        self.memory = MemoryState(kernel.tables)
        self.files = StateDirectory(directory, inline_bytes=1000) if directory else None
        self.entries: dict[str, Any] = {}

    def step(self, **inputs: pl.DataFrame) -> pl.DataFrame:
        """One epoch; returns its changes as the next node gets them. An input `in` is called `one` here."""
        named = {("in" if name == "one" else name): rows for name, rows in inputs.items()}
        clock = EpochClock(self.epoch, 0, 0)
        step = self._stepped(named, clock)
        self.epoch += 1
        assert set(step.counts) == set(named)
        for name, entry in step.counts.items():
            assert balanced(entry)
            assert entry.read == len(named[name])
        self._add(step)
        if "_partition" in step.changes.columns:
            return step.changes
        return step.changes.with_columns(
            pl.lit(0, pl.Int32).alias("_partition"), pl.int_range(pl.len(), dtype=pl.Int64).alias("_offset")
        )

    def _stepped(self, inputs: dict[str, pl.DataFrame], clock: EpochClock) -> Step:
        if self.files is None:
            return self.kernel.step(self.memory, inputs, clock)
        again = self.kernel.step(self._open(clock), inputs, clock)
        in_memory = self.kernel.step(self.memory, inputs, clock)
        state = self._open(clock)
        step = self.kernel.step(state, inputs, clock)
        assert repr(step.changes.rows()) == repr(again.changes.rows()), "the same epoch gave other rows"
        assert repr(step.changes.rows()) == repr(in_memory.changes.rows()), "files gave other rows than memory"
        self.entries = state.commit(clock.epoch)
        return step

    def _open(self, clock: EpochClock) -> NodeState:
        """Every other step is one over all shards."""
        assert self.files is not None
        return self.files.open(self.entries, self.kernel.tables, "n", 0 if clock.epoch % 2 else None)

    def _add(self, step: Step) -> None:
        weights = step.changes[WEIGHT].to_list()
        assert set(weights) <= {-1, 1}
        assert weights == sorted(weights), "a retraction after an insertion"
        rows = [shown(row) for row in step.changes.drop(WEIGHT).rows()]
        gone = Counter(row for row, weight in zip(rows, weights, strict=True) if weight < 0)
        came = Counter(row for row, weight in zip(rows, weights, strict=True) if weight > 0)
        assert not gone & came, "changes that cancel"
        assert gone <= self.sum, "retracted without being there"
        self.sum = self.sum - gone + came


@contextmanager
def playing(kernel: Kernel, on_files: bool) -> Iterator[Play]:
    if not on_files:
        yield Play(kernel)
    else:
        with tempfile.TemporaryDirectory() as directory:
            yield Play(kernel, directory)
