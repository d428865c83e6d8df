"""The host: one shard of one stage in one epoch. Opens the state, runs every kernel once, hands results on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from riverrun.columns import LOG_ORDER, OFFSET, PARTITION, RECEIVED, TIME, WATERMARK, WEIGHT
from riverrun.errors import Corrupt
from riverrun.failpoints import failpoint
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.watermark import combined, delayed
from riverrun.runtime.blob import CONTROL, LATE, LEDGER, MANIFEST, WORK, Packer, carried, picked, rows_of, to_arrow
from riverrun.runtime.job import Job, Operator
from riverrun.state.directory import StateDirectory


class Control(msgspec.Struct):
    """What a shard is told about the epoch: its clock, and the state it starts from."""

    epoch: int
    received: int
    final: bool
    watermarks: dict[str, tuple[int, int]]  # source id → watermark at the epoch's start and end
    positions: dict[str, dict[int, int]]  # where the epoch's input ends
    manifest: dict[str, dict[str, Any]]  # node id → shard → entry
    state: str  # where the state files are
    memory: str | None = None  # what the planner remembers after the epoch

    def clock(self, operator: Operator) -> EpochClock:
        """The node's own clock: the smallest of its sources' watermarks, each minus the delay on the way."""

        def at(which: int) -> int:
            return combined(delayed(self.watermarks[source][which], lag) for source, lag in operator.lags.items())

        return EpochClock(self.epoch, at(0), at(1))


class Shard:
    """The input of one shard: its control, and blobs by branch."""

    def __init__(self) -> None:
        self.control: Control | None = None
        self.blobs: dict[int, list[bytes]] = {}
        self.passing: list[tuple[int, bytes]] = []


def gather(batches: Iterable[pa.RecordBatch]) -> dict[int, Shard]:
    """What a task was sent, by shard."""
    shards: dict[int, Shard] = {}
    for batch in batches:
        numbers, branches = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        blobs = batch.column(2)
        for row, (number, branch) in enumerate(zip(numbers, branches, strict=True)):
            shard = shards.setdefault(number, Shard())
            blob = blobs[row].as_buffer()
            if branch == CONTROL:
                shard.control = msgspec.msgpack.decode(blob, type=Control)
            elif branch < 0:
                shard.passing.append((branch, blob))
            else:
                shard.blobs.setdefault(branch, []).append(blob)
    return shards


def run_stage(
    job: Job, stage: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, dict[str, pa.RecordBatch]]]:
    """Every shard of a task: what it packed, and rows that need SQL by origin."""
    for number, shard in sorted(gather(batches).items()):
        packer = Packer(job.shards)
        for branch, blob in shard.passing:
            packer.add(number, branch, blob)
        rows: dict[str, pa.RecordBatch] = {}
        if shard.control is None:
            if shard.blobs:
                raise Corrupt(f"stage {stage + 1}, shard {number} of flow {job.flow} got rows but no control")
            yield packer.batch(), rows
            continue
        here = {branch.index for operator in job.stages[stage] for branch in job.into_operator[operator.id]}
        for operator in job.stages[stage]:
            begun = time.perf_counter_ns()
            made = _step(job, operator, number, shard, shard.control, packer)
            worked = (time.perf_counter_ns() - begun) // 1000
            packer.add(number, WORK, msgspec.msgpack.encode((operator.id, worked)))
            if made is not None:
                rows[operator.id] = made
        for branch, blobs in shard.blobs.items():
            if branch not in here:
                for blob in blobs:
                    packer.add(number, branch, blob)
        if stage + 1 < len(job.stages) or number == 0:  # the driver learns from one of them which epoch it was
            packer.add(number, CONTROL, msgspec.msgpack.encode(shard.control))
        yield packer.batch(), rows


def _step(
    job: Job, operator: Operator, number: int, shard: Shard, control: Control, packer: Packer
) -> pa.RecordBatch | None:
    inputs = {name: _input(job, operator, name, shard) for name in operator.inputs}
    directory = StateDirectory(control.state)
    entry = control.manifest.get(operator.id, {}).get(str(number))
    state = directory.open(entry, operator.kernel.tables, operator.id, number)
    step = operator.kernel.step(state, inputs, control.clock(operator))
    failpoint("host.stepped")
    packer.add(number, MANIFEST, msgspec.msgpack.encode((operator.id, str(number), state.commit(control.epoch))))
    failpoint("host.committed")
    for name, counts in step.counts.items():
        packer.add(number, LEDGER, msgspec.msgpack.encode((operator.id, name, asdict(counts))))
    if step.late is not None and operator.late_topic and len(step.late):
        packer.add(number, LATE, _late(operator, step.late))
    changes = step.changes
    if RECEIVED in operator.output.names and RECEIVED not in changes.columns:  # rows that came to be in this epoch
        moment = pl.lit(control.received, pl.Int64).cast(pl.Datetime("us", "UTC"))
        changes = changes.with_columns(moment.alias(RECEIVED))
    return _hand_on(job, operator, number, changes, packer)


def _input(job: Job, operator: Operator, name: str, shard: Shard) -> pl.DataFrame:
    """All rows of one input, in the order of the log."""
    branches = [branch for branch in job.into_operator[operator.id] if branch.input == name]
    frame = pl.from_arrow(pa.concat_tables(rows_of(branch, shard.blobs.get(branch.index, [])) for branch in branches))
    assert isinstance(frame, pl.DataFrame)
    if len(frame) > 1:
        frame = frame.sort(*(name for name in LOG_ORDER if name in frame.columns), maintain_order=True)
    return frame


def _hand_on(job: Job, operator: Operator, number: int, changes: pl.DataFrame, packer: Packer) -> pa.RecordBatch | None:
    """Pack what needs no SQL; give back the rows for the branches that do."""
    branches = job.from_origin.get(operator.id, ())
    if not len(changes) or not branches:
        return None
    if PARTITION not in changes.columns:
        order = [pl.lit(number, pl.Int32).alias(PARTITION), pl.int_range(pl.len(), dtype=pl.Int64).alias(OFFSET)]
        changes = changes.with_columns(order)
    changes = changes.with_columns(pl.col(WEIGHT).cast(pl.Int8), pl.col(TIME).clip(MIN_TIME, MAX_TIME))
    rows = to_arrow(changes, carried(operator.output))
    for branch in branches:
        if branch.trivial:
            packer.rows(branch, picked(rows, branch))
    return rows if any(not branch.trivial for branch in branches) else None


def _late(operator: Operator, late: pl.DataFrame) -> bytes:
    assert operator.late_topic is not None
    stamp = pl.Datetime("us", "UTC")
    assert operator.late is not None
    table = late.select(
        *(pl.col(name) for name in operator.late.names[:-1]), pl.col(WATERMARK).cast(stamp), pl.col(TIME).cast(stamp)
    ).to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return msgspec.msgpack.encode((operator.late_topic, operator.id, bytes(sink.getvalue())))
