"""All topics of a flow as one streaming source, through Spark's Python data source API.

The driver's planner process decides each epoch; the plan is the source's offset. Tasks read slices of the log; the
first slice carries the control row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from riverrun.failpoints import failpoint
from riverrun.log.topic import Topic
from riverrun.runtime import bounds
from riverrun.runtime.checkpoint import check_same
from riverrun.runtime.control import Control
from riverrun.runtime.due import due_rows
from riverrun.runtime.epoch import compute_epoch, pack_result
from riverrun.runtime.exchange import Exchange
from riverrun.runtime.home import planner_place
from riverrun.runtime.manifest import manifest_before
from riverrun.runtime.packing import CONTROL, REPORT, Packer
from riverrun.runtime.patience import Patience
from riverrun.runtime.plan import Plan
from riverrun.runtime.planner import Heard, Planner
from riverrun.runtime.source import LogSource, Range, control, ranges
from riverrun.runtime.transactions import WholeTransactions
from riverrun.runtime.transit import leave_error, report_errors
from riverrun.spark.deployment import Deployment, worker
from riverrun.spark.structs import Structs
from riverrun.views import Last, open_store

_PATIENCE = 0.5  # how long the planner waits for rows before it says "nothing new"; ended by new rows at once
_GLANCE = 0.05  # seconds between two looks at how far a rebuild may read
_LEAST = 32768  # rows for which another task is worth it
_TRIES = 5  # of asking the home store; the run waits for longer, and says so


class Slice(InputPartition):  # type: ignore[misc]
    """Some ranges of the log, read by one task; the first slice carries the control.

    The only slice of a small epoch is `whole`: its task computes all of it.
    """

    def __init__(self, ranges: list[Range], control: bytes | None, epoch: int, whole: bool) -> None:
        super().__init__(epoch)
        self.ranges = ranges
        self.control = control
        self.epoch = epoch
        self.whole = whole


class LogPlanner:
    """The driver's side of the source: plans epochs, in a process of its own."""

    def __init__(self, deployment: Deployment, topics: Mapping[str, Topic], transactions: Mapping[str, Topic]) -> None:
        self._deployment = deployment
        self._whole = WholeTransactions(topics, transactions)
        self._topics = topics
        self._planner = Planner(
            deployment.job,
            topics,
            planner_place(deployment.home),
            deployment.limit,
            transactions=transactions,
            heard=lru_cache(maxsize=1)(self._heard),
        )

    def first(self) -> Plan:
        """Before the first epoch."""
        return self._planner.first(self._deployment.start)

    def next(self, plan: Plan) -> Plan:
        """The epoch after `plan`, waited for a little; `plan` itself when there is none."""
        planner = self._planner
        deadline = time.monotonic() + _PATIENCE
        while True:
            following = planner.next(plan, **self._bounds())
            if following is None and plan.epoch == 0:
                following = planner.empty(plan)  # Spark's first batch is one, whatever is answered here
            if following is not None:
                return following
            left = deadline - time.monotonic()
            if left <= 0:
                return plan
            if self._deployment.rebuild is not None:  # rows are not what it waits for
                time.sleep(min(left, _GLANCE))
                continue
            due = planner.deadline(plan)
            if due is not None:
                left = min(left, max(due / 1e6 - time.time(), 0.001))
            _wait(self._whole, plan, left)

    def _bounds(self) -> dict[str, Any]:
        """How far the next epoch may read, and whether the input ends."""
        deployment = self._deployment
        if deployment.rebuild is not None:
            return {"until": bounds.read_positions(bounds.until(deployment.home)) or {}}
        return {
            "finish": os.path.exists(deployment.finish_mark),
            "together": bounds.read_positions(bounds.together(deployment.home)),
        }

    def slices(self, before: Plan, plan: Plan) -> list[Slice]:
        """What the tasks of an epoch are told."""
        if plan.epoch == before.epoch:
            return []
        if plan.begin is not None:
            before = replace(before, positions=plan.begin)
        failpoint("plan.logged")
        job, slices = self._deployment.job, self._deployment.slices
        parts = balance(ranges(before, plan), slices, self._topics)
        control = self._control(before, plan)
        if len(parts) < slices and due_rows(job, control) > _LEAST:
            parts += [[] for _ in range(slices - len(parts))]  # little is read, but much has to be done
        told = msgspec.msgpack.encode(control)
        whole = len(parts) == 1 and not job.needs_spark
        return [Slice(part, None if number else told, plan.epoch, whole) for number, part in enumerate(parts)]

    def _control(self, before: Plan, plan: Plan) -> Control:
        flow = self._deployment.flow
        last = Patience(f"flow {flow}", tries=_TRIES).through(self._last)
        if before.epoch and before.epoch == last.epoch:
            check_same(before.positions, last, flow)
        return control(before, plan, last, flow, self._deployment.state)

    def _heard(self, epoch: int) -> Heard:
        """What the commit of an epoch says that its rows have told."""
        last = Patience(f"flow {self._deployment.flow}", tries=_TRIES).through(self._last)
        manifest = manifest_before(last, epoch, self._deployment.flow)
        return {} if manifest is None else manifest.heard

    def _last(self) -> Last:
        with open_store(self._deployment.views, create=False) as store:
            return store.last(self._deployment.flow, self._deployment.rebuild)


