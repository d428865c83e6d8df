"""A flow's views computed from the log again on Spark, beside the running query, and put in the place of its views.

A rebuild follows the running flow until it is close. Then the flow is halted or fenced, the rebuild reads up to exactly
where that stands, and one transaction of the home store switches over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from riverrun.errors import Closed, Conflict, RiverrunError, TimedOut, Unavailable
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.compile.job import Job
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Limit
from riverrun.runtime.rebuild import Successor
from riverrun.runtime.status import RebuildProgress
from riverrun.spark import failures
from riverrun.spark.compile import SparkJob
from riverrun.spark.deployment import Deployment, deploy
from riverrun.spark.progress import RunProgress

log = logging.getLogger("riverrun.spark")

_GLANCE = 0.1  # seconds between two looks at how far it is


class Rebuild:
    """One rebuild, from its begin to `switch` or `abandon`.

    `going_on` raises when it is not wanted any more; `progress` is told of its epochs.
    """

    def __init__(
        self,
        river: River,
        flow: Flow,
        suffix: str,
        job: Job,
        inputs: Mapping[str, Topic],
        start: Mapping[str, Mapping[int, int]] | None,
        limit: Limit,
        spark: SparkSession,
        stopping: threading.Event,
        going_on: Callable[[], None],
        progress: RunProgress,
    ) -> None:
        self._flow = flow
        self._store = river.store
        self._spark = spark
        self._stopping = stopping
        self._going_on = going_on
        self._progress = progress
        self._successor = Successor(flow, suffix, job, river.store, river.checkpoints, inputs)
        self._name = f"the rebuild of flow {self._successor.name}"
        self.committer = self._successor.committer
        home, token = self._successor.home, self._successor.token
        self.deployment = deploy(river, job, self._successor.name, home, start, limit, token)
        self._begin = Position(start or {name: topic.begins() for name, topic in inputs.items()})
        self._goal = self._successor.goal()
        self.failure: BaseException | None = None  # of the switch, for who waits for it
        self.over = threading.Event()
        self._ending = threading.Event()
        self._query: Any = None
        self._raised: BaseException | None = None
        self._tries = failures.Tries(self._name)

    @property
    def progress(self) -> RebuildProgress:
        """Rows read so far, of those to be read, which are more while the running flow goes on; counted by offsets."""
        return RebuildProgress(_rows(self.committer.last.positions, self._begin), _rows(self._goal, self._begin))

    def approach(self) -> None:
        """Follow the running flow until no more than an epoch is left, or until it does not get any closer."""
        left = None
        while True:
            goal = self._successor.goal()
            gap = _rows(goal, self._begin | self.committer.last.positions)
            if left is not None and (gap <= self.deployment.limit.rows or gap >= left):
                break
            self._read_up_to(goal)
            left = gap
        failpoint("rebuild.caught_up")

    def switch(self, fence: int, topics: Iterable[Topic]) -> Deployment:
        """Catch up with a flow that does not move any more and put the rebuilt views in place of its views. Gives what
        the flow goes on with."""
        self._read_up_to(self._successor.goal())
        self._stop()
        self._successor.switch(fence, topics, Patience(self._name, self._stopping))
        return replace(self.deployment, rebuild=None)

    def abandon(self) -> None:
        """Leave nothing behind, unless it was switched to."""
        self._stop()
        self._successor.abandon()

    def _read_up_to(self, goal: Position) -> None:
        self._goal = goal
        self._successor.stop_at(goal)
        while not goal <= self.committer.last.positions:
            self._going_on()
            self._keep_running()
            self._store.pause(_GLANCE)

    def _keep_running(self) -> None:
        try:
            if self._query is None:
                self._start()
            elif not self._query.isActive:
                self._again(self._query.exception())
                self._start()
        except Exception as error:
            if not failures.is_gone(error):
                raise
            raise Unavailable(f"{self._name}: Spark's JVM has ended") from error

    def _start(self) -> None:
        self._raised = None
        self._spark_job = SparkJob(self._spark, self.deployment, self._flow)
        self._query = (
            self._spark_job.stream()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self.deployment.home}/checkpoint")
            .queryName(self.deployment.label)
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _again(self, reported: BaseException | None) -> None:
        """Pause before the query is started again, or raise what the rebuild fails with."""
        error = self._raised or reported or Unavailable("the query has ended")
        self._stopping.wait(self._tries.pause(error, self.committer.last.epoch + 1))

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Spark's call for each batch."""
        if self._ending.is_set():
            raise Closed(f"{self._name} is being stopped")
        try:
            if not self.committer.is_committed(batch + 1):
                begun = time.monotonic()
                made = self._spark_job.compute(frame, batch + 1)
                self.committer.check(made)
                computed = time.monotonic()
                self._successor.checkpoint.settle(made.control.epoch, made.control.positions)
                Patience(self._name, self._ending).through(lambda: self.committer.apply(made))
                self._progress.committed(made, computed - begun, time.monotonic() - computed)
        except BaseException as error:
            self._raised = error
            raise

    def _stop(self) -> None:
        """At once: an epoch in progress is of no use to anybody, unless it was the last."""
        self._ending.set()
        if self._query is not None:
            try:
                self._query.stop()
            except Exception as error:  # the JVM is gone, and the query with it
                log.debug("%s could not be stopped: %s", self._name, error)


