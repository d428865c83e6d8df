"""All topics of a flow as one streaming source, through Spark's Python data source API.

The driver's planner process decides each epoch; the plan is the source's offset. Tasks read record batches from the log,
pack what needs no SQL by shard, and send the rest as one struct per source. The first slice carries the control row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from riverrun.kernels.watermark import ahead
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.runtime.blob import CONTROL, LEDGER, QUARANTINE, Packer, picked
from riverrun.runtime.branch import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.runtime.host import Control
from riverrun.runtime.job import RAW, Job, Reading
from riverrun.runtime.manifest import state_before
from riverrun.runtime.planner import Plan, Planner
from riverrun.runtime.shape import Shape
from riverrun.views.places import open_store

_PATIENCE = 0.5  # how long the planner waits for rows before it says "nothing new"; ended by new rows at once
_BATCH_ROWS = 65536
_PARTITIONS = 1024  # a topic has fewer; see Reading.number


@dataclass(frozen=True)
class Deployment:
    """What the source needs to find everything; travels to the planner and to the tasks."""

    river: str
    job: Job
    flow: str  # its name, with the suffix of a replay
    home: str  # the flow's own directory
    views: str  # the home store's address
    start: Mapping[str, Mapping[int, int]] | None
    max_rows: int
    slices: int

    @property
    def state(self) -> str:
        return f"{self.home}/state"

    @property
    def finish_mark(self) -> str:
        """A file whose presence asks the planner to end the input."""
        return f"{self.home}/finish"


@dataclass(frozen=True)
class Range:
    topic: str
    partition: int
    start: int
    end: int


class Slice(InputPartition):  # type: ignore[misc]
    """Some ranges of the log, read by one task; the first slice carries the controls of all shards."""

    def __init__(self, ranges: list[Range], control: bytes | None, epoch: int) -> None:
        super().__init__(epoch)
        self.ranges = ranges
        self.control = control


class LogReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._opened: tuple[Planner, dict[str, Topic]] | None = None

    # In the planner process.

    def initialOffset(self) -> dict[str, Any]:
        planner, _ = self._open()
        return planner.first(self._deployment.start).to_json()

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        planner, topics = self._open()
        plan = Plan.from_json(start)
        deadline = time.monotonic() + _PATIENCE
        while True:
            following = planner.next(plan, finish=os.path.exists(self._deployment.finish_mark))
            if following is not None:
                return following.to_json()
            left = deadline - time.monotonic()
            if left <= 0:
                return start
            due = planner.deadline(plan)
            if due is not None:
                left = min(left, max(due / 1e6 - time.time(), 0.001))
            _wait(topics, plan, left)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, plan = Plan.from_json(start), Plan.from_json(end)
        if plan.epoch == before.epoch:
            return []
        ranges = [
            Range(topic, p, before.positions[topic].get(p, 0), offset)
            for topic, parts in plan.positions.items()
            for p, offset in parts.items()
            if offset > before.positions[topic].get(p, 0)
        ]
        slices = _balanced(ranges, self._deployment.slices)
        control = msgspec.msgpack.encode(self._control(before, plan))
        return [Slice(part, control if i == 0 else None, plan.epoch) for i, part in enumerate(slices)]

    def commit(self, end: dict[str, Any]) -> None:
        return

    def _control(self, before: Plan, plan: Plan) -> Control:
        """The clock of the epoch, and the manifest that the epoch before it committed."""
        with open_store(self._deployment.views) as store:
            manifest = state_before(store.last(self._deployment.flow), before.epoch, self._deployment.flow)
        return Control(
            epoch=plan.epoch,
            received=plan.received,
            final=plan.final,
            watermarks=dict(plan.watermarks),
            positions={topic: dict(parts) for topic, parts in plan.positions.items()},
            manifest=manifest,
            state=self._deployment.state,
        )

    def _open(self) -> tuple[Planner, dict[str, Topic]]:
        if self._opened is None:
            topics = _topics(self._deployment)
            planner = Planner(
                self._deployment.job, topics, f"{self._deployment.home}/planner", self._deployment.max_rows
            )
            self._opened = (planner, topics)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {"_deployment": self._deployment, "_opened": None}

    # In the tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        job = self._deployment.job
        shape = source_shape(job)
        if partition.control is not None:
            yield shape.packed(_controls(partition.control, job.shards))
        topics = _topics(self._deployment, {part.topic for part in partition.ranges})
        counts: dict[str, dict[str, int]] = {}
        for part in partition.ranges:
            readings = [reading for reading in job.readings if reading.topic == part.topic]
            for rows in _chunks(topics[part.topic], part):
                for reading in readings:
                    yield from _seen(job, shape, reading, rows, counts.setdefault(reading.id, {}))
        packer = Packer(job.shards)
        for source, count in counts.items():
            packer.add(0, LEDGER, msgspec.msgpack.encode((source, "topic", count)))
        yield shape.packed(packer.batch())


def source_shape(job: Job) -> Shape:
    """The columns of the source."""
    return Shape(job, {reading.id: reading.columns for reading in job.readings}, are_sources=True)


def _seen(job: Job, shape: Shape, reading: Reading, rows: pa.Table, counts: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """The rows of a chunk as one source sees them."""
    packer = Packer(job.shards)
    good = _admitted(reading, rows, counts, packer)
    carried = _carried(reading, good) if good.num_rows else None
    if carried is not None:
        origin = reading.id + RAW if reading.is_table else reading.id
        for branch in job.from_origin.get(origin, ()):
            if branch.trivial:
                packer.rows(branch, picked(carried, branch))
    blobs = packer.batch()
    if blobs.num_rows:
        yield shape.packed(blobs)
    if carried is not None and reading.id in shape.structs:
        yield shape.rows(reading.id, carried)


def _admitted(reading: Reading, rows: pa.Table, count: dict[str, int], packer: Packer) -> pa.Table:
    """Rows that the source lets in; the ledger gets the others. A stream does not see tombstones."""
    deleted = rows.column("_deleted").to_numpy()
    if not reading.is_table and deleted.any():
        rows = rows.filter(pa.array(~deleted))
    skewed = np.zeros(rows.num_rows, np.bool_)
    if reading.max_skew is not None and rows.num_rows:
        times = rows.column("_time").cast(pa.int64()).to_numpy()
        skewed = ahead(times, rows.column("_received").cast(pa.int64()).to_numpy(), reading.max_skew)
    quarantined = int(skewed.sum())
    if quarantined:
        packer.add(0, QUARANTINE, _quarantined(reading, rows.filter(pa.array(skewed))))
        rows = rows.filter(pa.array(~skewed))
    for name, number in (
        ("read", rows.num_rows + quarantined),
        ("accepted", rows.num_rows),
        ("quarantined", quarantined),
    ):
        count[name] = count.get(name, 0) + number
    return rows


def _quarantined(reading: Reading, rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return msgspec.msgpack.encode((reading.topic, reading.id, bytes(sink.getvalue())))


def _carried(reading: Reading, rows: pa.Table) -> pa.RecordBatch:
    """The source's columns with event time, weight and order, as the job carries them."""
    size = rows.num_rows
    time_column = rows.column(reading.time) if reading.time else rows.column("_received")
    if reading.time and time_column.null_count:  # a tombstone of a table
        time_column = rows.column("_time")
    partition = rows.column("_partition").to_numpy().astype(np.int64) + reading.number * _PARTITIONS
    columns = {
        **{name: rows.column(name) for name in reading.columns.names},
        "_deleted": rows.column("_deleted"),
        "_received": rows.column("_received"),
        "_key": rows.column("_key"),
        TIME: time_column.cast(pa.int64()),
        WEIGHT: pa.array(np.ones(size, np.int8)),
        PARTITION: pa.array(partition.astype(np.int32)),
        OFFSET: rows.column("_offset"),
    }
    return pa.table(columns).combine_chunks().to_batches()[0]


