"""Where an epoch begins: ranges of the log → rows on their branches, and the ledger of the sources."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import DELETED, KEY, OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.kernels.kernel import MAX_TIME
from riverrun.log.topic import Topic
from riverrun.runtime.compile.job import SQL_TYPES, Branch, Job, Reading
from riverrun.runtime.compile.row_id import partition_in_flow
from riverrun.runtime.control import Control, Report
from riverrun.runtime.device_clocks import clock_offsets
from riverrun.runtime.enveloped import open_messages
from riverrun.runtime.manifest import manifest_before
from riverrun.runtime.packing import QUARANTINE, Dispatch
from riverrun.runtime.plan import Plan
from riverrun.runtime.quarantine import admit, quarantine_message
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
        for part in parts:
            readings = [reading for reading in self._job.readings if reading.topic == part.topic]
            chunks = _chunks(self._topics[part.topic], part, _used(self._job, readings))
            while True:
                begun = time.perf_counter_ns()
                rows = next(chunks, None)
                self.report.spend(part.topic, (time.perf_counter_ns() - begun) // 1000)
                if rows is None:
                    break
                for reading in readings:
                    admitted = self._admitted(reading, rows)
                    if admitted is not None:
                        yield reading.origin, admitted

    def _admitted(self, reading: Reading, rows: pa.Table) -> pa.RecordBatch | None:
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
        for clock in reading.clocks:
            self.report.clocks.setdefault(clock.id, {}).update(clock_offsets(clock, good))
        carried = _carried(reading, good, _event_time(reading, good))
        for branch, projected in self._tasks.project(reading.origin, carried):
            self._outbox.rows(branch, projected)
        return carried if self._job.in_spark(reading.origin) else None


def _used(job: Job, readings: Sequence[Reading]) -> list[str] | None:
    """The columns of a topic that its sources need; None: all of them, since rows may be quarantined as they are."""
    if any(reading.max_skew is not None or reading.envelope is not None for reading in readings):
        return None
    used = [DELETED, PARTITION, OFFSET]
    for reading in readings:
        used += [reading.time, TIME] if reading.time else [RECEIVED]
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
