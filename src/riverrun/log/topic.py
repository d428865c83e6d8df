"""A topic: what people append to and read from. Backends supply a few primitives; everything else is here, once.

A backend promises:
- appends are atomic over all partitions, offsets are dense within one, and `Position` is just behind the batch;
- a repeated (producer, sequence) has no effect, an older fence is refused;
- readers see rows in offset order within a partition, and only whole batches.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyarrow as pa

from riverrun import ddl
from riverrun.durations import Duration, seconds, to_micros
from riverrun.errors import Invalid, NotFound, OutOfRange, did_you_mean
from riverrun.log.codec import HIDDEN
from riverrun.log.decoder import Decoder
from riverrun.log.packing import Packing
from riverrun.log.partitioner import partition_of
from riverrun.log.producers import Claim, claim_of
from riverrun.log.rows import RowSchema
from riverrun.log.spec import TopicSpec
from riverrun.log.wake import Bell
from riverrun.position import Position

if TYPE_CHECKING:
    from riverrun.log.consumer import Consumer
    from riverrun.log.coordination import Coordination
    from riverrun.log.producer import Producer
    from riverrun.log.queue import Queue
    from riverrun.settings import Settings

Start = Position | Mapping[str, Mapping[int, int]] | datetime | str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a backend knows of some consecutive rows without reading them: enough to plan watermarks and cuts."""

    partition: int
    offset: int
    span: int
    rows: int
    size: int  # in bytes, before compression
    min_time: int  # of rows with an event time; above max_time if there are none, as with tombstones and promises
    max_time: int
    first_received: int
    received: int
    maxima: Mapping[str, int]  # producer → largest event time; promises too


