"""Where an epoch begins: ranges of the log → rows as the first stage, the ends and SQL want them; sources' ledger.

Branches without SQL are packed here; rows for the others go on as one struct per source.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import CARRIED, OFFSET, PARTITION, TIME, WEIGHT
from riverrun.durations import show
from riverrun.kernels.watermark import ahead
from riverrun.log.topic import Topic
from riverrun.runtime.blob import CONTROL, LEDGER, QUARANTINE, WORK, Packer, picked
from riverrun.runtime.branch import PARTITIONS
from riverrun.runtime.host import Control
from riverrun.runtime.job import Branch, Job, Reading
from riverrun.runtime.manifest import state_before
from riverrun.runtime.planner import Plan
from riverrun.runtime.shape import Shape
from riverrun.views import Last

_BATCH_ROWS = 65536


@dataclass(frozen=True)
class Range:
    """Offsets of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def source_shape(job: Job) -> Shape:
    """The columns of the source."""
    return Shape(job, job.sources, are_sources=True)


def ranges(before: Plan, plan: Plan) -> list[Range]:
    """What an epoch reads."""
    return [
        Range(topic, p, before.positions[topic].get(p, 0), offset)
        for topic, parts in plan.positions.items()
        for p, offset in parts.items()
        if offset > before.positions[topic].get(p, 0)
    ]


def control(before: Plan, plan: Plan, last: Last, flow: str, state: str) -> Control:
    """The clock of an epoch, and the manifest that the epoch before it committed."""
    return Control(
        epoch=plan.epoch,
        received=plan.received,
        final=plan.final,
        watermarks=dict(plan.watermarks),
        positions={topic: dict(parts) for topic, parts in plan.positions.items()},
        manifest=state_before(last, before.epoch, flow),
        state=state,
        memory=plan.memory,
    )


def read(
    job: Job, topics: Mapping[str, Topic], parts: Sequence[Range], control: Control | None
) -> Iterator[pa.RecordBatch]:
    """Everything one task reads, in the columns of `source_shape`; with the controls of all shards in one of them."""
    shape = source_shape(job)
    if control is not None:
        yield shape.packed(_controls(control, job.shards))
    counts: dict[str, dict[str, int]] = {}
    worked: dict[str, int] = {}
    for part in parts:
        readings = [reading for reading in job.readings if reading.topic == part.topic]
        chunks = _chunks(topics[part.topic], part, _used(job, shape, readings))
        for rows in _timed(chunks, part.topic, worked):
            for reading in readings:
                yield from _seen(job, shape, reading, rows, counts.setdefault(reading.id, {}))
    packer = Packer(job.shards)
    for source, count in counts.items():
        packer.add(0, LEDGER, msgspec.msgpack.encode((source, "topic", count)))
    for topic, micros in worked.items():
        packer.add(0, WORK, msgspec.msgpack.encode((topic, micros)))
    yield shape.packed(packer.batch())


def _used(job: Job, shape: Shape, readings: Sequence[Reading]) -> list[str] | None:
    """The columns of a topic that its sources need; None: all of them, since rows may have to be put aside as they are."""
    if any(reading.max_skew is not None for reading in readings):
        return None
    used = ["_deleted", "_partition", "_offset"]
    for reading in readings:
        used += [reading.time, "_time"] if reading.time else ["_received"]
        if reading.origin in shape.structs:
            used += [*reading.columns.names, "_received", "_key"]
        for branch in _packed_here(job, reading):
            used += [item.column for item in branch.items if item.column and item.column not in CARRIED]
    return list(dict.fromkeys(used))


def _packed_here(job: Job, reading: Reading) -> list[Branch]:
    """The branches behind a source that need no SQL."""
    return [branch for branch in job.from_origin.get(reading.origin, ()) if branch.trivial]