def _chunks(topic: Topic, part: Range) -> Iterator[pa.Table]:
    """Rows of a range, small frames put together."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in topic.batches({part.partition: part.start}, {part.partition: part.end}):
        pending.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _controls(control: bytes, shards: int) -> pa.RecordBatch:
    """The control for every shard, each with its own part of the manifest."""
    whole = msgspec.msgpack.decode(control, type=Control)
    packer = Packer(shards)
    for shard in range(shards):
        mine = {
            node: {str(shard): entries[str(shard)]} for node, entries in whole.manifest.items() if str(shard) in entries
        }
        packer.add(shard, CONTROL, msgspec.msgpack.encode(msgspec.structs.replace(whole, manifest=mine)))
    return packer.batch()


def _balanced(ranges: list[Range], slices: int) -> list[list[Range]]:
    """At most `slices` lists of about the same number of offsets; there is always one, for the control."""
    total = sum(part.end - part.start for part in ranges)
    share = max(-(-total // slices), 16384)
    out: list[list[Range]] = [[]]
    room = share
    for part in ranges:
        at = part.start
        while at < part.end:
            if room <= 0:
                out.append([])
                room = share
            step = min(part.end - at, room)
            out[-1].append(Range(part.topic, part.partition, at, at + step))
            at += step
            room -= step
    return out


def _topics(deployment: Deployment, names: set[str] | None = None) -> dict[str, Topic]:
    """Topics opened once per process: workers are used again by later epochs."""
    key = (os.getpid(), deployment.river)
    if key not in _rivers:
        _rivers.clear()
        _rivers[key] = River(deployment.river)
    wanted = {reading.topic for reading in deployment.job.readings}
    return {name: _rivers[key].topic(name) for name in sorted(wanted if names is None else names)}


_rivers: dict[tuple[int, str], River] = {}


def _wait(topics: Mapping[str, Topic], plan: Plan, timeout: float) -> None:
    from riverrun.log.wake import Bell

    def more() -> bool:
        return any(
            offset > plan.positions[name].get(p, 0)
            for name, topic in topics.items()
            for p, offset in topic.latest[name].items()
        )

    with Bell([f"{topic.directory}/wake" for topic in topics.values()]) as bell:  # type: ignore[attr-defined]
        bell.wait_until(more, timeout)


def source_name(flow: str) -> str:
    """What the source of a flow is called in Spark; one session may run several."""
    return "riverrun_" + flow.encode().hex()


def log_source(deployment: Deployment) -> type[DataSource]:
    """A data source class for one flow; Spark pickles it, and the deployment with it."""
    from pyspark.sql.types import StructType

    from riverrun.spark.types import spark_schema

    schema: StructType = spark_schema(source_shape(deployment.job).schema)

    class LogSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return source_name(deployment.flow)

        def schema(self) -> StructType:
            return schema

        def streamReader(self, schema: StructType) -> LogReader:
            return LogReader(deployment)

    return LogSource
