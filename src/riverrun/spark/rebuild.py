"""A flow's views computed from the log again, beside the running ones, and put in their place.

A rebuild is a query of its own with a home (checkpoint and state) and tables of its own. It writes to no topic. It follows
the running flow until it is close, then the flow is halted or fenced, the rebuild reads up to exactly where that stands,
and one transaction of the home store switches tables, positions and manifest, and with it the home.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from riverrun.errors import Closed, Conflict, Corrupt, RiverrunError, TimedOut, Unavailable
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.log.durability import sync_file
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.job import Job
from riverrun.runtime.manifest import Manifest, computation, home_of
from riverrun.runtime.outputs import view_spec
from riverrun.runtime.patience import Patience
from riverrun.runtime.planner import Limit
from riverrun.spark import failures
from riverrun.spark.compile import streaming_frame
from riverrun.spark.progress import Progress
from riverrun.spark.source import Deployment, deployed, write_positions
from riverrun.views import Last

log = logging.getLogger("riverrun.spark")

_GLANCE = 0.1  # seconds between two looks at how far it is


class Rebuild:
    """One rebuild, from its begin to `switch` or `abandon`. An older one of the flow that was not finished is abandoned.

    `going_on` raises when the rebuild is not wanted any more; `progress` is told of its epochs.
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
        progress: Progress,
    ) -> None:
        self.name = flow.name + suffix
        self._flow = flow
        self._job = job
        self._store = river.store
        self._checkpoints = river.checkpoints
        self._inputs = inputs
        self._spark = spark
        self._stopping = stopping
        self._going_on = going_on
        self._progress = progress
        for token in self._store.rebuilds(self.name):
            self._store.abandon(token)
            remove(f"{river.checkpoints}/{self.name}~{token}")
        self.token = self._store.begin_rebuild(
            self.name, [view_spec(flow, job, view, suffix) for view in flow.views.values()]
        )
        self.home = f"{river.checkpoints}/{self.name}~{self.token}"
        os.makedirs(f"{self.home}/state")
        failpoint("rebuild.begun")
        self.committer = Committer(flow, job, self._store, {}, self.home, suffix, 0, self.token)
        self.deployment = deployed(river, job, self.name, self.home, start, limit, self.token)
        self._begin = Position(start or {name: topic.earliest[name] for name, topic in inputs.items()})
        self._target = self._where(self._store.last(self.name))
        self._checkpoint = Checkpoint(self.home, self.name)
        self.failure: BaseException | None = None  # of the switch, for who waits for it
        self.over = threading.Event()
        self._ending = threading.Event()
        self._query: Any = None
        self._raised: BaseException | None = None
        self._tries = (0, 0)  # how often it failed at which epoch

    @property
    def done(self) -> int:
        """Rows read so far; counted by offsets."""
        return _rows(self.committer.last.positions, self._begin)

    @property
    def all(self) -> int:
        """Rows to be read; more while the running flow goes on."""
        return _rows(self._target, self._begin)

    def approach(self) -> None:
        """Follow the running flow until no more than an epoch is left, or until it does not get any closer."""
        left = None
        while True:
            target = self._where(self._store.last(self.name))
            gap = _rows(target, Position(self.committer.last.positions) | self._begin)
            if left is not None and (gap <= self.deployment.limit.rows or gap >= left):
                break
            self._read_up_to(target)
            left = gap
        failpoint("rebuild.caught_up")

    def switch(self, fence: int, topics: Iterable[Topic]) -> Deployment:
        """Put the rebuilt views in place of the running ones. Nobody but this run may write by now, with this fence, to
        the store and to the flow's topics. Gives what the flow goes on with."""
        live = self._store.last(self.name)
        self._read_up_to(self._where(live))
        self._stop()
        manifest, together = self._heir(live, topics)
        if together is not None:
            write_positions(self.deployment.together, together)
        for directory in (self.home, self._checkpoints):
            sync_file(directory, os.fsync)
        self._patience(self._stopping).through(lambda: self._switch(fence, manifest.encode()))
        failpoint("rebuild.switched")
        try:
            clean(self._checkpoints, self.name, self._store.last(self.name), self._store.rebuilds(self.name))
        except (RiverrunError, OSError) as error:  # the next run does it
            log.debug("old homes of flow %s stay for now: %s", self.name, error)
        failpoint("rebuild.cleaned")
        return replace(self.deployment, rebuild=None)

    def abandon(self) -> None:
        """Leave nothing behind, unless it was switched."""
        self._stop()
        try:
            if self.token in self._store.rebuilds(self.name):
                self._store.abandon(self.token)
            if home_of(self._checkpoints, self.name, self._store.last(self.name)) != self.home:
                remove(self.home)
        except RiverrunError as error:  # the next rebuild does it
            log.debug("the rebuild of flow %s could not be removed: %s", self.name, error)

    def _switch(self, fence: int, manifest: bytes) -> None:
        if self.token in self._store.rebuilds(self.name):
            self._store.switch(self.token, fence, manifest=manifest)
        elif home_of(self._checkpoints, self.name, self._store.last(self.name)) != self.home:  # else it is done
            raise Conflict(f"the rebuild of flow {self.name} was given up: somebody began another one")

    def _where(self, live: Last) -> Position:
        """Where the rebuild has to stop: where the running flow is. Topics that only the new flow reads are read to their
        end."""
        return Position({n: live.positions.get(n) or topic.latest[n] for n, topic in self._inputs.items()})

    def _heir(self, live: Last, topics: Iterable[Topic]) -> tuple[Manifest, Position | None]:
        """The manifest to go on with, and positions up to which the first epoch has to read.

        The running flow may have written an epoch to topics and died before the store had it. Its first successor reads
        the same rows and has the same sequence: topics that have it take nothing twice, others get what they lack. If it
        read no rows, time alone made it; then its sequence is passed over.
        """
        known = Manifest.decode(live.manifest) if live.manifest else None
        base = (known.base if known else 0) + live.epoch
        built = self.committer.last
        together = None
        if any((topic.last_sequence(self.name) or 0) > base for topic in topics):
            written = self._written(live)
            if written is None:
                base += 1
            else:
                together = Position({name: written[name] for name in self._inputs if name in written})
        if built.manifest is None:
            made = Manifest(0, self._job.shards, {}, computation(self._flow), home=os.path.basename(self.home))
        else:
            made = Manifest.decode(built.manifest)
        return msgspec.structs.replace(made, base=base - built.epoch), together

    def _written(self, live: Last) -> Position | None:
        """Where the epoch ends that topics have and the store does not; None when it has no rows, or nobody knows."""
        try:
            checkpoint = Checkpoint(home_of(self._checkpoints, self.name, live), self.name)
            positions = Position(checkpoint.plan(live.epoch + 1).positions)
        except Corrupt:
            return None
        shared = Position({name: positions[name] for name in self._inputs if name in positions})
        return None if shared <= live.positions else shared

    # The query.

    def _read_up_to(self, target: Position) -> None:
        self._target = target
        write_positions(self.deployment.until, target)
        while not target <= self.committer.last.positions:
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
            raise Unavailable(f"the rebuild of flow {self.name}: Spark's JVM has ended") from error

    def _start(self) -> None:
        self._raised = None
        frame = streaming_frame(self._spark, self.deployment, self._flow)
        self._query = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self.home}/checkpoint")
            .queryName(self.deployment.label)
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _again(self, reported: BaseException | None) -> None:
        """Pause before the query is started again, or raise what the rebuild fails with."""
        error = self._raised or reported or Unavailable("the query has ended")
        final = failures.is_final(error)
        if final is not None:
            raise final
        epoch = self.committer.last.epoch + 1
        tries = (self._tries[0] if self._tries[1] == epoch else 0) + (not failures.may_pass(error))
        self._tries = (tries, epoch)
        if tries > len(failures.PAUSES):
            raise Unavailable(
                f"the rebuild of flow {self.name} failed {tries} times in a row at its epoch {epoch}:"
                f" {failures.cause(error)}"
            )
        pause = failures.PAUSES[max(tries, 1) - 1]
        log.warning("the rebuild of flow %s failed, trying again in %s s: %s", self.name, pause, failures.cause(error))
        time.sleep(pause)

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Spark's call for each batch."""
        if self._ending.is_set():
            raise Closed(f"the rebuild of flow {self.name} is being stopped")
        try:
            if not self.committer.is_committed(batch + 1):
                begun = time.monotonic()
                made = self.committer.received(frame.toArrow())
                computed = time.monotonic()
                self._checkpoint.settle(made.control.epoch, made.control.positions)
                self._patience(self._ending).through(lambda: self.committer.apply(made))
                self._progress.committed(made, computed - begun, time.monotonic() - computed)
        except BaseException as error:
            self._raised = error
            raise

    def _patience(self, ended: threading.Event) -> Patience:
        return Patience(f"the rebuild of flow {self.name}", ended)

    def _stop(self) -> None:
        """At once: an epoch in progress is of no use to anybody, unless it was the last."""
        self._ending.set()
        if self._query is not None:
            try:
                self._query.stop()
            except Exception as error:  # the JVM is gone, and the query with it
                log.debug("the rebuild's query could not be stopped: %s", error)