class Rebuilds:
    """The rebuilds of one run, one at a time: before it goes on, or beside it when somebody asks for one.

    `begin` begins one, `going_on` raises when the run has ended.
    """

    def __init__(
        self, begin: Callable[[Callable[[], None], RunProgress], Rebuild], going_on: Callable[[], None]
    ) -> None:
        self.current: Rebuild | None = None
        self._begin = begin
        self._going_on = going_on
        self._ready: Rebuild | None = None  # waits for the run to make room for it
        self._lock = threading.Lock()

    @property
    def progress(self) -> RebuildProgress | None:
        """How far the current one is; None where there is none."""
        current = self.current
        return current.progress if current else None

    def begin(self, progress: RunProgress) -> Rebuild:
        """Begin the one that the run waits for."""
        self.current = self._begin(self._going_on, progress)
        return self.current

    def first(self, take_over: Callable[[], int], topics: Iterable[Topic]) -> Deployment:
        """Finish what was begun. The run of the old flow, if there is one, goes on until it is taken over from."""
        rebuild = self.current
        assert rebuild is not None
        try:
            rebuild.approach()
            fence = take_over()
            failpoint("rebuild.fenced")
            return rebuild.switch(fence, topics)
        finally:
            self._end(rebuild)

    def beside(self, flow: str, deadline: float | None) -> None:
        """One beside the run; returns when the run has switched to it."""

        def going_on() -> None:
            self._going_on()
            if deadline is not None and time.monotonic() > deadline:
                raise TimedOut(f"flow {flow} did not rebuild its views in time")

        with self._lock:
            if self.current is not None:
                raise Conflict(f"flow {flow} is being rebuilt already")
            self.current = rebuild = self._begin(going_on, RunProgress())
        try:
            rebuild.approach()
            self._hand_over(rebuild)
            if rebuild.failure is not None:
                raise rebuild.failure
        finally:
            self._end(rebuild)

    def claim(self) -> Rebuild | None:
        """The one that the run is to switch to, now. Its `over` must be set in the end."""
        with self._lock:
            ready, self._ready = self._ready, None
        return ready

    def _hand_over(self, rebuild: Rebuild) -> None:
        self._ready = rebuild
        while not rebuild.over.wait(_GLANCE):
            try:
                self._going_on()
            except RiverrunError:
                with self._lock:
                    if self._ready is rebuild:  # else the run is about to answer
                        self._ready = None
                        raise

    def _end(self, rebuild: Rebuild) -> None:
        rebuild.abandon()
        self.current = None


def _rows(positions: Mapping[str, Mapping[int, int]], since: Position) -> int:
    return sum(
        max(offset - since.get(name, {}).get(p, 0), 0)
        for name, parts in positions.items()
        for p, offset in parts.items()
    )