class LogReader(DataSourceStreamReader):  # type: ignore[misc]
    """The source as Spark calls it: in the planner's process, and in the tasks."""

    def __init__(self, packed: bytes) -> None:
        self._worker = worker(packed)
        self._planner: LogPlanner | None = None

    @property
    def planner(self) -> LogPlanner:
        if self._planner is None:
            topics = self._worker.topics()
            self._planner = LogPlanner(self._worker.deployment, topics, self._worker.transactions(topics))
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        with leave_error(self._worker.deployment.planner_error):
            return self.planner.first().to_json()

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        with leave_error(self._worker.deployment.planner_error):
            return self.planner.next(Plan.from_json(start)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with leave_error(self._worker.deployment.planner_error):
            return list(self.planner.slices(Plan.from_json(start), Plan.from_json(end)))

    def commit(self, end: dict[str, Any]) -> None:
        return

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        job = self._worker.tasks.job
        structs = Structs.of_sources(job)
        for batch in report_errors(self._read(partition), job.shards):
            yield batch if batch.schema.equals(structs.schema) else structs.packed(batch)

    def _read(self, partition: Slice) -> Iterator[pa.RecordBatch]:
        control = msgspec.msgpack.decode(partition.control, type=Control) if partition.control is not None else None
        exchange = self._worker.deployment.connect(partition.epoch)
        if partition.whole:
            assert control is not None
            result = compute_epoch(self._worker.tasks, self._worker.topics(), partition.ranges, control)
            yield pack_result(result, exchange)
        else:
            yield from self._read_slice(partition, control, exchange)
        exchange.close()

    def _read_slice(self, partition: Slice, control: Control | None, exchange: Exchange) -> Iterator[pa.RecordBatch]:
        job = self._worker.tasks.job
        structs = Structs.of_sources(job)
        packer = Packer(job.shards, exchange)
        failpoint("task.read")
        if control is not None:
            for shard in range(job.shards):
                packer.message(shard, CONTROL, msgspec.msgpack.encode(control.of_shard(shard)))
        source = LogSource(self._worker.tasks, self._worker.topics(), packer)
        for origin, rows in source.read(partition.ranges):
            yield structs.packed(packer.batch())
            yield structs.rows(origin, rows)
        packer.message(0, REPORT, msgspec.msgpack.encode(source.report))
        yield structs.packed(packer.batch())


def balance(ranges: list[Range], slices: int, topics: Mapping[str, Topic]) -> list[list[Range]]:
    """At most `slices` lists of about the same number of rows; there is always one, for the control."""
    counts = [_count(topics[part.topic], part) for part in ranges]
    share = max(-(-sum(counts) // slices), _LEAST)
    out: list[list[Range]] = [[]]
    room = share
    for part, count in zip(ranges, counts, strict=True):
        grain = topics[part.topic].backend.grain
        at = part.start
        while at < part.end:
            if room <= 0:
                out.append([])
                room = share
            reach = at + (part.end - part.start) * room // max(count, 1)  # offsets that have so many rows
            step = min(part.end, max(reach // grain * grain, (at // grain + 1) * grain)) - at
            before = (
                out[-1][-1] if out[-1] and at > part.start else None
            )  # what was rounded down may go on in the same list
            if before is None:
                out[-1].append(Range(part.topic, part.partition, at, at + step))
            else:
                out[-1][-1] = replace(before, end=at + step)
            at += step
            room -= -(-step * count // (part.end - part.start))
    return out


def _count(topic: Topic, part: Range) -> int:
    return topic.backend.count({part.partition: part.start}, {part.partition: part.end})


def _wait(topics: WholeTransactions, plan: Plan, timeout: float) -> None:
    from riverrun.log.wake import Bell

    def more() -> bool:
        return any(
            offset > plan.positions[name].get(p, 0)
            for name, parts in topics.ends().items()
            for p, offset in parts.items()
        )

    with Bell() as bell:
        topics.attach(bell)
        bell.wait_until(more, timeout)
