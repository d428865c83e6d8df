"""A topic: what people append to and read from. What a log itself supplies for it is a `TopicBackend`; everything else is
here, once, for every log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import WeakSet

import pyarrow as pa

from riverrun.calls import answering
from riverrun.columns import OFFSET
from riverrun.durations import Duration, seconds
from riverrun.errors import Invalid, OutOfRange
from riverrun.habits import TOPIC_METHODS
from riverrun.log.captures import Captures
from riverrun.log.keys import check_expected, key_texts, read_key, tombstone
from riverrun.log.packing import Packing
from riverrun.log.partitioner import partition_of
from riverrun.log.producers import check_producer, claim_of
from riverrun.log.read_range import check_range
from riverrun.log.readers import CoordinatedReaders, Readers
from riverrun.log.rows import RowSchema
from riverrun.log.spec import TopicSpec
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.times import TimeForms
from riverrun.log.topic_backend import Summary, TopicBackend
from riverrun.log.wake import Bell
from riverrun.position import Position

if TYPE_CHECKING:
    from riverrun.log.consumer import Consumer
    from riverrun.log.coordination import Coordination
    from riverrun.log.producer import Producer
    from riverrun.log.queue import Queue
    from riverrun.settings import Settings

OpenTopic = Callable[[TopicSpec], "Topic"]
Start = Position | Mapping[str, Mapping[int, int]] | datetime | str | None

_DESCRIBED = ("retention", "retention_bytes", "compact", "fsync", "archive", "naive", "times")


@answering("topic", TOPIC_METHODS)
class Topic:
    """An append-only, partitioned stream of typed rows.

    `backend` is for what is built on topics; people need none of it.
    """

    def __init__(
        self,
        backend: TopicBackend,
        coordination: Coordination,
        settings: Settings,
        open_topic: OpenTopic,
        readers: Readers | None = None,
    ) -> None:
        self.backend = backend
        self.name = backend.name
        self.settings = settings
        self._coordination = coordination
        self._open_topic = open_topic  # another one of the same log, such as the one for dead letters
        self._readers = readers or CoordinatedReaders(coordination, settings)
        self._row_schema = RowSchema(backend.spec, settings.max_record_bytes)
        self._producers: WeakSet[Producer] = WeakSet()

    def __repr__(self) -> str:
        return f"<topic {self.name}: {self.spec.schema}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def spec(self) -> StoredSpec:
        """What the topic is: its schema, key and time, and how it is kept."""
        return self.backend.spec

    @property
    def partitions(self) -> int:
        """How many there are; they are numbered from 0."""
        return self.spec.partitions

    @property
    def schema(self) -> pa.Schema:
        """The topic's columns."""
        return self.backend.schema

    @property
    def times(self) -> TimeForms:
        """What is taken for a time here."""
        return self._row_schema.times

    @property
    def earliest(self) -> Position:
        """The first offsets that can be read."""
        return self._position(self.begins())

    @property
    def latest(self) -> Position:
        """The offsets that the next rows will get."""
        return self._position(self.ends())

    def begins(self) -> dict[int, int]:
        """By partition, the first offset that can be read."""
        return self.backend.begins()

    def ends(self) -> dict[int, int]:
        """By partition, the offset that the next row will get."""
        return self.backend.ends()

    def append(
        self,
        rows: Any,
        producer: str | None = None,
        sequence: int | None = None,
        fence: int | None = None,
        expect: Mapping[Any, int] | None = None,
    ) -> Position:
        """Append rows (a dict, a list of dicts, an Arrow, Polars or pandas table) and give the position after them.

        All of them or none, in every partition. With a producer, a repeated sequence has no effect and gives the first
        position again; an older fence is refused. Of a topic with versions, `expect` says how many rows keys have by now:
        where that is not so, `VersionConflict`, and nothing is appended.
        """
        claim = claim_of(producer, sequence, fence)
        batch = self.checked(rows)
        expected = check_expected(self, expect) if expect else None
        return self._position(self.backend.append(batch, claim, expected)) if batch.num_rows else self.latest

    def version(self, key: Any) -> int:
        """How many rows a key has ever had, tombstones too, in a topic with versions; 0 for one that has none."""
        (text,) = key_texts(self, [key])
        return int(self.backend.rows_of(text, [OFFSET]).num_rows)

    def checked(self, rows: Any) -> pa.RecordBatch:
        """The rows as `append` would write them, or the error it would give. Nothing is written."""
        return self._row_schema.batch(rows)

    def last_sequence(self, producer: str) -> int | None:
        """The newest sequence that was appended under this name; a producer that starts again goes on after it."""
        return self.backend.last_sequence(check_producer(producer))

    def raise_fence(self, producer: str, fence: int) -> None:
        """From now on, appends of this producer with an older fence are refused."""
        self.backend.raise_fence(check_producer(producer), fence)

    def advance(self, producer: str | int, time: datetime) -> Position:
        """Promise that nothing older than `time` will come from this producer (a value of the `producers` column, or a
        partition where the topic has none)."""
        if not isinstance(time, datetime):
            raise Invalid(f"topic {self.name}: a promise needs a datetime, not {time!r}")
        name = check_producer(str(producer))
        if self.spec.producers is not None:
            partition = partition_of(name.encode(), self.partitions)
        elif name.isdigit() and int(name) < self.partitions:
            partition = int(name)
        else:
            raise Invalid(
                f"topic {self.name} names no producers column, so a producer is a partition, not {producer!r}",
                hint=f"Give a number from 0 to {self.partitions - 1}",
            )
        return self._position(self.backend.promise(partition, {name: self.times.micros(time)}))

    def delete(self, key: Any) -> Position:
        """Write a tombstone: the key has no row any more."""
        if not self.spec.key:
            raise Invalid(f"topic {self.name} has no key, so there is nothing to delete by")
        return self.append(tombstone(self, key))

    def read(
        self, start: Start = None, end: Start = None, columns: Sequence[str] | None = None, *, key: Any = None
    ) -> pa.Table:
        """All rows from `start` to before `end` (positions or times) as one table, with the hidden columns at its end.

        With `key`, those of one key of a topic with versions: found by an index, and also when they are written and not on
        the disk yet.
        """
        if key is not None:
            return read_key(self, key, start, end, columns)
        while True:
            first = self.offsets(start)
            try:
                return self.read_offsets(first, self.offsets(end, "latest"), columns)
            except OutOfRange:
                if start is not None or self.begins() == first:
                    raise
                # Retention moved on while it was read. Whoever asks for all there is gets what there is now.

    def read_offsets(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The same for offsets; a partition that `start` leaves out is not read."""
        schema = self.backend.decoder(columns).schema
        return pa.Table.from_batches(self.batches(start, end, columns), schema=schema)

    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same again, a bounded number of rows at a time."""
        return self.backend.batches(start, end, columns)

    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        """What is known of a range without reading it, in arrival order. The first and last may overlap its ends."""
        return self.backend.summaries(start, end)

    def first_received(self, partition: int, start: int, end: int) -> int | None:
        """When (µs) the first row of a range was received, to the frame that has it; None where no row is left of it."""
        return self.backend.first_received(partition, start, end)

    def offsets(self, at: Start, default: Literal["earliest", "latest"] = "earliest") -> dict[int, int]:
        """Offsets of every partition for a position, a time, "earliest" or "latest"; `default` for None."""
        at = default if at is None else at
        if isinstance(at, datetime):
            return self.backend.offsets_at(self.times.micros(at))
        if isinstance(at, str):
            if at in ("earliest", "latest"):
                return self.begins() if at == "earliest" else self.ends()
            at = Position.parse(at)
        if not isinstance(at, Mapping):
            raise Invalid(f"topic {self.name}: not a position or a time: {at!r}")
        if self.name not in at:
            raise Invalid(f"the position {str(Position(at))!r} says nothing about topic {self.name}")
        return {p: at[self.name].get(p, first) for p, first in self.begins().items()}

    def offsets_at(self, moment: datetime) -> Position:
        """In each partition the first offset whose event time is not before `moment`."""
        return self._position(self.backend.offsets_at(self.times.micros(moment)))

    def check_range(self, offsets: Mapping[int, int]) -> None:
        """Refuse offsets at which nobody can begin to read. Raises OutOfRange, or Invalid for a partition."""
        check_range(self.name, offsets, self.begins(), self.ends())

    def wait(self, after: Mapping[str, Mapping[int, int]], timeout: Duration | None = None) -> bool:
        """Wait until there is more than `after`; False when the time is up. Uses no processor time while waiting."""
        reached = after.get(self.name, {})

        def has_more() -> bool:
            return any(offset > reached.get(p, 0) for p, offset in self.ends().items())

        if has_more():
            return True
        with Bell() as bell:
            self.attach(bell)
            return bell.wait_until(has_more, seconds(timeout))

    def attach(self, bell: Bell) -> None:
        """Let the bell ring whenever rows arrive, until it is closed."""
        self.backend.attach(bell)

    def producer(self, on_full: str = "block", linger: Duration = "5 ms", name: str | None = None) -> Producer:
        """A buffered sender for single rows; see `riverrun.log.producer`."""
        from riverrun.log.producer import Producer

        producer = Producer(self, self._packing, on_full=on_full, linger=linger, name=name)
        self._producers.add(producer)
        return producer

    @cached_property
    def _packing(self) -> Packing:
        return Packing(self._row_schema)

    def consumer(self, group: str, start: Start = "committed", timeout: Duration | None = None) -> Consumer:
        """Join a group and iterate over record batches; see `riverrun.log.consumer`."""
        return self._readers.consumer(group, lambda: {self.name: self}, start, seconds(timeout))

    def queue(self, group: str, lease: Duration = "30 s", attempts: int = 5) -> Queue:
        """Take messages one by one, each acknowledged by itself; see `riverrun.log.queue`."""
        return self._readers.queue(self, self._open_topic, group, lease, attempts)

    def describe(self) -> dict[str, Any]:
        """Schema, partitions, sizes, rows per second over the last minute; cheap to ask."""
        first, last = self.begins(), self.ends()
        options = self.spec.options()
        captured = Captures(self._coordination).topic(self.name)
        return {
            "name": self.name,
            "schema": self.spec.schema,
            "schema_version": self.backend.version,
            "key": list(self.spec.key),
            "time": self.spec.time,
            "producers": self.spec.producers,
            "partitions": {p: {"earliest": first[p], "latest": last[p]} for p in last},
            "offsets": sum(last.values()) - sum(first.values()),
            **self.backend.statistics(),
            **{name: options[name] for name in _DESCRIBED},
            "versions": self.spec.versions,
            **({} if captured is None else {"captured": captured}),
        }

    def compact(self) -> dict[str, int]:
        """Keep the newest row of every key. Gives how many rows were kept and removed."""
        if not self.spec.key:
            raise Invalid(f"topic {self.name} has no key, so no row replaces another", hint="Use retention instead")
        if self.spec.versions:
            raise Invalid(f"topic {self.name} counts the rows of every key, so that all of them stay")
        return self.backend.compact()

    def enforce_retention(self) -> dict[str, int]:
        """Remove (or archive) what is older or more than the topic keeps. Gives what was removed."""
        return self.backend.enforce_retention()

    def close(self) -> None:
        """Send what producers still hold, and let go; a second close does nothing."""
        from riverrun.log.producer import LAST_CALL

        try:
            for producer in list(self._producers):
                producer.close(LAST_CALL)
        finally:
            self.backend.close()

    def _position(self, offsets: Mapping[int, int]) -> Position:
        return Position({self.name: offsets})
