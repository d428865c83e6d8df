"""Where an epoch begins: ranges of the log → rows on their branches, and the ledger of the sources."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import DELETED, KEY, OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.kernels.kernel import MAX_TIME
from riverrun.log.topic import Topic
from riverrun.log.topic_backend import Contents, PromiseMade, Undecodable
from riverrun.runtime.compile.job import SQL_TYPES, Branch, Job, Reading
from riverrun.runtime.compile.row_id import partition_in_flow
from riverrun.runtime.control import Control, Report
from riverrun.runtime.device_clocks import clock_offsets
from riverrun.runtime.enveloped import open_messages
from riverrun.runtime.heard import columns_heard, heard_in_promises, heard_of
from riverrun.runtime.manifest import manifest_before
from riverrun.runtime.packing import QUARANTINE, Dispatch
from riverrun.runtime.plan import Plan
from riverrun.runtime.quarantine import admit, quarantine_message, undecodable_message
from riverrun.runtime.task import Tasks
from riverrun.views import Last

_BATCH_ROWS = 65536


@dataclass(frozen=True)
class Range:
    """Offsets of one partition."""

    topic: str
    partition: int
    start: int
    end: int


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
    start = manifest_before(last, before.epoch, flow)
    held = {} if start is None else start.watermarks
    if plan.final:
        held = {node: (was, MAX_TIME) for node, (was, _) in held.items()}
    return Control(
        epoch=plan.epoch,
        received=plan.received,
        final=plan.final,
        watermarks={**plan.watermarks, **held},
        positions={topic: dict(parts) for topic, parts in plan.positions.items()},
        manifest=start.nodes if start else {},
        state=state,
        memory=plan.memory,
    )


class LogSource:
    """Reads ranges of the log for one epoch: rows of all sources go into the outbox, along their branches."""

    def __init__(self, tasks: Tasks, topics: Mapping[str, Topic], outbox: Dispatch) -> None:
        self._tasks = tasks
        self._job = tasks.job
        self._topics = topics
        self._outbox = outbox
        self.report = Report()

    def read(self, parts: Sequence[Range]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Read. Gives the rows that Spark has to compute with, and the origin they are of."""
        for name, group in _by_topic(parts, self._topics):
            topic = self._topics[name]
            readings = [reading for reading in self._job.readings if reading.topic == name]
            chunks = _chunks(topic, group, _used(self._job, readings, topic.backend.has_headers))
            while True:
                begun = time.perf_counter_ns()
                chunk = next(chunks, None)
                self.report.spend(name, (time.perf_counter_ns() - begun) // 1000)
                if chunk is None:
                    break
                for reading in readings:
                    admitted = self._taken(reading, topic, chunk)
                    if admitted is not None:
                        yield reading.origin, admitted

    def _taken(self, reading: Reading, topic: Topic, chunk: _Chunk) -> pa.RecordBatch | None:
        """What a source makes of a chunk: its rows, and what else was among them."""
        if chunk.promises:
            self.report.hear(reading.id, heard_in_promises(reading, topic.spec, chunk.promises), reading.idle)
        if chunk.undecodable:
            message = undecodable_message(reading, topic.schema, chunk.undecodable)
            self._outbox.message(0, QUARANTINE, message)
            self.report.count(
                reading.id, "topic", {"read": len(chunk.undecodable), "quarantined": len(chunk.undecodable)}
            )
        return self._admitted(reading, topic, chunk.rows) if chunk.rows.num_rows else None

    def _admitted(self, reading: Reading, topic: Topic, rows: pa.Table) -> pa.RecordBatch | None:
        """Rows of a chunk as one source sees them, put on their branches. A stream does not see tombstones."""
        if not reading.is_table and (deleted := rows.column(DELETED).to_numpy()).any():
            rows = rows.filter(pa.array(~deleted))
        if reading.envelope is not None:
            good, refused = open_messages(reading, rows)
        else:
            good, refused = admit(reading, rows, _event_time(reading, rows))
        quarantined = refused.num_rows if refused is not None else 0
        if refused is not None:
            self._outbox.message(0, QUARANTINE, quarantine_message(reading, refused))
        # A message is one row read, whatever becomes of it: one that is about a changed key is two rows of the table.
        counts = {"read": rows.num_rows, "accepted": rows.num_rows - quarantined, "quarantined": quarantined}
        if reading.is_table:
            counts["deleted"] = int(good.column(DELETED).to_numpy().sum())
        self.report.count(reading.id, "topic", counts)
        if not good.num_rows:
            return None
        if not topic.backend.has_headers:
            for node, heard in heard_of(reading, topic.spec, good).items():
                self.report.hear(node, heard, reading.idle)
        for clock in reading.clocks:
            self.report.clocks.setdefault(clock.id, {}).update(clock_offsets(clock, good))
        carried = _carried(reading, good, _event_time(reading, good))
        for branch, projected in self._tasks.project(reading.origin, carried):
            self._outbox.rows(branch, projected)
        return carried if self._job.in_spark(reading.origin) else None


def _used(job: Job, readings: Sequence[Reading], has_headers: bool) -> list[str] | None:
    """The columns of a topic that its sources need; None: all of them, since rows may be quarantined as they are."""
    if any(reading.max_skew is not None or reading.envelope is not None for reading in readings):
        return None
    used = [DELETED, PARTITION, OFFSET]
    for reading in readings:
        used += [reading.time, TIME] if reading.time else [RECEIVED]
        used += [] if has_headers else columns_heard(reading)
        used += [name for clock in reading.clocks for name in (clock.sent, *clock.by, RECEIVED)]
        if job.in_spark(reading.origin):
            used += [*reading.columns.names, RECEIVED, KEY]
        for branch in job.in_arrow(reading.origin):
            used += _read_by(branch, reading)
    return list(dict.fromkeys(used))


def _read_by(branch: Branch, reading: Reading) -> list[str]:
    """The topic's columns that a branch reads."""
    texts = [item.sql for item in branch.items] + [text for text in (branch.condition, branch.time) if text]
    names = [*reading.fields.names, *(name for name in SQL_TYPES if name not in (TIME, PARTITION, OFFSET, WEIGHT))]
    return [name for name in names if any(f"`{name.replace('`', '``')}`" in text for text in texts)]


def _event_time(reading: Reading, rows: pa.Table) -> pa.ChunkedArray:
    """Microseconds. Where the column is null (a tombstone of a table), the log's own time of the row."""
    times = rows.column(reading.time) if reading.time else rows.column(RECEIVED)
    return (pc.coalesce(times, rows.column(TIME)) if times.null_count else times).cast(pa.int64())


def _carried(reading: Reading, rows: pa.Table, times: pa.ChunkedArray) -> pa.RecordBatch:
    """The source's columns with event time, weight and order, as the job carries them."""
    columns = {
        **{name: rows.column(name) for name in rows.column_names},
        TIME: times,
        WEIGHT: pa.array(np.ones(rows.num_rows, np.int8)),
        PARTITION: partition_in_flow(rows.column(PARTITION).to_numpy(), reading.number),
        OFFSET: rows.column(OFFSET),
    }
    return pa.table(columns).combine_chunks().to_batches()[0]


class _Chunk(NamedTuple):
    """Some rows of a topic, and what else lies among them."""

    rows: pa.Table
    promises: Sequence[PromiseMade]
    undecodable: Sequence[Undecodable]


def _by_topic(parts: Sequence[Range], topics: Mapping[str, Topic]) -> Iterator[tuple[str, list[Range]]]:
    """What is read together: a range; or all partitions of a topic that is far away, where each would be waited for."""
    for name, group in groupby(parts, lambda part: part.topic):
        if topics[name].backend.has_headers:
            yield from ((name, [part]) for part in group)
        else:
            yield name, list(group)


def _chunks(topic: Topic, parts: Sequence[Range], columns: list[str] | None) -> Iterator[_Chunk]:
    """Rows of ranges of several partitions, small frames put together."""
    start, end = {part.partition: part.start for part in parts}, {part.partition: part.end for part in parts}
    assert len(start) == len(parts), "two ranges of one partition"  # one of them would not be read
    pending: list[Contents] = []
    rows = 0
    for contents in topic.backend.contents(start, end, columns):
        pending.append(contents)
        rows += contents.rows.num_rows
        if rows >= _BATCH_ROWS:
            yield _chunk(pending)
            pending, rows = [], 0
    if pending:
        yield _chunk(pending)


def _chunk(parts: Sequence[Contents]) -> _Chunk:
    return _Chunk(
        pa.Table.from_batches([part.rows for part in parts]),
        [promise for part in parts for promise in part.promises],
        [message for part in parts for message in part.undecodable],
    )
