"""Flows that count rows per user, or per user and minute, run epoch by epoch; with a view, or with nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import polars as pl
import pyarrow as pa

from bench.flow.kept import Changes, weighted
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.operators.ends import ViewEnd
from riverrun.flow.windows import tumbling
from riverrun.river import River
from riverrun.runtime.commit import Committer
from riverrun.runtime.epoch import EpochResult
from riverrun.spark.run import Run

COLUMNS = "user string, at timestamp"


def counts(name: str, topic: str) -> Flow:
    """Rows per user, in a view named as the flow."""
    flow = Flow(name)
    events = flow.stream(topic, COLUMNS, time="at", key="user", lateness="1 second")
    flow.view(name, events.group("user").agg(n=count()))
    return flow


def per_minute(name: str, topic: str) -> Flow:
    """The same per user and minute, shown while they grow."""
    flow = Flow(name)
    events = flow.stream(topic, COLUMNS, time="at", key="user", lateness="1 second")
    flow.view(name, events.window(tumbling("1 minute"), by="user", emit="update").agg(n=count()))
    return flow


class Announcing(Committer):
    """Says when an epoch has taken effect."""

    def __init__(self, done: Callable[[], object], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._done = done
        self.seconds: list[float] = []

    def apply(self, result: EpochResult) -> None:
        begin = time.perf_counter()
        super().apply(result)
        self.seconds.append(time.perf_counter() - begin)
        self._done()


class Sinkless(Announcing):
    """Commits state and positions, and no rows: what others are compared with that have no sink either."""

    def __init__(self, done: Callable[[], object], *arguments: Any) -> None:
        super().__init__(done, *arguments)
        self.show = False
        self.shown: pa.Table | None = None

    def _changes(self, end: ViewEnd, result: EpochResult) -> Changes:
        if self.show:
            self.shown = weighted(self._job.views[end.id], super()._changes(end, result))
        return []


class FlowQuery:
    """A running flow."""

    def __init__(self, river: River, flow: Flow, rows: int, done: Callable[[], object], sink: bool) -> None:
        self._river = river
        self._flow = flow.name
        made: list[Announcing] = []

        def committer(*arguments: Any) -> Announcing:
            made.append(partial(Announcing if sink else Sinkless, done)(*arguments))
            return made[0]

        self._run = Run(river, flow, max_rows=rows, committer=committer, send=False)
        self._committer = made[0]

    @property
    def show(self) -> bool:
        return isinstance(self._committer, Sinkless) and self._committer.show

    @show.setter
    def show(self, wanted: bool) -> None:
        if isinstance(self._committer, Sinkless):
            self._committer.show = wanted

    @property
    def shown(self) -> pa.Table:
        """The results that the shown epoch changed, or the whole view where there is one."""
        if not isinstance(self._committer, Sinkless):
            return self._river.view(self._flow).arrow()
        frame = pl.from_arrow(self._committer.shown)
        assert isinstance(frame, pl.DataFrame)
        return frame.filter(pl.col("_weight") > 0).drop("_weight").to_arrow()

    def failure(self) -> object:
        status = self._run.status()
        return None if status["state"] == "running" else status

    def parts(self) -> dict[str, float]:
        """Seconds of the parts of an epoch, as Spark and the committer saw them: medians."""
        epochs = [p["durationMs"] for p in self._run._query._query.recentProgress if "addBatch" in p["durationMs"]]
        spark = {name: median(times[name] for times in epochs) / 1000 for name in epochs[-1]}
        commit = median(self._committer.seconds)
        return {
            "all": spark["triggerExecution"],
            "waiting and planning it": spark["latestOffset"],
            "Spark plans, writes ahead, notes": spark["queryPlanning"] + spark["walCommit"] + spark["commitOffsets"],
            "computing": spark["addBatch"] - commit,
            "commit": commit,
        }

    def stop(self) -> None:
        self._run.stop()
