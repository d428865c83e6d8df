"""A topic on Kafka. Three things are otherwise than in the embedded log: offsets have gaps, since each commit takes one; a
batch becomes visible partition by partition, within milliseconds; and a position is just behind the last row of a batch,
which is before the offset of the next one.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import OFFSET, PARTITION, RECEIVED
from riverrun.durations import from_micros, wall_clock
from riverrun.errors import Closed, NotFound
from riverrun.log.codec import producer_maxima, time_range
from riverrun.log.frame import NEVER, NO_TIME
from riverrun.log.kafka.arrow_values import ROW_BITS
from riverrun.log.kafka.client import kafka
from riverrun.log.kafka.cluster import Cluster
from riverrun.log.kafka.entry import CatalogueEntry
from riverrun.log.kafka.messages import (
    Incoming,
    Understood,
    promise_message,
    row_messages,
    understand,
)
from riverrun.log.kafka.named_writer import NamedWriter
from riverrun.log.kafka.reader import first_message, read_messages
from riverrun.log.kafka.refusals import refusal
from riverrun.log.kafka.values import values_of
from riverrun.log.kafka.writer import Superseded
from riverrun.log.producers import Claim, turn_of
from riverrun.log.read_range import check_range
from riverrun.log.statistics import RATE_WINDOW
from riverrun.log.topic_backend import Contents, Summary, TopicBackend
from riverrun.log.wake import Bell

log = logging.getLogger("riverrun.log")

_TRIES = 3
_CLOCKS = 1_000_000  # microseconds that a broker's clock may be behind ours
_SAMPLED = 64  # messages of a partition that tell how long rows are
_REMEMBERED = 60.0  # seconds for which they do


class _Sizes(NamedTuple):
    """What a sample of messages says, and until when it is believed."""

    rows: float  # of a message
    bytes: float  # of a row
    until: float


class KafkaBackend(TopicBackend):
    """A topic of a cluster, as its catalogue describes it."""

    has_headers = False

    def __init__(self, cluster: Cluster, entry: CatalogueEntry) -> None:
        super().__init__(entry.spec, entry.version, entry.schemas)
        self.receipt_rises = not entry.foreign  # what others made may have times that producers wrote
        self.cluster = cluster
        self.topic = cluster.prefix + entry.spec.name  # its name in Kafka
        self.topic_id = entry.id
        self.values = values_of(self.spec, self.schemas, self.version)
        self.undecodable = 0  # messages that were passed over, by this handle
        self.row_bits = ROW_BITS if self.values.whole_batches else 0
        self.grain = 1 << self.row_bits
        self._sizes = _Sizes(1.0, 0.0, 0.0)
        self._connection = cluster.connection
        self._turn = int.from_bytes(os.urandom(2), "little")
        self._counting = threading.Lock()
        self._closed = self._dropped = False

    @property
    def is_open(self) -> bool:
        return not (self._closed or self._dropped or self._connection.closed)

    def begins(self) -> dict[int, int]:
        return self._offsets("first")

    def ends(self) -> dict[int, int]:
        return self._offsets("stable")

    def _offsets(self, which: str) -> dict[int, int]:
        self._check()
        try:
            found = self._connection.offsets(self.topic, self.spec.partitions, which)
        except NotFound:
            self._dropped = True
            raise self._gone() from None
        return {partition: offset << self.row_bits for partition, offset in found.items()}

    def rows_of(self, key: str, columns: Sequence[str] | None = None, after: int = 0) -> pa.Table:
        raise refusal("versions", f"topic {self.name}")

    def append(
        self, batch: pa.RecordBatch, claim: Claim | None, expected: Mapping[str, int] | None = None
    ) -> dict[int, int]:
        self._turn += 1
        turn = turn_of(claim, self._turn)
        if claim is None:
            return self._write(lambda: row_messages(batch, self.values, turn))
        self._check()
        reached, written = self._named(claim.name).append(
            self.name, claim, self.spec.partitions, lambda: row_messages(batch, self.values, turn), self._behind
        )
        if written:
            self._await({p: (offset >> self.row_bits) - 1 for p, offset in reached.items()})
        return reached

    def promise(self, partition: int, maxima: Mapping[str, int]) -> dict[int, int]:
        return self._write(lambda: [promise_message(partition, maxima)])

    def _write(self, messages: Any) -> dict[int, int]:
        self._check()
        with self.cluster.writer() as writer:
            for _ in range(_TRIES):
                try:
                    last = writer.write(self.topic, messages())
                    break
                except NotFound:
                    self._dropped = True
                    raise self._gone() from None
                except Superseded:  # a broker has ended it, after a long pause or when nothing came for days
                    writer.close()
            else:
                raise Superseded(f"others keep writing as this process to topic {self.topic}")
        stable = self._await(last)
        return {**stable, **{p: (offset + 1) << self.row_bits for p, offset in last.items()}}

    def _behind(self, last: Mapping[int, int]) -> dict[int, int]:
        return {**self.ends(), **{p: (offset + 1) << self.row_bits for p, offset in last.items()}}

    def _await(self, last: Mapping[int, int]) -> dict[int, int]:
        """Wait until what was committed can be read: a commit returns before. Gives the ends."""
        deadline, pause = time.monotonic() + self._connection.patience, 0.001
        while True:
            stable = self.ends()
            if all(stable[p] >> self.row_bits > offset for p, offset in last.items()):
                return stable
            if time.monotonic() > deadline:
                log.warning(
                    "topic %s: rows are appended, and cannot be read yet: a transaction of somebody else is open",
                    self.name,
                )
                return stable
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def raise_fence(self, producer: str, fence: int) -> None:
        self._check()
        self._named(producer).raise_fence(self.name, Claim(producer, fence=fence), self.spec.partitions)

    def take_over(self, producer: str) -> Claim:
        self._check()
        return self._named(producer).take_over(self.name, self.spec.partitions)

    def fence(self, producer: str) -> int:
        self._check()
        memory = self.cluster.markers.producer(self.topic_id, producer)
        return memory.fence if memory else 0

    def last_sequence(self, producer: str) -> int | None:
        self._check()
        memory = self.cluster.markers.producer(self.topic_id, producer)
        return memory.recent[-1].sequence if memory and memory.recent else None

    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        for part in self.contents(start, end, columns):
            if part.rows.num_rows:
                yield part.rows

    def contents(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[Contents]:
        decoder = self.decoder(columns)
        for understood, _ in self._understood(start, end):
            with self._counting:
                self.undecodable += len(understood.undecodable)
            yield Contents(decoder.show(understood.rows), understood.promises, understood.undecodable)

    def shown(self, messages: Sequence[Any]) -> Understood:
        """What messages of this topic are, as a client gave them."""
        return understand(Incoming.of(messages), self.values)

    def _understood(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[tuple[Understood, list[Any]]]:
        """What the messages of a range are, and the messages."""
        ends = self.ends()
        check_range(self.name, start, self.begins(), ends)
        until = {p: min(end.get(p, start[p]), ends[p]) for p in start}
        first = {p: offset >> self.row_bits for p, offset in start.items()}
        last = {p: -(-offset >> self.row_bits) for p, offset in until.items()}
        for messages in read_messages(self._connection, self.topic, first, last):
            understood = self.shown(messages)
            if self.row_bits:
                understood = understood._replace(rows=_within(understood.rows, start, until))
            yield understood, messages

    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        """Kafka keeps no summaries: the rows are read for it, up to where the caller stops."""
        for understood, messages in self._understood(start, end):
            rows, sizes = understood.rows, _sizes(messages)
            for partition in pc.unique(rows.column(PARTITION)).to_pylist():
                part = rows.filter(pc.equal(rows.column(PARTITION), partition))
                yield self._summary(partition, part, sizes[partition])
            for promise in understood.promises:
                yield Summary(
                    partition=promise.partition,
                    offset=promise.offset << self.row_bits,
                    span=1,
                    rows=0,
                    size=0,
                    min_time=NEVER,
                    max_time=NO_TIME,
                    first_received=promise.received,
                    received=promise.received,
                    maxima=promise.maxima,
                )

    def _summary(self, partition: int, rows: pa.RecordBatch, size: int) -> Summary:
        offsets, received = rows.column(OFFSET), pc.min_max(rows.column(RECEIVED).cast(pa.int64()))
        low, high = time_range(rows, self.spec)
        if low == NO_TIME:
            low, high = received["min"].as_py(), received["max"].as_py()
        return Summary(
            partition=partition,
            offset=offsets[0].as_py(),
            span=offsets[-1].as_py() - offsets[0].as_py() + 1,
            rows=rows.num_rows,
            size=size,
            min_time=low,
            max_time=high,
            first_received=received["min"].as_py(),
            received=received["max"].as_py(),
            maxima=producer_maxima(rows, self.spec),
        )

    def count(self, start: Mapping[int, int], end: Mapping[int, int]) -> int:
        """By the offsets of messages, which commits have too; of batches by how many rows they have of late."""
        messages = super().count(start, end) >> self.row_bits
        return round(messages * self._sampled().rows) if self.row_bits else messages

    def row_bytes(self) -> int:
        return round(self._sampled().bytes)

    def _sampled(self) -> _Sizes:
        """What the newest messages are like."""
        if self._sizes.until < time.monotonic():
            ends, begins = self.ends(), self.begins()
            low = {p: max(begins[p], end - (_SAMPLED << self.row_bits)) for p, end in ends.items()}
            messages = rows = size = 0
            for understood, found in self._understood(low, ends):
                rows += understood.rows.num_rows
                size += sum(map(len, found))
                messages += len(pc.unique(pc.bit_wise_and(understood.rows.column(OFFSET), -self.grain)))
            until = time.monotonic() + (_REMEMBERED if rows else 0)
            self._sizes = _Sizes(rows / max(messages, 1) if rows else 1.0, size / max(rows, 1), until)
        return self._sizes

    def first_received(self, partition: int, start: int, end: int) -> int | None:
        first = first_message(self._connection, self.topic, partition, start >> self.row_bits)
        if first is None or first.offset() << self.row_bits >= end:
            return None
        return int(first.timestamp()[1]) * 1000

    def settled(self) -> int:
        """What was received before now can be read, but for transactions that are open: these hold it back to their first
        message. Brokers have clocks of their own, which are believed to be a second behind at most."""
        moment = wall_clock() - _CLOCKS
        stable = self._connection.offsets(self.topic, self.spec.partitions, "stable")
        last = self._connection.offsets(self.topic, self.spec.partitions, "last")
        for partition in (p for p in last if last[p] > stable[p]):
            first = first_message(self._connection, self.topic, partition, stable[partition], committed=False)
            if first is not None:
                moment = min(moment, int(first.timestamp()[1]) * 1000)
        return moment

    def offsets_at(self, moment: int) -> dict[int, int]:
        raise refusal("offsets_at", f"topic {self.name}")

    def offsets_received(self, moment: int) -> dict[int, int]:
        """In each partition the first offset that was received (µs) not before `moment`; its end if there is none.

        Of topics that others made the times may be what producers wrote, and go back.
        """
        client, ends = kafka(), self.ends()
        spec = client.admin.OffsetSpec.for_timestamp(max(0, -(-moment // 1000)))
        found = self._connection.list_offsets(self.topic, self.spec.partitions, spec)
        return {p: ends[p] if result.offset < 0 else result.offset << self.row_bits for p, result in found.items()}

    def attach(self, bell: Bell) -> None:
        self._check()
        self.cluster.watch.add(
            self.topic, lambda: {p: offset >> self.row_bits for p, offset in self.ends().items()}, bell
        )

    def ring(self) -> None:
        self.cluster.watch.ring(self.topic)

    def newest_schema(self) -> str:
        self.cluster.catalog.refresh()
        found = CatalogueEntry.find(self.cluster.catalog, self.topic)
        return found.spec.schema if found else self.spec.schema

    def statistics(self) -> dict[str, Any]:
        """Kafka tells neither bytes nor appends of a topic. Rows are counted by offsets, those of commits with them."""
        client, ends = kafka(), self.ends()
        recent = self.offsets_received(wall_clock() - RATE_WINDOW)
        newest = self._connection.list_offsets(
            self.topic, self.spec.partitions, client.admin.OffsetSpec.max_timestamp()
        )
        received = max((result.timestamp for result in newest.values()), default=-1)
        rows = sum((ends[p] - recent[p]) >> self.row_bits for p in ends)
        return {
            "bytes": None,
            "appends": None,
            "rows_per_second": rows / (RATE_WINDOW / 1e6),
            "received": from_micros(received * 1000).isoformat() if received > 0 else None,
            "format": self.spec.format or "json",
            "undecodable": self.undecodable,
        }

    def compact(self) -> dict[str, int]:
        raise refusal("compact", f"topic {self.name}")

    def enforce_retention(self) -> dict[str, int]:
        raise refusal("enforce_retention", f"topic {self.name}")

    @property
    def spill_directory(self) -> str:
        return f"{self.cluster.directory}/spill/{self.topic}"

    @property
    def has_failed(self) -> bool:
        return False

    def repair(self) -> None:
        raise refusal("repair", f"topic {self.name}")

    def close(self) -> None:
        self._closed = True

    def _named(self, producer: str) -> NamedWriter:
        return self.cluster.named(self.topic, self.topic_id, producer)

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"topic {self.name} is closed")
        if self._dropped:
            raise self._gone()

    def _gone(self) -> NotFound:
        return NotFound(
            f"topic {self.name}: Kafka at {self._connection.brokers} has no topic {self.topic!r} any more",
            hint="It was dropped or deleted; make it again",
        )


def _sizes(messages: Sequence[Any]) -> dict[int, int]:
    """How many bytes each partition's messages have."""
    sizes: dict[int, int] = {}
    for message in messages:
        sizes[message.partition()] = sizes.get(message.partition(), 0) + len(message)
    return sizes


def _within(rows: pa.RecordBatch, start: Mapping[int, int], end: Mapping[int, int]) -> pa.RecordBatch:
    """Rows of whole batches that lie in the range."""
    keep: Iterable[Any] = []
    for partition in start:
        mine = pc.equal(rows.column(PARTITION), partition)
        offsets = rows.column(OFFSET)
        inside = pc.and_(pc.greater_equal(offsets, start[partition]), pc.less(offsets, end[partition]))
        keep = pc.and_(mine, inside) if keep == [] else pc.or_(keep, pc.and_(mine, inside))
    return rows.filter(keep) if keep != [] else rows
