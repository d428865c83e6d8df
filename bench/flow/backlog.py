"""A flow that reads everything in the log, epoch by epoch; nothing is behind its view but this memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.flow.kept import Changes
from riverrun.flow import Flow
from riverrun.flow.operators.ends import ViewEnd
from riverrun.river import River
from riverrun.runtime.commit import Committer
from riverrun.runtime.epoch import EpochResult
from riverrun.spark.run import Run
from riverrun.views.spec import ViewSpec

PATIENCE = "10 minutes"


class Keeping(Committer):
    """Commits state and positions; the changes of views are kept here."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.changes: list[Changes] = []
        self.rows: list[int] = []
        self.ends: list[float] = []

    def apply(self, result: EpochResult) -> None:
        super().apply(result)
        counts = result.report.counts.values()
        self.rows.append(sum(inputs["topic"]["read"] for inputs in counts if "topic" in inputs))
        self.ends.append(time.perf_counter())

    def _changes(self, end: ViewEnd, result: EpochResult) -> Changes:
        self.changes.append(super()._changes(end, result))
        return []

    @property
    def view(self) -> ViewSpec:
        """The view of the query; there is one."""
        return next(iter(self._job.views.values()))


@dataclass(frozen=True)
class Processed:
    """A query that has read everything. `rates` are those of its epochs, rows per second."""

    view: ViewSpec
    changes: Sequence[Changes]
    rows: int
    seconds: float
    rates: Sequence[float]


def processed(river: River, flow: Flow, epoch: int) -> Processed:
    """Run a flow over everything in the log, to the end of the input, in epochs of at most so many rows."""
    made: list[Keeping] = []

    def committer(*arguments: Any) -> Keeping:
        made.append(Keeping(*arguments))
        return made[0]

    begun = time.perf_counter()
    running = Run(river, flow, max_rows=epoch, committer=committer)
    try:
        running.drain(PATIENCE)
    finally:
        running.stop()
    kept = made[0]
    starts = [begun + _starting(running, kept.ends[0] - begun), *kept.ends]
    seconds = [end - start for start, end in itertools.pairwise(starts)]
    rates = [rows / took for rows, took in zip(kept.rows, seconds, strict=True) if rows]
    return Processed(kept.view, kept.changes, sum(kept.rows), kept.ends[-1] - starts[0], rates)


def _starting(running: Run, first: float) -> float:
    """How much of the time until the first commit passed before Spark began with the first epoch."""
    progress = running._progress
    epoch = progress._epochs[0]
    return max(first - epoch.computing - epoch.committing - progress._around.get(epoch.epoch, 0.0), 0.0)
