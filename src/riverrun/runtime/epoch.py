"""One epoch: computed whole in this process, and what comes of it, on its way to the commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from riverrun.error_transit import ErrorInTransit
from riverrun.errors import Corrupt
from riverrun.log.topic import Topic
from riverrun.runtime.compile.job import Branch, Job
from riverrun.runtime.control import Control, Report
from riverrun.runtime.exchange import Exchange, InlineExchange
from riverrun.runtime.host import Host
from riverrun.runtime.packing import CONTROL, ERROR, LATE, QUARANTINE, REPORT, Packer, Part, Shards, unpack
from riverrun.runtime.settling import sent_schema
from riverrun.runtime.source import LogSource, Range
from riverrun.runtime.task import Tasks

Aside = list[tuple[str, str, bytes]]
"""Rows put aside: the topic they belong to, the node, and an Arrow stream."""


@dataclass
class EpochResult:
    """What an epoch brought: rows for the ends by branch, in the order of shards; state, ledger, rows put aside."""

    control: Control
    parts: dict[int, list[Part]] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    late: Aside = field(default_factory=list)
    quarantined: Aside = field(default_factory=list)
    exchange: Exchange = field(default_factory=InlineExchange)

    def opened(self, job: Job, branch: Branch) -> list[pa.RecordBatch]:
        """The parts of a branch that tasks have settled."""
        schema = sent_schema(job, branch)
        parts = self.parts.get(branch.index, [])
        return [self.exchange.get(part, schema) if isinstance(part, pa.Buffer) else part for part in parts]

    def take(self, kind: int, content: bytes | pa.Buffer) -> None:
        """Take in a message of a task."""
        match kind:
            case _ if kind == REPORT:
                self.report.add(msgspec.msgpack.decode(content, type=Report))
            case _ if kind == LATE:
                self.late.append(msgspec.msgpack.decode(content, type=tuple[str, str, bytes]))
            case _ if kind == QUARANTINE:
                self.quarantined.append(msgspec.msgpack.decode(content, type=tuple[str, str, bytes]))


def compute_epoch(
    tasks: Tasks, topics: Mapping[str, Topic], parts: Sequence[Range], control: Control, together: bool = True
) -> EpochResult:
    """A whole epoch in this process, rows in memory. Only for jobs without Spark.

    Every operator takes one step for all shards; or, not `together`, one for each, as in larger epochs.
    """
    job = tasks.job
    mail = Shards(1 if together else job.shards)
    exchange = InlineExchange()
    source = LogSource(tasks, topics, mail)
    for _ in source.read(parts):
        raise AssertionError("these rows need Spark")
    host = Host(tasks, exchange, mail)
    for stage in range(len(job.stages)):
        for number, shard in enumerate(mail.shards):
            shard.control = control
            host.run(stage, None if together else number, shard)
    result = EpochResult(control)
    for report in (source.report, host.report):
        result.report.add(report)
    for shard in mail.shards:
        for branch, rows in shard.parts.items():
            result.parts.setdefault(branch, []).extend(rows)
        for kind, content in shard.messages:
            result.take(kind, content)
    return result


def pack_result(result: EpochResult, exchange: Exchange) -> pa.RecordBatch:
    """An epoch that was computed whole, for the driver."""
    packer = Packer(1, exchange)
    for branch, parts in result.parts.items():
        for part in parts:
            packer.part(0, branch, part)
    packer.message(0, CONTROL, msgspec.msgpack.encode(msgspec.structs.replace(result.control, manifest={})))
    packer.message(0, REPORT, msgspec.msgpack.encode(result.report))
    for kind, rows in ((LATE, result.late), (QUARANTINE, result.quarantined)):
        for one in rows:
            packer.message(0, kind, msgspec.msgpack.encode(one))
    return packer.batch()


def unpack_result(batches: Iterable[pa.RecordBatch], exchange: Exchange) -> EpochResult:
    """The packed rows of an epoch as they arrive at the driver."""
    control: Control | None = None
    parts: dict[int, list[tuple[int, pa.Buffer]]] = {}
    messages = []
    for shard, branch, blob in unpack(batches):
        if branch >= 0:
            parts.setdefault(branch, []).append((shard, blob))
        elif branch == CONTROL:
            control = control or msgspec.msgpack.decode(blob, type=Control)
        else:
            messages.append((branch, blob))
    for kind, content in messages:
        if kind == ERROR:
            raise ErrorInTransit.decode(bytes(content)).arrive()
    if control is None:
        raise Corrupt("an epoch came back without its control")
    result = EpochResult(control, exchange=exchange)
    for branch, blobs in parts.items():
        result.parts[branch] = [blob for _, blob in sorted(blobs, key=lambda pair: pair[0])]
    for kind, content in messages:
        result.take(kind, content)
    return result
