"""A running flow: started, resumed, restarted after failures, drained, stopped."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame

from riverrun.alerts.alerts import Alerts
from riverrun.durations import Duration, seconds
from riverrun.errors import (
    Closed,
    Conflict,
    Fenced,
    RiverrunError,
    TimedOut,
    Transient,
    Unavailable,
)
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.flow.graph import InputTopic
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Start, Topic
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.admission import check_declared, refuse_changed, refuse_drained, resumable
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.commit import Committer
from riverrun.runtime.compiler import compile_flow
from riverrun.runtime.job import Job
from riverrun.runtime.manifest import Manifest
from riverrun.runtime.outputs import output_specs, view_spec
from riverrun.runtime.patience import Patience
from riverrun.runtime.planner import Limit
from riverrun.runtime.status import flow_status, moment
from riverrun.spark import failures
from riverrun.spark.compile import Analyst, streaming_frame
from riverrun.spark.progress import Progress
from riverrun.spark.session import cores, session
from riverrun.spark.source import Deployment

log = logging.getLogger("riverrun.spark")

# What fails in an epoch is told by the run, in one line; these would print it again, at length.
for _name in ("py4j.clientserver", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).setLevel(logging.CRITICAL)

_PAUSES = (0.5, 1, 2, 5)  # after a failure; a run that fails once more at the same epoch is given up
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
    ) -> None:
        self.flow = flow
        self.name = flow.name + suffix
        self._river = river
        self._suffix = suffix
        self._home = f"{river.checkpoints}/{self.name}"
        self._alerts = Alerts(river, flow, suffix)
        os.makedirs(f"{self._home}/state", exist_ok=True)
        self._store = river.store
        self._checkpoint = Checkpoint(self._home, self.name)
        self._inputs = self._open_inputs()
        known = resumable(self.name, self._store, self._checkpoint, self._inputs)
        self._spark = session(river.master, river.settings)
        job = compile_flow(flow, known.shards if known else cores(), Analyst(self._spark))
        refuse_changed(self.name, known, job)
        self._fence = self._store.take_fence(self.name)
        topics = self._open_outputs(job)
        self._committer = committer(flow, job, self._store, topics, self._home, suffix, self._fence)
        refuse_drained(self.name, self._committer.last, self._inputs)  # by the run that was shut out just now
        self._deployment = Deployment(
            river=river.path,
            job=job,
            flow=self.name,
            home=self._home,
            views=river.views_address,
            start=self._start(start),
            limit=Limit(max_rows or river.settings.epoch_rows, river.settings.epoch_bytes),
            slices=cores(),
        )
        if os.path.exists(self._deployment.finish_mark):
            os.unlink(self._deployment.finish_mark)
        self._failure: BaseException | None = None
        self._raised: BaseException | None = None  # by the newest call of `_take`, while Spark only knows its text
        self._trouble: BaseException | None = None  # since when no epoch succeeded
        self._next_try: int | None = None
        self._progress = Progress()
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._patience = Patience(f"flow {self.name}", self._stopping)
        self._query: Any = None
        self._start_query()
        self._watcher = threading.Thread(target=self._watch, name=f"riverrun-{self.name}", daemon=True)
        self._watcher.start()
        self._alerts.start(self)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def process(self, timeout: Duration | None = None) -> None:
        """Wait until everything appended before this call has taken effect."""
        wanted = Position({name: topic.latest[name] for name, topic in self._inputs.items()})

        def done() -> bool:
            last = self._committer.last
            if wanted <= Position(last.positions):
                return True
            refuse_drained(self.name, last, self._inputs)
            return False

        self._wait(done, timeout, "process what was appended")

    def drain(self, timeout: Duration | None = None) -> None:
        """Treat the input as finished: close every window, commit, stop."""
        with open(self._deployment.finish_mark, "w", encoding="utf-8"):
            pass
        self._wait(self._is_final, timeout, "drain")
        self.stop()

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
        self._ask_spark()
        self._stop_query()
        self._ended.wait(30)

    def status(self) -> dict[str, Any]:
        """Where the run is, as plain data: its state and why, epoch, lag, watermarks and who holds them back, rows per
        second, the last epoch's times in seconds, what the state takes. Answers after the end, too."""
        self._ask_spark()
        ends = {name: topic.latest[name] for name, topic in self._inputs.items()}
        return {
            **flow_status(self.name, self._committer.last, ends, self._home),
            "state": self._state(),
            "reason": self._reason(),
            "next_try": moment(self._next_try) if self._next_try else None,
            "fence": self._fence,
            "rows_per_second": self._progress.rate(),
            "times": self._progress.times(self._inputs, cores()),
            "nodes": self._progress.nodes(self._inputs),
            "alerts": self._alerts.status(),
        }

    def _ask_spark(self) -> None:
        """Take in what Spark has reported since; it forgets its reports when it is stopped."""
        if not self._progress.is_complete:
            try:
                self._progress.told(self._query.recentProgress)
            except Exception as error:  # the JVM is gone, and the run says so itself
                log.debug("no progress from Spark: %s", error)

    def ledger(self) -> list[dict[str, Any]]:
        """Where every row went, in total."""
        return [dict(entry) for entry in self._committer.last.ledger or []]

    def _state(self) -> str:
        """running, waiting (for a store or a disk), failing (and trying again), drained, stopped, or failed."""
        if self._failure is not None:
            return "failed"
        if self._is_final():
            return "drained"
        if self._ended.is_set():
            return "stopped"
        if self._patience.waiting is not None:
            return "waiting"
        return "running" if self._trouble is None else "failing"

    def _reason(self) -> str | None:
        if self._patience.waiting is not None:
            return self._patience.waiting
        error = self._failure or self._trouble
        return None if error is None else failures.cause(error)

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

    # Starting.

    def _start(self, start: Start) -> Mapping[str, Mapping[int, int]] | None:
        """Where a new flow begins to read; None: where each topic begins."""
        if start is None or start == "earliest":
            return None
        return {name: dict(topic.offsets(start, topic.earliest)) for name, topic in self._inputs.items()}

    def _open_inputs(self) -> dict[str, Topic]:
        """The topics the flow reads, made where they are missing; what it says of one that is there must be so."""
        opened = {}
        there = set(self._river.topics())
        for name, declared in self.flow.topics().items():
            spec = TopicSpec(name, declared.schema, **_said(declared)) if name not in there else TopicSpec(name)
            opened[name] = topic = self._river.topic(spec)
            check_declared(declared, topic.spec)
        return opened

    def _open_outputs(self, job: Job) -> dict[str, Topic]:
        """Views and topics exist before the first epoch, and know this run's fence before anything is planned."""
        for view in self.flow.views.values():
            self._store.declare(view_spec(self.flow, job, view, self._suffix))
        specs = output_specs(self.flow, job, self._inputs, self._suffix)
        topics = {spec.name: self._river.topic(spec) for spec in specs}
        for topic in topics.values():
            self._raise_fence(topic)
        return topics

    def _raise_fence(self, topic: Topic) -> None:
        try:
            topic.raise_fence(self.name, self._fence)
        except Fenced as error:
            self._store.check_fence(self.name, self._fence)  # names the run that was started just now, if it was one
            raise Conflict(
                f"topic {topic.name} was written by flow {self.name} before its views were removed: {error.message}",
                hint="Drop the topic as well, restore the views, or run the flow under another name",
            ) from None

    def _start_query(self) -> None:
        self._raised = None
        frame = streaming_frame(self._spark, self._deployment, self.flow)
        self._query = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self._home}/checkpoint")
            .queryName(self.name)
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Spark's call for each batch: the epoch is computed here, and takes effect."""
        with self._taking:
            if self._stopping.is_set():
                raise Closed(f"flow {self.name} is being stopped")
            try:
                self._patience.through(lambda: self._store.check_fence(self.name, self._fence))
                if not self._committer.is_committed(batch + 1):
                    begun = time.monotonic()
                    made = self._committer.received(frame.toArrow())
                    computed = time.monotonic()
                    self._checkpoint.settle(made.control.epoch, made.control.positions)
                    self._patience.through(lambda: self._committer.apply(made))
                    self._progress.committed(made, computed - begun, time.monotonic() - computed)
                self._trouble = None
            except BaseException as error:
                self._raised = error
                raise
        failpoint("epoch.done")

    # Keeping it running.

    def _watch(self) -> None:
        """Until the run is stopped, shut out, or fails for good."""
        tries, epoch, again = 0, self._committer.last.epoch, False
        try:
            while not self._stopping.is_set():
                try:
                    if again:
                        self._start_query()
                        again = False
                    if self._query.awaitTermination(_LOOK):
                        return
                    self._check_fence()
                except Exception as error:
                    if self._stopping.is_set():
                        return
                    if self._committer.last.epoch > epoch:
                        tries, epoch = 0, self._committer.last.epoch
                    tries, again = self._after(error, tries), True
        except Exception as error:
            if not self._stopping.is_set():
                self._failure = error
        finally:
            self._ended.set()

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
            self._query.stop()
        except Exception as error:
            if not failures.is_gone(error):  # a JVM that has ended has stopped it
                raise

    def _after(self, error: Exception, tries: int) -> int:
        """Pause before the query is started again, or raise what the run fails with. What will pass is not counted."""
        if failures.is_gone(error):
            raise Unavailable(
                f"flow {self.name}: Spark's JVM has ended", hint="Run the flow again; it goes on where it stopped"
            ) from error
        self._trouble = self._raised or error
        self._patience.through(lambda: self._store.check_fence(self.name, self._fence))
        final = failures.is_final(self._trouble)
        if final is not None:
            raise final
        cause = failures.cause(self._trouble)
        tries += not failures.may_pass(self._trouble)
        if tries > len(_PAUSES):
            raise Unavailable(
                f"flow {self.name} failed {tries} times in a row at epoch {self._committer.last.epoch + 1}: {cause}"
            )
        pause = _PAUSES[tries - 1] if tries else _LOOK
        log.warning("flow %s failed, trying again in %s s: %s", self.name, pause, cause)
        log.debug("%s", self._trouble)
        self._next_try = time.time_ns() // 1000 + int(pause * 1_000_000)
        self._stopping.wait(pause)
        self._next_try = None
        return tries


def _said(declared: InputTopic) -> dict[str, Any]:
    options = {"key": declared.key, "time": declared.time, "producers": declared.producers}
    return {name: value for name, value in options.items() if value}
