"""Topics in memory, for tests: the same promises as the embedded log, kept by one process and gone with it.

>>> log = MemoryLog()
>>> clicks = log.topic("clicks", "user string, n bigint", key="user", partitions=1)
>>> str(clicks.append([{"user": "ada", "n": 1}, {"user": "bob", "n": 2}]))
'clicks@0:2'
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.durations import Duration, from_micros, micros, seconds, to_micros, wall_clock
from riverrun.errors import Closed, Invalid, NotFound, did_you_mean
from riverrun.log import frame as frames
from riverrun.log.codec import encode_batch, encode_rows
from riverrun.log.coordination import Coordination
from riverrun.log.frame import NEVER, NO_SEQUENCE, NO_TIME, PROMISE, ROWS, Frame
from riverrun.log.producers import Claim, Producers
from riverrun.log.rates import WINDOW
from riverrun.log.segment import SegmentSnapshot
from riverrun.log.spec import UNSET, TopicSpec, added_columns
from riverrun.log.topic import Summary, Topic
from riverrun.log.wake import Bell
from riverrun.position import Position
from riverrun.settings import Settings


class MemoryLog:
    """Several topics in memory, with the groups that read them. `clock` says when rows are received, in µs."""

    def __init__(self, settings: Settings | None = None, clock: Callable[[], int] = wall_clock) -> None:
        self.settings = settings or Settings()
        self._clock = clock
        self.coordination = Coordination(":memory:", create=True)
        self._topics: dict[str, MemoryTopic] = {}

    def topic(self, name: str | TopicSpec, schema: str | None = None, **options: Any) -> MemoryTopic:
        """Create or open a topic, as `River.topic` does."""
        spec = name
        if not isinstance(spec, TopicSpec):
            spec = TopicSpec(spec, UNSET if schema is None else schema, **options)
        known = self._topics.get(spec.name)
        if known is None:
            if not isinstance(spec.schema, str):
                raise NotFound(f"there is no topic {spec.name!r}", hint=did_you_mean(spec.name, self._topics))
            known = self._topics[spec.name] = MemoryTopic(
                spec.resolved(), self.settings, self.coordination, clock=self._clock
            )
        else:
            spec.check_same(known.spec)
            if isinstance(spec.schema, str) and spec.schema != known.spec.schema:
                known = self._topics[spec.name] = known.evolved(spec.schema)
        known.opener = self.topic
        return known

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def drop_topic(self, name: str) -> None:
        if name not in self._topics:
            raise NotFound(f"there is no topic {name!r}", hint=did_you_mean(name, self._topics))
        self._topics.pop(name).close()

    def close(self) -> None:
        for topic in self._topics.values():
            topic.close()
        self.coordination.close()


@dataclass(frozen=True, slots=True)
class _Placed:
    """A frame that has its offset and its receive times."""

    frame: Frame
    offset: int
    first_received: int
    received: int

    def __getitem__(self, name: str) -> Any:
        """As the decoder asks for a header's fields."""
        return getattr(self if name in ("offset", "received") else self.frame, name)

    @property
    def end(self) -> int:
        return self.offset + self.frame.span

    @property
    def times(self) -> tuple[int, int]:
        takes_received = self.frame.min_time == NO_TIME
        return (self.first_received, self.received) if takes_received else (self.frame.min_time, self.frame.max_time)


class _Store:
    """What all handles of a topic share."""

    def __init__(self, partitions: int) -> None:
        self.changed = threading.Condition()
        self.placed: list[_Placed] = []
        self.first = [0] * partitions
        self.received = 0
        self.appends = 0
        self.turn = 0
        self.bells: weakref.WeakSet[Bell] = weakref.WeakSet()
        self.producers = Producers(SegmentSnapshot(offsets=(0,) * partitions, producers={}, appends=0, received=0))


