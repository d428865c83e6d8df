"""A running flow: started, resumed, restarted after failures, drained, stopped."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame

from riverrun import durable
from riverrun.alerts.alerts import Alerts
from riverrun.durations import Duration, from_micros, seconds, wall_clock
from riverrun.errors import Closed, Conflict, Fenced, RiverrunError, TimedOut, Transient, Unavailable
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.log.topic import Start
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.admission import Admission, admitted, refuse_drained
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.manifest import Manifest, home_of
from riverrun.runtime.opening import beginning, check_written, open_inputs, open_outputs, shut_out
from riverrun.runtime.outputs import declare_views
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Limit
from riverrun.runtime.rebuild import clean
from riverrun.runtime.status import EpochTimes, FlowState, FlowStatus
from riverrun.runtime.stored_status import read_status
from riverrun.spark import failures
from riverrun.spark.analyst import SparkAnalyst
from riverrun.spark.compile import SparkJob
from riverrun.spark.deployment import Deployment, deploy
from riverrun.spark.progress import RunProgress
from riverrun.spark.rebuild import Rebuild, Rebuilds
from riverrun.spark.session import cores, session

log = logging.getLogger("riverrun.spark")

# What fails in an epoch is told by the run, in one line; these would print it again, at length.
for _name in ("py4j.clientserver", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).setLevel(logging.CRITICAL)

_LOOK = 2  # seconds between two looks whether a newer run has taken over


class Run:
    """One run of a flow. Processes in the background until it is stopped or drained; a context manager stops it."""

    def __init__(
        self,
        river: River,
        flow: Flow,
        start: Start = None,
        suffix: str = "",
        max_rows: int | None = None,
        committer: Callable[..., Committer] = Committer,
        rebuild: bool = False,
        send: bool = True,
    ) -> None:
        self.flow = flow
        self.name = flow.name + suffix
        self._river = river
        self._suffix = suffix
        self._alerts = Alerts(river, flow, suffix, send)
        self._store = river.store
        self._make_committer = committer
        self._inputs = open_inputs(river, flow)
        self._begin = beginning(self._inputs, start)
        admission = self._admitted(rebuild)
        self._spark = session(river.master, river.settings)
        shards = admission.known.shards if admission.known else cores()
        self._job = compile_flow(flow, shards, SparkAnalyst(lambda: self._spark))
        self._topics = open_outputs(river, flow, self._job, self._inputs, suffix)
        self._limit = Limit(max_rows or river.settings.epoch_rows, river.settings.epoch_bytes)
        self._fence = 0
        self._finishing = False
        self._failure: BaseException | None = None
        self._raised: BaseException | None = None  # by the newest call of `_take`, while Spark only knows its text
        self._trouble: BaseException | None = None  # since when no epoch succeeded
        self._tries = failures.Tries(f"flow {self.name}")
        self._next_try: int | None = None
        self._progress = RunProgress()
        self._taking = threading.Lock()
        self._halting = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._live = threading.Event()  # not yet while views have to be rebuilt first
        self._patience = Patience(f"flow {self.name}", self._stopping)
        self._query: Any = None
        what = (river, flow, suffix, self._job, self._inputs, self._begin, self._limit, self._spark, self._stopping)
        self._rebuilds = Rebuilds(partial(Rebuild, *what), self._check_going_on)
        if admission.anew:
            log.warning("flow %s %s: its views are computed from the log again", self.name, admission.anew)
            begun = self._rebuilds.begin(self._progress)
            self._use(begun.deployment, begun.committer)
        else:
            self._take_over()
            self._go_live(self._resumed(admission.home))
        self._watcher = threading.Thread(target=self._watch, name=f"riverrun-{self.name}", daemon=True)
        self._watcher.start()
        self._alerts.start(self)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def process(self, timeout: Duration | None = None) -> None:
        """Wait until everything appended before this call has taken effect."""
        wanted = Position({name: topic.ends() for name, topic in self._inputs.items()})

        def done() -> bool:
            if not self._live.is_set():
                return False
            last = self._committer.last
            if wanted <= Position(last.positions):
                return True
            refuse_drained(self.name, last, self._inputs)
            return False

        self._wait(done, timeout, "process what was appended")

    def drain(self, timeout: Duration | None = None) -> None:
        """Treat the input as finished: close every window, commit, stop."""
        self._finishing = True
        self._deployment.finish(True)
        self._wait(lambda: self._live.is_set() and self._is_final(), timeout, "drain")
        self.stop()

    def rebuild(self, timeout: Duration | None = None) -> None:
        """Compute the views from the log again while the run goes on, then put them in place of the ones there are, at
        once. No topic is written again. After `timeout`, or if it fails, everything is as it was."""
        limit = seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        self._wait(self._live.is_set, timeout, "rebuild its views")
        self._admitted(rebuild=True)
        self._rebuilds.beside(self.name, deadline)

    def wait(self, timeout: Duration | None = None) -> bool:
        """Whether the run has ended, waiting so long for it. Raises what made it fail."""
        ended = self._ended.wait(seconds(timeout))
        if self._failure is not None:
            raise self._failure
        return ended

    def stop(self, patience: Duration | None = None) -> None:
        """Finish the epoch and stop. What was processed stays; the next run goes on from there.

        An epoch that takes longer than `patience` is given up, and done again by the next run.
        """
        if not self._ended.is_set():
            self._end(seconds(patience))
        self._alerts.stop()

    def _end(self, limit: float | None) -> None:
        self._stopping.set()
        # The epoch in progress is finished first, unless it waits for something that is away.
        if self._taking.acquire(timeout=-1 if limit is None else limit):
            self._taking.release()
        if not self._live.is_set():
            self._ended.wait(30)  # a rebuild is given up
        self._ask_spark()
        self._stop_query()
        self._ended.wait(30)

    def status(self) -> dict[str, Any]:
        """Where the run is, as plain data: what `observe` gives as JSON has it, times as strings."""
        return self.observe().plain()

    def observe(self) -> FlowStatus:
        """Where the run is, and how it got on; answers after the end, too."""
        self._ask_spark()
        last = replace(self._committer.last, fence=self._fence)
        ends = {name: topic.ends() for name, topic in self._inputs.items()}
        return FlowStatus(
            **msgspec.structs.asdict(read_status(self.name, last, ends, self._home)),
            state=self._state(),
            reason=self._reason(),
            next_try=from_micros(at) if (at := self._next_try) else None,
            rebuild=self._rebuilds.progress,
            rows_per_second=self._progress.rate(),
            times=self._progress.times(self._inputs, cores()),
            nodes=self._progress.nodes(self._inputs),
            alerts=self._alerts.status(),
        )

    def epochs(self) -> list[EpochTimes]:
        """The last hundred epochs of this run, oldest first: when, how many rows, and what their time went to."""
        self._ask_spark()
        return self._progress.recent(self._inputs, cores())

    def _ask_spark(self) -> None:
        """Take in what Spark has reported since; it forgets its reports when it is stopped."""
        if self._query is not None and not self._progress.is_complete:
            try:
                self._progress.told(self._query.recentProgress)
            except Exception as error:  # the JVM is gone, and the run says so itself
                log.debug("no progress from Spark: %s", error)

    def ledger(self) -> list[dict[str, Any]]:
        """Where every row went, in total."""
        return [dict(entry) for entry in self._committer.last.ledger or []]

    def _state(self) -> FlowState:
        """running, rebuilding, waiting (for a store or a disk), failing (and trying again), drained, stopped, failed."""
        if self._failure is not None:
            return "failed"
        if self._live.is_set() and self._is_final():
            return "drained"
        if self._ended.is_set():
            return "stopped"
        if self._patience.waiting is not None:
            return "waiting"
        if self._trouble is not None:
            return "failing"
        return "running" if self._rebuilds.current is None else "rebuilding"

    def _reason(self) -> str | None:
        if self._patience.waiting is not None:
            return self._patience.waiting
        error = self._failure or self._trouble
        if error is not None:
            return failures.cause(error)
        rebuild = self._rebuilds.progress
        return None if rebuild is None or self._ended.is_set() else f"{rebuild.rows} of {rebuild.of} rows"

    def _is_final(self) -> bool:
        last = self._committer.last
        return bool(last.manifest and Manifest.decode(last.manifest).final)

    def _wait(self, done: Any, timeout: Duration | None, what: str) -> None:
        limit = seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        while not done():
            if self._failure is not None:
                raise self._failure
            if self._ended.is_set():
                raise Closed(f"flow {self.name} was stopped before it could {what}")
            if deadline is not None and time.monotonic() > deadline:
                raise TimedOut(f"flow {self.name} did not {what} in time")
            self._store.pause(0.02)

    def _take_over(self) -> int:
        self._fence = shut_out(self.name, self._store, self._topics.values())
        return self._fence

    def _admitted(self, rebuild: bool) -> Admission:
        parts = (self.name, self.flow, self._store, self._river.checkpoints, self._inputs, self._begin)
        return admitted(*parts, rebuild)

    def _resumed(self, home: str) -> Deployment:
        """What a run goes on with that takes everything as it is. Views exist before the first epoch."""
        now = self._store.last(self.name)  # of the run that was shut out just now
        if home_of(self._river.checkpoints, self.name, now) != home:
            raise Conflict(f"flow {self.name} was rebuilt while it was being started", hint="Run it again")
        refuse_drained(self.name, now, self._inputs)
        check_written(self.name, now, home, self._topics.values())
        declare_views(self._store, self.flow, self._job, self._fence, self._suffix)
        clean(self._river.checkpoints, self.name, self._store)
        return deploy(self._river, self._job, self.name, home, self._begin, self._limit)

    def _go_live(self, deployment: Deployment) -> None:
        """Take in what comes, from where the home store is."""
        durable.make_directory(deployment.state)
        parts = (self.flow, self._job, self._store, self._topics, deployment.home, self._suffix, self._fence)
        self._use(deployment, self._patience.through(lambda: self._make_committer(*parts)))
        deployment.finish(self._finishing)
        self._start_query()
        self._live.set()

    def _use(self, deployment: Deployment, committer: Committer) -> None:
        self._deployment, self._home, self._committer = deployment, deployment.home, committer
        self._checkpoint = Checkpoint(self._home, self.name)

    def _start_query(self) -> None:
        self._raised = None
        self._spark_job = SparkJob(self._spark, self._deployment, self.flow)
        self._query = (
            self._spark_job.stream()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self._home}/checkpoint")
            .queryName(os.path.basename(self._home))  # of an old flow's run in this process it is another one
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Spark's call for each batch: the epoch is computed here, and takes effect."""
        with self._taking:
            if self._stopping.is_set() or self._halting.is_set():
                raise Closed(f"flow {self.name} is being stopped")
            try:
                self._patience.through(lambda: self._store.check_fence(self.name, self._fence))
                if not self._committer.is_committed(batch + 1):
                    begun = time.monotonic()
                    made = self._spark_job.compute(frame, batch + 1)
                    self._committer.check(made)
                    computed = time.monotonic()
                    self._checkpoint.settle(made.control.epoch, made.control.positions)
                    self._patience.through(lambda: self._committer.apply(made))
                    self._progress.committed(made, computed - begun, time.monotonic() - computed)
                self._trouble = None
            except BaseException as error:
                self._raised = error
                raise
        failpoint("epoch.done")

    def _watch(self) -> None:
        """Until the run is stopped, shut out, or fails for good."""
        try:
            if not self._live.is_set():
                take_over = self._patience.through
                self._go_live(self._rebuilds.first(lambda: take_over(self._take_over), self._topics.values()))
            again = False
            while not self._stopping.is_set():
                try:
                    rebuilt = self._rebuilds.claim()
                    if rebuilt is not None:
                        self._switch(rebuilt)
                        again = False
                    if again:
                        self._start_query()
                        again = False
                    if self._query.awaitTermination(_LOOK):
                        return
                    self._check_fence()
                except Exception as error:
                    if self._stopping.is_set():
                        return
                    self._after(error)
                    again = True
        except Exception as error:
            if not self._stopping.is_set():
                if isinstance(error, Fenced):
                    self._alerts.stop(patience=0)  # the newer run sends them
                self._failure = error
        finally:
            self._ended.set()

    def _check_going_on(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._stopping.is_set() or self._ended.is_set():
            raise Closed(f"flow {self.name} was stopped while its views were being rebuilt")

    def _switch(self, rebuild: Rebuild) -> None:
        """Between two epochs, go on with what was rebuilt; with what there was, if that cannot be done."""
        self._halting.set()
        with self._taking:
            pass
        self._ask_spark()
        self._stop_query()
        self._halting.clear()
        deployment = self._deployment
        try:
            deployment = rebuild.switch(self._fence, self._topics.values())
        except Exception as error:
            rebuild.failure = error
        try:
            self._go_live(deployment)
        finally:
            rebuild.over.set()

    def _check_fence(self) -> None:
        """An idle run, too, ends when a newer one has taken over."""
        try:
            self._store.check_fence(self.name, self._fence)
        except Transient:
            return  # the next epoch will wait for it
        except RiverrunError:
            self._stop_query()
            raise

    def _stop_query(self) -> None:
        try:
            if self._query is not None:
                self._query.stop()
        except Exception as error:
            if not failures.is_gone(error):  # a JVM that has ended has stopped it
                raise

    def _after(self, error: Exception) -> None:
        """Pause before the query is started again, or raise what the run fails with."""
        if failures.is_gone(error):
            raise Unavailable(
                f"flow {self.name}: Spark's JVM has ended", hint="Run the flow again; it goes on where it stopped"
            ) from error
        self._trouble = self._raised or error
        self._patience.through(lambda: self._store.check_fence(self.name, self._fence))
        pause = self._tries.pause(self._trouble, self._committer.last.epoch + 1)
        self._next_try = wall_clock() + int(pause * 1_000_000)
        self._stopping.wait(pause)
        self._next_try = None
