"""The host: operators of a stage in one shard. Opens the state, runs every kernel once, hands results on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.columns import CARRIED, LOG_ORDER, OFFSET, PARTITION, POSITION, RECEIVED, TIME, WATERMARK, own_column
from riverrun.errors import Corrupt
from riverrun.failpoints import failpoint
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.runtime.compile.job import Aside, Operator, with_carried
from riverrun.runtime.control import Control, Report
from riverrun.runtime.exchange import Exchange
from riverrun.runtime.packing import (
    CONTROL,
    ERROR,
    LATE,
    QUARANTINE,
    REPORT,
    Dispatch,
    Packer,
    Shard,
    arrived,
    as_stream,
    gather,
)
from riverrun.runtime.task import Tasks
from riverrun.state.directory import Entries
from riverrun.state.frames import beside, constant, from_arrow, numbers, take, to_arrow
from riverrun.state.order import is_ascending, lexicographic

_STAMP = pl.Datetime("us", "UTC")

Structs = Iterator[tuple[pa.RecordBatch, dict[str, pa.RecordBatch]]]


class Host:
    """Runs the operators of one epoch, in one shard after the other or in all of them at once."""

    def __init__(self, tasks: Tasks, exchange: Exchange, outbox: Dispatch) -> None:
        self._tasks = tasks
        self._job = tasks.job
        self._exchange = exchange
        self._outbox = outbox
        self.report = Report()

    def run(self, stage: int, number: int | None, shard: Shard) -> dict[str, pa.RecordBatch]:
        """All operators of a stage; `shard` is what was sent to the shard of this number, None: to all of them.

        Gives the rows that Spark has to compute with, by origin.
        """
        if shard.control is None:
            raise Corrupt(f"stage {stage + 1}, shard {number} of flow {self._job.flow} got rows but no control")
        waiting = {}
        for operator in self._job.stages[stage]:
            begun = time.perf_counter_ns()
            rows = self._step(operator, number, shard, shard.control)
            if rows is not None and self._job.in_spark(operator.id):
                waiting[operator.id] = rows
            self.report.spend(operator.id, (time.perf_counter_ns() - begun) // 1000)
        return waiting

    def _step(self, operator: Operator, number: int | None, shard: Shard, control: Control) -> pa.RecordBatch | None:
        entries = control.manifest.get(operator.id, {})
        clock = control.clock(operator)
        if number is None and self._is_idle(operator, shard, clock, entries):
            self.report.manifest[operator.id] = entries
            if operator.holds_watermark:
                self.report.hold(operator.id, control.watermark(operator.id)[1])
            failpoint("host.stepped")  # every epoch comes past, so that a test can say where to crash
            failpoint("host.committed")
            return None
        inputs = {name: self._input(operator, name, shard) for name in operator.inputs}
        directory = self._tasks.state(control.state)
        state = directory.open(entries, operator.kernel.tables, operator.id, number, self._job.shards)
        step = operator.kernel.step(state, inputs, clock)
        failpoint("host.stepped")
        self.report.manifest.setdefault(operator.id, {}).update(state.commit(control.epoch))
        failpoint("host.committed")
        for name, counts in step.counts.items():
            self.report.count(operator.id, name, asdict(counts))
        if step.figures:
            self.report.tell(operator.id, step.figures)
        if operator.holds_watermark and step.watermark is not None:
            self.report.hold(operator.id, step.watermark)
        for name, late in step.late.items():
            if len(late):
                self._outbox.message(number or 0, LATE, _late(operator.id, operator.late[name], late))
        for name, rows in step.quarantined.items():
            if len(rows):
                topic = operator.quarantined[name].topic
                self._outbox.message(number or 0, QUARANTINE, _quarantined(operator.id, topic, rows))
        if operator.withheld is not None and step.withheld is not None and len(step.withheld):
            self._outbox.message(number or 0, LATE, _withheld(operator.id, operator.withheld, step.withheld))
        return self._hand_on(operator, number, step.changes)

    def _is_idle(self, operator: Operator, shard: Shard, clock: EpochClock, entries: Entries) -> bool:
        """Whether a step would change nothing: nothing came in, and time did not pass or there is nothing to pass by."""
        if any(branch.index in shard.parts for branch in self._job.into_target[operator.id]):
            return False
        if clock.start == clock.end or not operator.timed:
            return True
        return not entries and not operator.holds_watermark

    def _input(self, operator: Operator, name: str, shard: Shard) -> pl.DataFrame:
        """All rows of one input, in the order of the log."""
        branches = [branch for branch in self._job.into_target[operator.id] if branch.input == name]
        tables = [arrived(branch, shard.parts.pop(branch.index, []), self._exchange) for branch in branches]
        frame = from_arrow(pa.concat_tables(tables))
        order = lexicographic(*(numbers(frame.get_column(name)) for name in LOG_ORDER if name in frame.columns))
        return frame if is_ascending(order) else take(frame, order)

    def _hand_on(self, operator: Operator, number: int | None, changes: pl.DataFrame) -> pa.RecordBatch | None:
        if not len(changes) or operator.id not in self._job.from_origin:
            return None
        given = [pl.Series(TIME, np.clip(numbers(changes.get_column(TIME)), MIN_TIME, MAX_TIME))]
        if PARTITION not in changes.columns:
            given.append(constant(PARTITION, number or 0, pl.Int32(), changes.height))
            given.append(pl.Series(OFFSET, np.arange(changes.height)))
        rows = to_arrow(beside(changes, given), with_carried(operator.output))
        for branch, projected in self._tasks.project(operator.id, rows):
            self._outbox.rows(branch, projected)
        return rows


def run_stage(
    tasks: Tasks, stage: int, batches: Iterable[pa.RecordBatch], connect: Callable[[int], Exchange]
) -> Structs:
    """The shards that one task of a stage was sent: what it packed, and rows that Spark has to compute with.

    `connect` gives the exchange of an epoch.
    """
    job = tasks.job
    shards = gather(batches)
    failpoint(f"task.stage-{stage + 1}")
    exchange = connect(next((shard.control.epoch for shard in shards.values() if shard.control), 0))
    packer = Packer(job.shards, exchange)
    host = Host(tasks, exchange, packer)
    waiting = []
    for number, shard in sorted(shards.items()):
        for kind, content in shard.messages:
            packer.message(number, kind, content)
        if any(kind == ERROR for kind, _ in shard.messages) or (shard.control is None and not shard.parts):
            continue
        waiting.append(host.run(stage, number, shard))
        for branch, parts in shard.parts.items():  # for later stages, or for the driver
            for part in parts:
                packer.part(number, branch, part)
        if stage + 1 < len(job.stages) or number == 0:  # the driver learns from one of them which epoch it was
            packer.message(number, CONTROL, msgspec.msgpack.encode(shard.control))
    packer.message(0, REPORT, msgspec.msgpack.encode(host.report))
    exchange.close()
    yield packer.batch(), {}
    yield from ((packer.batch(), rows) for rows in waiting if rows)


def _withheld(node: str, withheld: Aside, rows: pl.DataFrame) -> bytes:
    table = rows.select(*withheld.columns.names, pl.col(TIME).cast(_STAMP)).to_arrow()
    return msgspec.msgpack.encode((withheld.topic, node, as_stream(table)))


def _late(node: str, aside: Aside, late: pl.DataFrame) -> bytes:
    names = aside.columns.names[:-1]
    values = [pl.col(own_column(name) if own_column(name) in late.columns else name).alias(name) for name in names]
    table = late.select(*values, pl.col(WATERMARK).cast(_STAMP), pl.col(TIME).cast(_STAMP)).to_arrow()
    return msgspec.msgpack.encode((aside.topic, node, as_stream(table)))


def _quarantined(node: str, topic: str, rows: pl.DataFrame) -> bytes:
    own = [name for name in rows.columns if name not in (*CARRIED, RECEIVED)]
    nowhere = [] if POSITION in own else [pl.lit(None, pl.String).alias(POSITION)]
    table = rows.select(*own, *nowhere, pl.col(TIME).cast(_STAMP)).to_arrow()
    return msgspec.msgpack.encode((topic, node, as_stream(table)))
