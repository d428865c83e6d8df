"""A flow run in this process, without Spark: log and clock in memory, kernels, epochs and commits as they are.

Only Spark is missing: an epoch is computed as small ones are under Spark, whole, in one task.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import failpoints
from riverrun.durations import micros, to_micros
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.analysis import sources
from riverrun.log.memory import MemoryLog
from riverrun.log.spec import TopicSpec
from riverrun.runtime import source
from riverrun.runtime.commit import Committer
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.epoch import compute_epoch
from riverrun.runtime.ledger import entries
from riverrun.runtime.manifest import manifest_before
from riverrun.runtime.opening import topic_of
from riverrun.runtime.outputs import declare_views, output_specs
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Heard, Planner
from riverrun.runtime.task import Tasks
from riverrun.testing.result import EpochSeen, Result, appendable, moment, topic_rows, view_changes, view_rows
from riverrun.testing.script import Advance, Append, Crash, Delete, Process, Step, Tick
from riverrun.views import open_store

_SECOND = 1_000_000
_SHARED_MEMORY = "/dev/shm"  # files that need not outlive the run
_BEGINNING = 1_767_225_600 * _SECOND  # 2026-01-01, for flows without event time


class VirtualClock:
    """The time at which rows are received. Unless it was set, it follows the rows: never behind one's event time.

    No two appends are received in the same microsecond.
    """

    def __init__(self, now: datetime | None) -> None:
        self._follows = now is None
        self.now = to_micros(now) if now is not None else _BEGINNING

    def __call__(self) -> int:
        return self.now

    def pass_by(self, duration: int) -> None:
        self.now += duration

    def hear(self, times: pa.ChunkedArray | pa.Array) -> None:
        """Rows with these event times are about to arrive."""
        self.now += 1
        if self._follows and len(times):
            latest = pc.max(times.cast(pa.int64())).as_py()
            self.now = max(self.now, latest if latest is not None else self.now)


class LocalRun:
    """One flow and its log, driven step by step."""

    def __init__(
        self, flow: Flow, topics: Iterable[TopicSpec], now: datetime | None, shards: int, partitions: int, max_rows: int
    ) -> None:
        self._flow = flow
        self._shards = shards
        self._max_rows = max_rows
        self._clock = VirtualClock(now)
        self._log = MemoryLog(clock=self._clock)
        self._inputs = {spec.name: self._log.topic(spec) for spec in input_specs(flow, topics, partitions)}
        self._partitions = partitions
        self._plans: list[str] = []  # as Spark keeps them, before an epoch is computed
        self._computed = EpochSeen(0, {}, [], False)
        self._seen: list[EpochSeen] = []
        self._crash: str | None = None
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        memory = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        home = tempfile.TemporaryDirectory(prefix="riverrun-testing-", dir=memory, ignore_cleanup_errors=True)
        self._home = self._opened.enter_context(home)
        self._opened.callback(self._log.close)
        self._opened.callback(failpoints.arm, "")
        try:
            self._start()
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def _start(self) -> None:
        """What a run does when it starts, from nothing or from what an earlier one left."""
        flow = self._flow
        self._store = self._opened.enter_context(open_store(f"{self._home}/views.db"))
        self._job = compile_flow(flow, self._shards)
        self._tasks = Tasks(self._job)
        fence = self._store.take_fence(flow.name)
        declare_views(self._store, flow, self._job, fence)
        specs = output_specs(flow, self._job, self._inputs, "")
        self._outputs = {spec.name: self._log.topic(_in_partitions(spec, self._partitions)) for spec in specs}
        for topic in self._outputs.values():
            topic.raise_fence(flow.name, fence)
        self._committer = Committer(flow, self._job, self._store, self._outputs, self._home, "", fence)
        read = {reading.topic: self._inputs[reading.topic] for reading in self._job.readings}
        limit = Limit(self._max_rows)
        self._planner = Planner(self._job, read, f"{self._home}/planner", limit, self._clock, heard=self._heard)
        if not self._plans:
            self._plans.append(json.dumps(self._planner.first().to_json()))

    def take(self, step: Step) -> None:
        """One step of a script."""
        match step:
            case Append(topic, rows, after):
                self._clock.pass_by(micros(after))
                self._append(topic, rows)
            case Process():
                self._process()
            case Delete(topic, key):
                self._clock.pass_by(1)
                self._inputs[topic].delete(key)
                self._process()
            case Advance(topic, producer, time):
                self._clock.pass_by(1)
                self._inputs[topic].advance(producer, time)
                self._process()
            case Tick():
                self._clock.pass_by(step.micros)
                self._process()
            case Crash(None):
                self._restart()
            case Crash(at):
                self._crash = at
                failpoints.arm(f"{at}=crash")
            case Mapping():
                for topic, rows in step.items():
                    self._append(topic, rows)
                self._process()

    def drain(self) -> None:
        """The end of the input."""
        self._process(finish=True)

    def result(self) -> Result:
        if self._crash is not None:
            raise Invalid(
                f"no epoch came past the failpoint {self._crash!r}", hint="Is it spelled so, and is one after it?"
            )
        flow, store = self._flow, self._store
        return Result(
            views={name: view_rows(store, name) for name in flow.views},
            topics={name: topic_rows(topic) for name, topic in self._outputs.items()},
            ledger=[dict(entry) for entry in self._committer.last.ledger or []],
            watermarks=watermarks(Plan.from_json(json.loads(self._plans[-1])), flow),
            changes={name: view_changes(store, name, len(self._seen)) for name in flow.views},
            epochs=self._seen,
        )

    def _append(self, topic: str, rows: Any) -> None:
        opened = self._inputs[topic]
        batch = opened.checked(appendable(rows, opened.spec))
        times = (self._flow.topics()[topic].time, opened.spec.time, "_time")
        time = next((name for name in times if name in batch.schema.names), None)
        self._clock.hear(batch.column(time) if time else pa.array([], pa.int64()))
        if batch.num_rows:
            opened.backend.append(batch, None)

    def _process(self, finish: bool = False) -> None:
        while True:
            try:
                plan = Plan.from_json(json.loads(self._plans[-1]))
                if self._committer.is_committed(plan.epoch):
                    following = self._planner.next(plan, finish)
                    if following is None:
                        return
                    self._plans.append(json.dumps(following.to_json()))
                self._epoch(*(Plan.from_json(json.loads(text)) for text in self._plans[-2:]))
            except failpoints.Crashed:
                self._crash = None
                self._restart()
            if len(self._seen) < self._computed.number <= self._committer.last.epoch:
                self._seen.append(self._computed)

    def _restart(self) -> None:
        failpoints.arm("")
        self._store.close()
        self._start()

    def _heard(self, epoch: int) -> Heard:
        last = self._store.last(self._flow.name)
        manifest = manifest_before(last, epoch, self._flow.name)
        return manifest.heard if manifest else {}

    def _epoch(self, before: Plan, plan: Plan) -> None:
        last = self._store.last(self._flow.name)
        control = source.control(before, plan, last, self._flow.name, f"{self._home}/state")
        result = compute_epoch(self._tasks, self._inputs, source.ranges(before, plan), control)
        ledger = entries(self._job, result.report.counts)
        self._computed = EpochSeen(plan.epoch, watermarks(plan, self._flow), ledger, plan.final)
        self._committer.check(result)
        self._committer.apply(result)


def watermarks(plan: Plan, flow: Flow) -> dict[str, datetime | None]:
    """How far event time has come at the end of an epoch, by topic: of several readings the slowest."""
    topics = {source.id: source.topic for source in sources(flow.nodes)}
    found: dict[str, int] = {}
    for name, (_, end) in plan.watermarks.items():
        topic = topics.get(name, name)
        found[topic] = min(found.get(topic, end), end)
    return {name: moment(value) for name, value in found.items()}


def input_specs(flow: Flow, given: Iterable[TopicSpec], partitions: int) -> list[TopicSpec]:
    """The topics a flow reads, as `given` says or else as the flow does."""
    said = {spec.name: spec for spec in given}
    specs = [said.get(name) or topic_of(declared) for name, declared in flow.topics().items()]
    return [_in_partitions(spec, partitions) for spec in specs]


def _in_partitions(spec: TopicSpec, partitions: int) -> TopicSpec:
    return spec if isinstance(spec.partitions, int) else replace(spec, partitions=partitions)