class MemoryTopic(Topic):
    """A topic in memory."""

    def __init__(
        self,
        spec: TopicSpec,
        settings: Settings,
        coordination: Coordination,
        schemas: dict[int, str] | None = None,
        store: _Store | None = None,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        assert isinstance(spec.schema, str)
        self._schemas = schemas or {1: spec.schema}
        super().__init__(spec, self._schemas, settings, coordination)
        self._store = store or _Store(self.partitions)
        self._bells = self._store.bells
        self._version = max(self._schemas)
        self._plain = replace(spec, compression=None)
        self._clock = clock
        self._closed = False

    def evolved(self, declared: str) -> MemoryTopic:
        """The same rows under a schema that has more columns; this handle goes on with those it knows."""
        assert isinstance(self.spec.schema, str)
        if not added_columns(self.name, self.spec.schema, declared):
            return self
        self._schemas[self._version + 1] = ddl.render(ddl.parse(declared))
        self._arrow[self._version + 1] = ddl.arrow_schema(ddl.parse(declared))
        spec = replace(self.spec, schema=declared)
        return MemoryTopic(spec, self.settings, self.coordination, dict(self._schemas), self._store, self._clock)

    @cached_property
    def spill_directory(self) -> str:
        path = tempfile.mkdtemp(prefix="riverrun-spill-")
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path

    def close(self) -> None:
        self.close_producers()
        self._closed = True

    def append_batch(self, batch: pa.RecordBatch, claim: Claim | None) -> Position:
        self._store.turn += 1
        return self._append(encode_batch(batch, self._plain, self._version, self._store.turn), claim)

    def raise_fence(self, producer: str, fence: int) -> None:
        self._append([], Claim(producer, fence=fence))

    def take_over(self, producer: str) -> Claim:
        with self._store.changed:
            known = self._store.producers.known.get(frames.producer_id(producer))
            claim = Claim(producer, known.last_sequence, known.fence + 1) if known else Claim(producer, fence=1)
            self._append([], replace(claim, sequence=NO_SEQUENCE))
            return claim

    def last_sequence(self, producer: str) -> int | None:
        known = self._store.producers.known.get(frames.producer_id(producer))
        return known.recent[-1].sequence if known and known.recent else None

    def promise(self, partition: int, maxima: Mapping[str, int]) -> Position:
        mark = Frame(partition=partition, rows=0, body=b"", body_crc=0, kind=PROMISE, span=1, min_time=NEVER)
        return self._append([replace(mark, extras=frames.encode_maxima(maxima))], None)

    def _append(self, batch: list[Frame], claim: Claim | None) -> Position:
        if self._closed:
            raise Closed(f"topic {self.name} is closed")
        store = self._store
        with store.changed:
            if claim:
                producer = frames.producer_id(claim.name)
                repeated = store.producers.check(self.name, claim.name, producer, claim.fence, claim.sequence)
                if repeated is not None:
                    return self._position(repeated)
            store.received = max(store.received, self._clock())
            store.appends += 1
            offsets = store.producers.offsets
            for frame in batch:
                store.placed.append(_Placed(frame, offsets[frame.partition], store.received, store.received))
                offsets[frame.partition] += frame.span
            if claim:
                store.producers.note(producer, claim.fence, claim.sequence, store.received)
            store.changed.notify_all()
            position = self._position(offsets)
        self.ring()
        return position

    @property
    def earliest(self) -> Position:
        return self._position(self._store.first)

    @property
    def latest(self) -> Position:
        with self._store.changed:
            return self._position(self._store.producers.offsets)

    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        decoder = self.decoder(columns)
        for placed in self._between(start, end):
            partition = placed.frame.partition
            if placed.frame.kind == ROWS:
                batch = decoder.decode(placed, placed.frame.body, start[partition], end.get(partition))
                if batch.num_rows:
                    yield batch

    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        for placed in self._between(start, end):
            frame = placed.frame
            yield Summary(
                partition=frame.partition,
                offset=placed.offset,
                span=frame.span,
                rows=frame.rows,
                size=max(frame.raw_bytes, len(frame.body)),
                min_time=placed.times[0],
                max_time=placed.times[1],
                first_received=placed.first_received,
                received=placed.received,
                maxima=frames.decode_maxima(memoryview(frame.extras)),
            )

    def _between(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[_Placed]:
        with self._store.changed:
            last = dict(enumerate(self._store.producers.offsets))
            self.check_range(start, dict(enumerate(self._store.first)), last)
            return [
                placed
                for placed in self._store.placed
                if placed.frame.partition in start
                and placed.end > start[placed.frame.partition]
                and placed.offset < end.get(placed.frame.partition, -1)
            ]

    def offsets_at(self, moment: datetime) -> Position:
        wanted = to_micros(moment)
        with self._store.changed:
            found = list(self._store.producers.offsets)
            pending = list(self._store.placed)
        # A tombstone has no event time where a column holds it.
        decoder = self.decoder([self.spec.time if isinstance(self.spec.time, str) else "_time", "_offset"])
        for placed in reversed(pending):
            if placed.frame.kind == ROWS and placed.times[1] >= wanted:
                rows = decoder.decode(placed, placed.frame.body)
                first = pc.index(pc.greater_equal(rows.column(0).cast(pa.int64()), wanted), True).as_py()
                found[placed.frame.partition] = rows.column("_offset")[first].as_py()
        return self._position(found)

    def wait(self, after: Position, timeout: Duration | None = None) -> bool:
        known = after.get(self.name, {})
        with self._store.changed:
            return self._store.changed.wait_for(
                lambda: any(offset > known.get(p, 0) for p, offset in enumerate(self._store.producers.offsets)),
                seconds(timeout),
            )

    def _position(self, offsets: Sequence[int]) -> Position:
        return Position({self.name: dict(enumerate(offsets))})

    def describe(self) -> dict[str, Any]:
        first, last = self.earliest[self.name], self.latest[self.name]
        return {
            "name": self.name,
            "schema": self.spec.schema,
            "schema_version": self._version,
            "key": list(self.spec.key),
            "time": self.spec.time,
            "producers": self.spec.producers,
            "partitions": {p: {"earliest": first[p], "latest": last[p]} for p in range(self.partitions)},
            "offsets": sum(last.values()) - sum(first.values()),
            "bytes": sum(placed.frame.frame_bytes for placed in self._store.placed),
            "appends": self._store.appends,
            "rows_per_second": self._rows_per_second(),
            "received": from_micros(self._store.received).isoformat() if self._store.received else None,
        }

    def _rows_per_second(self) -> float:
        since = self._clock() - WINDOW
        return sum(placed.frame.rows for placed in self._store.placed if placed.received > since) / (WINDOW / 1e6)

    def compact(self) -> dict[str, int]:
        if not self.spec.key:
            raise Invalid(f"topic {self.name} has no key, so there is nothing to compact by")
        with self._store.changed:
            rows = self.read(columns=["_key", "_partition", "_offset"]).to_pylist()
            newest = {row["_key"]: (row["_partition"], row["_offset"]) for row in rows}
            kept = [self._compacted(placed, set(newest.values())) for placed in self._store.placed]
            before = sum(placed.frame.rows for placed in self._store.placed)
            self._store.placed = [placed for placed in kept if placed is not None]
            after = sum(placed.frame.rows for placed in self._store.placed)
            return {"kept": after, "removed": before - after}

    def _compacted(self, placed: _Placed, newest: set[tuple[int, int]]) -> _Placed | None:
        if placed.frame.kind != ROWS:
            return placed
        oldest_tombstone = to_micros(datetime.now().astimezone()) - self.settings.tombstone_grace
        rows = self.decoder().decode(placed, placed.frame.body)
        hidden = zip(
            *(rows.column(n).to_pylist() for n in ("_partition", "_offset", "_deleted", "_received")), strict=True
        )
        keep = [
            (partition, offset) in newest and not (deleted and to_micros(received) < oldest_tombstone)
            for partition, offset, deleted, received in hidden
        ]
        if not any(keep):
            return None
        stored = ["_deleted", "_received", "_offset", *(["_time"] if self.spec.time is None else [])]
        left = rows.filter(pa.array(keep)).select([*self.schema.names, *stored])
        bounds = (placed.first_received, placed.received)
        frame = encode_rows(left, self._plain, self._version, placed.frame.partition, bounds)
        return _Placed(frame, frame.offset, *bounds)

    def enforce_retention(self) -> dict[str, int]:
        with self._store.changed:
            placed = self._store.placed
            gone = 0
            if isinstance(self.spec.retention, timedelta):
                oldest = self._clock() - micros(self.spec.retention)
                while gone < len(placed) and placed[gone].received < oldest:
                    gone += 1
            if isinstance(self.spec.retention_bytes, int):
                size = sum(p.frame.frame_bytes for p in placed[gone:])
                while gone < len(placed) and size > self.spec.retention_bytes:
                    size -= placed[gone].frame.frame_bytes
                    gone += 1
            for old in placed[:gone]:
                self._store.first[old.frame.partition] = old.end
            self._store.placed = placed[gone:]
            return {"removed": sum(old.frame.rows for old in placed[:gone])}