def _seen(job: Job, shape: Shape, reading: Reading, rows: pa.Table, counts: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """The rows of a chunk as one source sees them."""
    packer = Packer(job.shards)
    good = _admitted(reading, rows, counts, packer)
    carried = _carried(reading, good) if good.num_rows else None
    if carried is not None:
        for branch in _packed_here(job, reading):
            packer.rows(branch, picked(carried, branch))
    blobs = packer.batch()
    if blobs.num_rows:
        yield shape.packed(blobs)
    if carried is not None and reading.origin in shape.structs:
        yield shape.rows(reading.origin, carried)


def _admitted(reading: Reading, rows: pa.Table, count: dict[str, int], packer: Packer) -> pa.Table:
    """Rows that the source lets in; the ledger gets the others. A stream does not see tombstones."""
    deleted = rows.column("_deleted").to_numpy()
    if not reading.is_table and deleted.any():
        rows = rows.filter(pa.array(~deleted))
    skewed: npt.NDArray[np.bool_] = np.zeros(rows.num_rows, np.bool_)
    if reading.max_skew is not None and reading.time is not None and rows.num_rows:
        times = _event_time(reading, rows).to_numpy()
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
    """Rows for the quarantine topic, each with where it stands and what is wrong with it."""
    assert reading.max_skew is not None
    error = f"{reading.time} is more than {show(reading.max_skew)} ahead of the time the row was received"
    places = [rows.column(name).cast(pa.string()) for name in ("_partition", "_offset")]
    position = pc.binary_join_element_wise(
        pc.binary_join_element_wise(f"{reading.topic}@", places[0], ""), places[1], ":"
    )
    rows = rows.append_column("_error", pa.array([error] * rows.num_rows, pa.string()))
    rows = rows.append_column("_position", position)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return msgspec.msgpack.encode((reading.topic, reading.id, bytes(sink.getvalue())))


def _event_time(reading: Reading, rows: pa.Table) -> pa.ChunkedArray:
    """Microseconds. Where the column is null (a tombstone of a table), the log's own time of the row."""
    times = rows.column(reading.time) if reading.time else rows.column("_received")
    return (pc.coalesce(times, rows.column("_time")) if times.null_count else times).cast(pa.int64())


def _carried(reading: Reading, rows: pa.Table) -> pa.RecordBatch:
    """The source's columns with event time, weight and order, as the job carries them."""
    size = rows.num_rows
    partition = rows.column("_partition").to_numpy().astype(np.int64) + reading.number * PARTITIONS
    columns = {
        **{name: rows.column(name) for name in rows.column_names},
        TIME: _event_time(reading, rows),
        WEIGHT: pa.array(np.ones(size, np.int8)),
        PARTITION: pa.array(partition.astype(np.int32)),
        OFFSET: rows.column("_offset"),
    }
    return pa.table(columns).combine_chunks().to_batches()[0]


def _timed(chunks: Iterator[pa.Table], topic: str, worked: dict[str, int]) -> Iterator[pa.Table]:
    """The same, and how long it took to get them, in microseconds."""
    while True:
        begun = time.perf_counter_ns()
        chunk = next(chunks, None)
        worked[topic] = worked.get(topic, 0) + (time.perf_counter_ns() - begun) // 1000
        if chunk is None:
            return
        yield chunk


def _chunks(topic: Topic, part: Range, columns: list[str] | None) -> Iterator[pa.Table]:
    """Rows of a range, small frames put together."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in topic.batches({part.partition: part.start}, {part.partition: part.end}, columns):
        pending.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _controls(whole: Control, shards: int) -> pa.RecordBatch:
    """The control for every shard, each with its own part of the manifest."""
    packer = Packer(shards)
    for shard in range(shards):
        mine = {
            node: {str(shard): entries[str(shard)]} for node, entries in whole.manifest.items() if str(shard) in entries
        }
        packer.add(shard, CONTROL, msgspec.msgpack.encode(msgspec.structs.replace(whole, manifest=mine)))
    return packer.batch()