class Rebuilds:
    """The rebuilds of one run, one at a time: before it goes on, or beside it when somebody asks for one.

    `begin` begins one, `going_on` raises when the run has ended.
    """

    def __init__(self, begin: Callable[[Callable[[], None], Progress], Rebuild], going_on: Callable[[], None]) -> None:
        self.current: Rebuild | None = None
        self._begin = begin
        self._going_on = going_on
        self._ready: Rebuild | None = None  # waits for the run to make room for it
        self._lock = threading.Lock()

    def begin(self, progress: Progress) -> Rebuild:
        """Begin the one that the run waits for."""
        self.current = self._begin(self._going_on, progress)
        return self.current

    def first(self, take_over: Callable[[], int], topics: Iterable[Topic]) -> Deployment:
        """Finish what was begun. The run of the old flow, if there is one, goes on until it is taken over from."""
        assert self.current is not None
        try:
            self.current.approach()
            fence = take_over()
            failpoint("rebuild.fenced")
            return self.current.switch(fence, topics)
        finally:
            self._end(self.current)

    def beside(self, flow: str, deadline: float | None) -> None:
        """One beside the run; returns when the run has switched to it."""

        def going_on() -> None:
            self._going_on()
            if deadline is not None and time.monotonic() > deadline:
                raise TimedOut(f"flow {flow} did not rebuild its views in time")

        with self._lock:
            if self.current is not None:
                raise Conflict(f"flow {flow} is being rebuilt already")
            self.current = rebuild = self._begin(going_on, Progress())
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


def clean(checkpoints: str, flow: str, last: Last, rebuilds: Iterable[int]) -> None:
    """Remove the homes that a flow had before it was rebuilt. Those of rebuilds that are under way stay."""
    home = os.path.basename(home_of(checkpoints, flow, last))
    if "~" not in home:
        return
    keep = {home, *(f"{flow}~{token}" for token in rebuilds)}
    for name in os.listdir(checkpoints):
        if name not in keep and (name == flow or name.startswith(f"{flow}~")):
            remove(f"{checkpoints}/{name}")


def remove(home: str) -> None:
    """Remove a home; who still works in it is shut out already."""
    shutil.rmtree(home, ignore_errors=True)


def _rows(positions: Mapping[str, Mapping[int, int]], since: Position) -> int:
    return sum(
        max(offset - since.get(name, {}).get(p, 0), 0)
        for name, parts in positions.items()
        for p, offset in parts.items()
    )
