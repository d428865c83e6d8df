"""A running flow: started, resumed, restarted after failures, drained, stopped."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from riverrun import ddl
from riverrun.durations import Duration, seconds
from riverrun.errors import Closed, Conflict, Fenced, TimedOut, Unavailable, did_you_mean
from riverrun.flow import Flow
from riverrun.flow.graph import InputTopic
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Start, Topic
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.commit import Committer, aside_specs, topic_spec, view_spec
from riverrun.runtime.job import Job, compile_flow
from riverrun.runtime.manifest import Manifest
from riverrun.spark.compile import analyser, streaming_frame
from riverrun.spark.session import cores, session
from riverrun.spark.source import Deployment

log = logging.getLogger("riverrun.spark")

_PAUSES = (0.5, 1, 2, 5, 10)  # after a failure; a run that fails this often in a row is given up


class Run:
    """One run of a flow. Processes in the background until it is stopped or drained; a context manager stops it."""

    def __init__(
        self,
        river: River,
        flow: Flow,
        start: Start = None,
        suffix: str = "",
        max_rows: int = 500_000,
    ) -> None:
        self.flow = flow
        self.name = flow.name + suffix
        self._river = river
        self._suffix = suffix
        self._home = f"{river.checkpoints}/{self.name}"
        os.makedirs(f"{self._home}/state", exist_ok=True)
        self._store = river.store
        self._spark = session(river.master)
        self._inputs = self._open_inputs()
        last = self._store.last(self.name)
        known = Manifest.decode(last.manifest) if last.manifest else None
        self._refuse_drained(known, last.positions)
        job = compile_flow(flow, known.shards if known else cores(), analyser(self._spark))
        self._refuse_changed(known, job)
        self._fence = self._store.take_fence(self.name)
        topics = self._open_outputs(job)
        self._committer = Committer(flow, job, self._store, topics, self._home, suffix, self._fence)
        self._deployment = Deployment(
            river=river.path,
            job=job,
            flow=self.name,
            home=self._home,
            views=river.views_address,
            start=self._start(start),
            max_rows=max_rows,
            slices=cores(),
        )
        if os.path.exists(self._deployment.finish_mark):
            os.unlink(self._deployment.finish_mark)
        self._failure: BaseException | None = None
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._query: Any = None
        self._start_query()
        self._watcher = threading.Thread(target=self._watch, name=f"riverrun-{self.name}", daemon=True)
        self._watcher.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def process(self, timeout: Duration | None = None) -> None:
        """Wait until everything appended before this call has taken effect."""
        wanted = Position({name: topic.latest[name] for name, topic in self._inputs.items()})
        self._wait(lambda: wanted <= Position(self._committer.last.positions), timeout, "process what was appended")

    def drain(self, timeout: Duration | None = None) -> None:
        """Treat the input as finished: close every window, commit, stop."""
        with open(self._deployment.finish_mark, "w", encoding="utf-8"):
            pass
        self._wait(self._is_final, timeout, "drain")
        self.stop()

    def stop(self) -> None:
        """Finish the epoch and stop. What was processed stays; the next run goes on from there."""
        if self._ended.is_set():
            return
        with self._taking:  # the epoch in progress is finished first
            self._stopping.set()
            self._query.stop()
        self._ended.wait(30)

    def status(self) -> dict[str, Any]:
        """Where the run is: epoch, positions, lag, the last epoch's times."""
        last = self._committer.last
        behind = {
            name: sum(
                max(offset - last.positions.get(name, {}).get(p, 0), 0) for p, offset in topic.latest[name].items()
            )
            for name, topic in self._inputs.items()
        }
        progress = self._query.lastProgress if self._query is not None else None
        return {
            "flow": self.name,
            "state": self._state(),
            "epoch": last.epoch,
            "fence": self._fence,
            "positions": str(Position(last.positions)),
            "lag": behind,
            "committed": last.committed,
            "times": dict(progress["durationMs"]) if progress else {},
        }

    def ledger(self) -> list[dict[str, Any]]:
        """Where every row went, in total."""
        return [dict(entry) for entry in self._committer.last.ledger or []]

    def _state(self) -> str:
        if self._failure is not None:
            return "failed"
        if self._is_final():
            return "drained"
        return "stopped" if self._ended.is_set() else "running"

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
        topics = {}
        for end in self.flow.derived.values():
            spec = topic_spec(job, end, self._suffix)
            topics[spec.name] = self._river.topic(spec)
        for spec in aside_specs(job, self._inputs, self._suffix):
            topics[spec.name] = self._river.topic(spec)
        for topic in topics.values():
            topic.raise_fence(self.name, self._fence)
        return topics

    def _refuse_drained(self, known: Manifest | None, positions: Mapping[str, Mapping[int, int]]) -> None:
        if known is None or not known.final:
            return
        raise Conflict(
            f"flow {self.name} was drained: its input was declared finished",
            hint="Rebuild it to take in new rows, or replay into other outputs with suffix=",
        )

    def _refuse_changed(self, known: Manifest | None, job: Job) -> None:
        if known is None:
            return
        now = {operator.id: operator.fingerprint for stage in job.stages for operator in stage}
        changed = sorted(node for node, print_ in now.items() if known.fingerprints.get(node, print_) != print_)
        fresh = sorted(node for node in now if node not in known.fingerprints)
        if changed or fresh:
            raise Conflict(
                f"flow {self.name} has changed since its last epoch: {', '.join([*changed, *fresh])}",
                hint="Run it under another name, or replay into other outputs with suffix=",
            )

    def _start_query(self) -> None:
        frame = streaming_frame(self._spark, self._deployment)
        self._query = (
            frame.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self._home}/checkpoint")
            .queryName(self.name)
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _take(self, frame: DataFrame, batch: int) -> None:
        with self._taking:
            if self._stopping.is_set():
                raise Closed(f"flow {self.name} is being stopped")
            if self._committer.is_committed(batch + 1):
                return
            try:
                self._committer.commit(frame.toArrow())
            except Fenced as error:  # somebody else runs the flow now: no retry
                self._failure = error
                raise

    # Keeping it running.

    def _watch(self) -> None:
        failures = 0
        epoch = self._committer.last.epoch
        try:
            while True:
                try:
                    self._query.awaitTermination()
                    return
                except PySparkException as error:
                    if self._stopping.is_set():
                        return
                    if self._failure is not None:
                        return
                    if self._committer.last.epoch > epoch:
                        failures, epoch = 0, self._committer.last.epoch
                    if failures >= len(_PAUSES):
                        self._failure = Unavailable(
                            f"flow {self.name} failed {failures + 1} times in a row at epoch {epoch + 1}: {_cause(error)}"
                        )
                        return
                    log.warning("flow %s failed, trying again in %s s: %s", self.name, _PAUSES[failures], _cause(error))
                    log.debug("%s", error)
                    if self._stopping.wait(_PAUSES[failures]):
                        return
                    failures += 1
                    self._start_query()
        finally:
            self._ended.set()


def _said(declared: InputTopic) -> dict[str, Any]:
    options = {"key": declared.key, "time": declared.time, "producers": declared.producers}
    return {name: value for name, value in options.items() if value}


def check_declared(declared: InputTopic, spec: TopicSpec) -> None:
    """`Conflict` when a flow says something else about a topic than the topic itself. A topic may have more columns."""
    assert isinstance(spec.schema, str)
    there = {column.name: column.type for column in ddl.parse(spec.schema)}
    for column in ddl.parse(declared.schema):
        if column.name not in there:
            hint = did_you_mean(column.name, there)
            raise Conflict(f"{declared.place}: topic {spec.name} has no column {column.name!r}", hint=hint)
        if there[column.name] != column.type:
            raise Conflict(
                f"{declared.place}: column {column.name!r} of topic {spec.name} is {there[column.name]}, not {column.type}"
            )
    if declared.key and tuple(declared.key) != tuple(spec.key):
        raise Conflict(f"{declared.place}: the key of topic {spec.name} is {list(spec.key)}, not {list(declared.key)}")


def _cause(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Exception" in line]
    return (told[-1] if told else lines[0] if lines else repr(error))[:500]
