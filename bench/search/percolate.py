"""B6: documents against stored searches, as the host takes a step: open the state, step, commit, on files.

An epoch has 30 documents of 500 words. The reference tries every query on every document, with the same verification, all at
once; what both find is compared before anything is reported. Processor time is measured, and the memory of a process that
does nothing else. `read` is what a query costs that comes or changes; `again` is making the index anew, as after a restart.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, WrongResult, spread
from bench.search import corpus
from riverrun.kernels.kernel import EpochClock
from riverrun.kernels.percolate import PercolateKernel
from riverrun.kernels.sides import JoinOutput, Sides
from riverrun.search.documents import analyse
from riverrun.search.fields import search_fields
from riverrun.search.parsing import parse_query
from riverrun.search.programs import Programs
from riverrun.search.verification import verify
from riverrun.search.vocabulary import Vocabulary
from riverrun.search.words import Analyzer
from riverrun.state.directory import StateDirectory

DOCUMENTS = 30
CHANGED = 100
LOADED = 50_000
TRIED = 2  # documents that the reference tries every query on
PAIRS = 1 << 18
TARGETS = {228_000: 1.0, 1_000_000: 3.0}
MEMORY = 2e9

_LEFT: dict[str, pl.DataType] = {"body": pl.String(), "n": pl.Int64()}
_RIGHT: dict[str, pl.DataType] = {"query_id": pl.Int64(), "query": pl.String(), "owner": pl.String()}
_SIDES = Sides(
    (), (), _LEFT, _RIGHT, (JoinOutput("n", "left", "n"), *(JoinOutput(name, "right", name) for name in _RIGHT))
)
_KERNEL = PercolateKernel(_SIDES, ("query_id",), "query", ("body",))


class Percolated(NamedTuple):
    """Seconds of each epoch, of a document tried with every query, of each small change, of a query; and bytes."""

    epochs: list[float]
    tried: float
    changes: list[float]
    read: float
    again: float
    memory: int


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    for count in effort.searches:
        with Crew(1) as crew:  # a process of its own, so that its memory is that of the queries
            (found,) = crew.together(_prepare, _measure, count, directory, effort)
        name = f"{count:,} queries".replace(",", " ")
        every = found.tried * DOCUMENTS
        yield Figure(
            "percolate",
            f"{name}: epoch of {DOCUMENTS} documents",
            "s",
            median(found.epochs),
            spread(found.epochs),
            reference="every query",
            reference_value=every,
            ratio=median(found.epochs) / every,
            target=TARGETS.get(count),
            less_is_better=True,
        )
        yield _figure(f"{name}: {CHANGED} of them change", median(found.changes), spread(found.changes))
        yield _figure(f"{name}: read, each", found.read)
        yield _figure(f"{name}: index made again", found.again)
        target = MEMORY if count in TARGETS else None
        yield Figure("percolate", f"{name}: memory", "B", found.memory, 0, target=target, less_is_better=True)


def _figure(case: str, value: float, spread: float = 0) -> Figure:
    return Figure("percolate", case, "s", value, spread, less_is_better=True)


def _prepare(number: int, count: int, directory: str, effort: Effort) -> tuple[int, str, Effort]:
    return count, directory, effort


def _measure(prepared: tuple[int, str, Effort]) -> Percolated:
    count, directory, effort = prepared
    Path("/proc/self/clear_refs").write_text("5")  # the peak of this process, not that of the one it was forked from
    with tempfile.TemporaryDirectory(dir=directory) as place:
        steps = SearchSteps(place)
        loaded = [steps.take(None, first, min(LOADED, count - first)) for first in range(0, count, LOADED)]
        steps.take(corpus.documents(0, DOCUMENTS))
        epochs = [steps.take(corpus.documents(number, DOCUMENTS)) for number in range(1, 1 + effort.search_epochs)]
        changes = [steps.take(None, number * CHANGED, CHANGED) for number in range(effort.search_epochs)]
        memory = _peak()
        steps.forget()
        last = corpus.documents(1000, TRIED)
        again = steps.take(last)
        found = steps.changes.select("n", "query_id").sort("n", "query_id").rows()
    tried, wanted = _try_every(_texts(count, effort.search_epochs), last)
    if found != wanted or (not found and count >= LOADED):
        raise WrongResult(f"{count} queries: {len(found)} were found, and trying each finds {len(wanted)}")
    return Percolated(epochs, tried, changes, sum(loaded) / count, again, memory)


def _peak() -> int:
    """The most memory that this process had since its peak was forgotten, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024


class SearchSteps:
    """The epochs of one kernel, and its state."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._state = StateDirectory(directory)
        self._entries: dict[str, Any] = {}
        self._epoch = 0
        self.changes = pl.DataFrame()

    def forget(self) -> None:
        """The process is started again, as it were."""
        self._state = StateDirectory(self._directory)

    def take(self, documents: pl.DataFrame | None, first: int = 0, count: int = 0) -> float:
        """Seconds of an epoch with these documents, and these queries new or changed."""
        left = pl.DataFrame(schema=_LEFT) if documents is None else documents
        right = _searches(first, count)
        inputs = {"left": _carried(left), "right": _carried(right).drop("_received")}
        begun = time.process_time()
        state = self._state.open(self._entries, _KERNEL.tables, "node", 0)
        self.changes = _KERNEL.step(state, inputs, EpochClock(self._epoch, 0, 0)).changes
        self._entries = state.commit(self._epoch)
        seconds = time.process_time() - begun
        self._state.sweep(self._entries.values(), self._epoch)
        self._epoch += 1
        return seconds


def _searches(first: int, count: int) -> pl.DataFrame:
    ids = range(first, first + count)
    texts = corpus.queries(first, count) if count else []
    return pl.DataFrame(
        {"query_id": ids, "query": texts, "owner": [f"user{number % 9999}" for number in ids]}, schema=_RIGHT
    )


def _carried(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        pl.lit(0, pl.Int64).alias("_time"),
        pl.lit(1, pl.Int8).alias("_weight"),
        pl.lit(0, pl.Int32).alias("_partition"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("_offset"),
        pl.lit(0, pl.Int64).cast(pl.Datetime("us", "UTC")).alias("_received"),
    )


def _texts(count: int, changes: int) -> list[str]:
    """All queries, by their numbers, as they are after the changes."""
    texts = [text for first in range(0, count, LOADED) for text in corpus.queries(first, min(LOADED, count - first))]
    for number in range(changes):
        texts[number * CHANGED : (number + 1) * CHANGED] = corpus.queries(number * CHANGED, CHANGED)
    return texts


def _try_every(texts: list[str], rows: pl.DataFrame) -> tuple[float, list[tuple[int, int]]]:
    """Seconds for each document with which every query is tried, and what is found."""
    fields, analyzer = search_fields(_LEFT, ["body"]), Analyzer()
    programs = Programs(fields, Vocabulary())
    for first in range(0, len(texts), LOADED):
        programs.add(parse_query(text, fields, analyzer) for text in texts[first : first + LOADED])
    found = []
    begun = time.process_time()
    documents = analyse(rows, fields, analyzer, programs.vocabulary)
    for number, n in enumerate(rows["n"].to_list()):
        for first in range(0, len(texts), PAIRS):
            slots = np.arange(first, min(first + PAIRS, len(texts)))
            meets = verify(programs, documents, np.full(len(slots), number), slots)
            found += [(n, slot) for slot in slots[meets].tolist()]
    return (time.process_time() - begun) / rows.height, sorted(found)