class Topic(ABC):
    """An append-only, partitioned stream of typed rows."""

    def __init__(
        self, spec: TopicSpec, schemas: dict[int, str], settings: Settings, coordination: Coordination
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.settings = settings
        self.coordination = coordination
        self._row_schema = RowSchema(spec, settings.max_record_bytes)
        self.producers_open: WeakSet[Producer] = WeakSet()
        self._arrow = {version: ddl.arrow_schema(ddl.parse(text)) for version, text in schemas.items()}

        # How to reach another topic of the same log, such as the one for dead letters; set by whoever opens topics.
        self.opener: Callable[[TopicSpec], Topic] | None = None
        self._bells: weakref.WeakSet[Bell] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<topic {self.name}: {self.spec.schema}>"

    def __enter__(self) -> Topic:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What a backend supplies.

    @property
    @abstractmethod
    def earliest(self) -> Position:
        """The first offsets that can be read."""

    @property
    @abstractmethod
    def latest(self) -> Position:
        """The offsets that the next rows will get."""

    @abstractmethod
    def append_batch(self, batch: pa.RecordBatch, claim: Claim | None) -> Position:
        """Append rows that were checked; atomic over partitions."""

    @abstractmethod
    def raise_fence(self, producer: str, fence: int) -> None:
        """From now on, appends of this producer with an older fence are refused."""

    @abstractmethod
    def take_over(self, producer: str) -> Claim:
        """Raise this producer's fence, so that whoever held the name before is refused; gives the new fence, with the
        last sequence that was appended (NO_SEQUENCE when there is none). No two callers get the same fence."""

    @abstractmethod
    def last_sequence(self, producer: str) -> int | None:
        """The newest sequence that was appended under this name."""

    @abstractmethod
    def promise(self, partition: int, maxima: Mapping[str, int]) -> Position:
        """Record that nothing older than these times will come from these producers. Takes one offset, has no row."""

    @abstractmethod
    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows from `start` to before `end`, by partition; a partition that `start` leaves out is not read."""

    @abstractmethod
    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        """What is known of that range without reading it, in arrival order. The first and last may overlap its ends."""

    @abstractmethod
    def offsets_at(self, moment: datetime) -> Position:
        """In each partition the first offset whose event time is not before `moment`."""

    @abstractmethod
    def wait(self, after: Position, timeout: Duration | None = None) -> bool:
        """Wait until there is more than `after`; False when the time is up. Uses no processor time while waiting."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Schema, partitions, sizes, rows per second over the last minute; cheap to ask."""

    @abstractmethod
    def compact(self) -> dict[str, int]:
        """Keep the newest row of every key. Gives how many rows were kept and removed."""

    @abstractmethod
    def enforce_retention(self) -> dict[str, int]:
        """Remove (or archive) what is older or more than the topic keeps. Gives what was removed."""

    @property
    @abstractmethod
    def spill_directory(self) -> str:
        """Where producers put rows that have no room in memory."""

    @abstractmethod
    def close(self) -> None:
        """Send what producers still hold, and let go; a second close does nothing."""

    # What a backend may do in its own way.

    def newest_schema(self) -> str:
        """The schema as it is now: another process may have added columns since this topic was opened here."""
        assert isinstance(self.spec.schema, str)
        return self.spec.schema

    def attach(self, bell: Bell) -> None:
        """Let the bell ring whenever rows arrive, or somebody calls `ring`, until it is closed."""
        self._bells.add(bell)

    def ring(self) -> None:
        """Make everybody who waits for this topic look again."""
        for bell in list(self._bells):
            bell.ring()

    # What people call.

    @property
    def partitions(self) -> int:
        assert isinstance(self.spec.partitions, int)
        return self.spec.partitions

    @property
    def schema(self) -> pa.Schema:
        """The topic's columns."""
        return self._row_schema.arrow

    def append(
        self, rows: Any, producer: str | None = None, sequence: int | None = None, fence: int | None = None
    ) -> Position:
        """Append rows (a dict, a list of dicts, an Arrow, Polars or pandas table) and give the position behind them.

        All of them or none, in every partition. With a producer, a repeated sequence has no effect and gives the first
        position again; an older fence is refused.
        """
        claim = claim_of(producer, sequence, fence)
        batch = self.checked(rows)
        if batch.num_rows == 0:
            return self.latest
        return self.append_batch(batch, claim)

    def checked(self, rows: Any) -> pa.RecordBatch:
        """The rows as `append` would write them, or the error it would give. Nothing is written."""
        return self._row_schema.batch(rows)

    def advance(self, producer: str | int, time: datetime) -> Position:
        """Promise that nothing older than `time` will come from this producer (a value of the `producers` column, or a
        partition where the topic has none)."""
        if not isinstance(time, datetime):
            raise Invalid(f"topic {self.name}: a promise needs a datetime, not {time!r}")
        if self.spec.producers is None:
            if not str(producer).isdigit() or int(producer) >= self.partitions:
                raise Invalid(
                    f"topic {self.name} names no producers column, so a producer is a partition, not {producer!r}",
                    hint=f"Give a number from 0 to {self.partitions - 1}",
                )
            return self.promise(int(producer), {str(producer): to_micros(time)})
        return self.promise(partition_of(str(producer).encode(), self.partitions), {str(producer): to_micros(time)})

    def delete(self, key: Any) -> Position:
        """Write a tombstone: the key has no row any more."""
        if not self.spec.key:
            raise Invalid(f"topic {self.name} has no key, so there is nothing to delete by")
        values = key if isinstance(key, list | tuple) else [key]
        if len(values) != len(self.spec.key):
            raise Invalid(f"topic {self.name}: the key is {list(self.spec.key)}, {len(values)} values were given")
        row = {**dict(zip(self.spec.key, values, strict=True)), "_deleted": True}
        return self.append_batch(self._row_schema.batch(row), None)

    def read(self, start: Start = None, end: Start = None, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows from `start` to before `end` (positions or times) as one table, with the hidden columns behind."""
        decoder = self.decoder(columns)
        while True:
            first = self.offsets(start, self.earliest)
            try:
                found = self.batches(first, self.offsets(end, self.latest), columns)
                return pa.Table.from_batches(found, schema=decoder.schema)
            except OutOfRange:
                if start is not None or self.earliest[self.name] == first:
                    raise
                # Retention moved on while it was read. Who asks for all there is gets what there is now.

    def producer(self, on_full: str = "block", linger: Duration = "5 ms", name: str | None = None) -> Producer:
        """A buffered sender for single rows; see `riverrun.log.producer`."""
        from riverrun.log.producer import Producer

        return Producer(self, on_full=on_full, linger=linger, name=name)

    def consumer(self, group: str, start: Start = "committed", timeout: Duration | None = None) -> Consumer:
        """Join a group and iterate over record batches; see `riverrun.log.consumer`."""
        from riverrun.log.consumer import Consumer

        return Consumer(
            self.coordination,
            group,
            lambda: {self.name: self},
            start=start,
            timeout=seconds(timeout),
            settings=self.settings,
        )

    def queue(self, group: str, lease: Duration = "30 s", attempts: int = 5) -> Queue:
        """Take messages one by one, each acknowledged by itself; see `riverrun.log.queue`."""
        from riverrun.log.queue import Queue

        return Queue(self, group, lease=lease, attempts=attempts)

    # For those who read.

    def decoder(self, columns: Sequence[str] | None = None) -> Decoder:
        """The decoder for some columns, or all of them with the hidden ones."""
        known = [*self._row_schema.names, *HIDDEN]
        for name in columns or ():
            if name not in known:
                raise NotFound(f"topic {self.name} has no column {name!r}", hint=did_you_mean(name, known))
        return Decoder(self.spec, self.schema, self._arrow, columns)

    def offsets(self, at: Start, default: Position) -> Mapping[int, int]:
        """Offsets of every partition for a position, a time, "earliest" or "latest"; `default` for None."""
        if at is None:
            return default[self.name]
        if isinstance(at, datetime):
            return self.offsets_at(at)[self.name]
        if isinstance(at, str):
            if at in ("earliest", "latest"):
                return (self.earliest if at == "earliest" else self.latest)[self.name]
            at = Position.parse(at)
        if not isinstance(at, Mapping):
            raise Invalid(f"topic {self.name}: not a position or a time: {at!r}")
        if self.name not in at:
            raise Invalid(f"the position {str(Position(at))!r} says nothing about topic {self.name}")
        first = self.earliest[self.name]
        return {p: at[self.name].get(p, first[p]) for p in range(self.partitions)}

    def close_producers(self) -> None:
        """For `close`: what was sent is appended, or raised."""
        from riverrun.log.producer import LAST_CALL

        for producer in list(self.producers_open):
            producer.close(LAST_CALL)

    @cached_property
    def packing(self) -> Packing:
        """Single rows as bytes, checked one by one and turned into a batch together."""
        return Packing(self._row_schema)

    def check_range(self, start: Mapping[int, int], first: Mapping[int, int], last: Mapping[int, int]) -> None:
        """Refuse offsets that cannot be read, never jump silently."""
        for partition, offset in start.items():
            if partition not in first:
                raise Invalid(f"topic {self.name} has no partition {partition}; it has {self.partitions}")
            low, high = first[partition], last[partition]
            if offset < low:
                raise OutOfRange(
                    f"topic {self.name}, partition {partition}: offset {offset} is no longer kept, only {low} to {high}",
                    hint=f"Start at {low} if the missing rows do not matter (riverrun group reset)",
                )
            if offset > high:
                raise OutOfRange(
                    f"topic {self.name}, partition {partition}: offset {offset} is beyond the end, which is {high}",
                    hint="Rows that were acknowledged with fsync='os' may be lost in a power cut; reset the reader",
                )
