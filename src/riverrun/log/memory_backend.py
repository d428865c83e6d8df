"""A topic in memory: frames as the embedded log has them, in a list."""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.columns import DELETED, KEY, OFFSET, PARTITION, RECEIVED, TIME
from riverrun.durations import from_micros, micros, to_micros, wall_clock
from riverrun.errors import Closed, VersionConflict
from riverrun.log import frame as frames
from riverrun.log.codec import encode_batch, encode_rows
from riverrun.log.frame import NEVER, NO_SEQUENCE, NO_TIME, PROMISE, ROWS, Frame
from riverrun.log.producers import Claim, Producers, turn_of
from riverrun.log.read_range import check_range
from riverrun.log.segment import SegmentSnapshot
from riverrun.log.statistics import RATE_WINDOW
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic_backend import Summary, TopicBackend
from riverrun.log.wake import Bell
from riverrun.settings import Settings


@dataclass(frozen=True, slots=True)
class PlacedFrame:
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


class StoredRows:
    """What all handles of a topic share."""

    def __init__(self, spec: StoredSpec, clock: Callable[[], int]) -> None:
        self.spec = spec
        self.clock = clock
        self.schemas = {1: ddl.arrow_schema(ddl.parse(spec.schema))}
        self.lock = threading.RLock()
        self.placed: list[PlacedFrame] = []
        self.first = [0] * spec.partitions
        self.received = 0
        self.appends = 0
        self.turn = 0
        self.keys: dict[str, list[tuple[PlacedFrame, int]]] = {}  # of a topic with versions, the rows of each key
        self.known = 0  # how many frames are in there
        self.bells: weakref.WeakSet[Bell] = weakref.WeakSet()
        snapshot = SegmentSnapshot(offsets=(0,) * spec.partitions, producers={}, appends=0, received=0)
        self.producers = Producers(snapshot)

    def grow(self, declared: str) -> bool:
        """Take a schema that adds nullable columns as the next version; True if it is new."""
        grown = self.spec.grow(declared)
        if grown is not None:
            self.schemas[len(self.schemas) + 1] = ddl.arrow_schema(ddl.parse(grown.schema))
            self.spec = grown
        return grown is not None


class MemoryBackend(TopicBackend):
    """A handle of a topic in memory; it shows the columns that the topic has when it is made."""

    def __init__(self, stored: StoredRows, settings: Settings) -> None:
        super().__init__(stored.spec, len(stored.schemas), stored.schemas)
        self._stored = stored
        self._settings = settings
        self._encoded_as = replace(stored.spec, compression=None)
        self._closed = False

    @property
    def is_open(self) -> bool:
        return not self._closed

    def begins(self) -> dict[int, int]:
        with self._stored.lock:
            return dict(enumerate(self._stored.first))

    def ends(self) -> dict[int, int]:
        with self._stored.lock:
            return dict(enumerate(self._stored.producers.offsets))

    def append(
        self, batch: pa.RecordBatch, claim: Claim | None, expected: Mapping[str, int] | None = None
    ) -> dict[int, int]:
        self._stored.turn += 1
        turn = turn_of(claim, self._stored.turn)
        return self._append(encode_batch(batch, self._encoded_as, self.version, turn), claim, expected)

    def rows_of(self, key: str, columns: Sequence[str] | None = None, after: int = 0) -> pa.Table:
        with self._stored.lock:
            self._find_keys()
            decoder = self.decoder(columns)
            rows = [
                decoder.decode(placed, placed.frame.body, offset, offset + 1)
                for placed, offset in self._stored.keys.get(key, ())
                if offset >= after
            ]
        return pa.Table.from_batches(rows, schema=decoder.schema)

    def _find_keys(self) -> None:
        """Know the rows of every key by now."""
        stored, decoder = self._stored, self.decoder([KEY, OFFSET])
        for placed in stored.placed[stored.known :]:
            if placed.frame.kind == ROWS:
                rows = decoder.decode(placed, placed.frame.body)
                for key, offset in zip(rows.column(KEY).to_pylist(), rows.column(OFFSET).to_pylist(), strict=True):
                    stored.keys.setdefault(key, []).append((placed, offset))
        stored.known = len(stored.placed)

    def _check_versions(self, expected: Mapping[str, int]) -> None:
        self._find_keys()
        found = {key: len(self._stored.keys.get(key, ())) for key in expected}
        if found != expected:
            raise VersionConflict.of(self.name, expected, found)

    def promise(self, partition: int, maxima: Mapping[str, int]) -> dict[int, int]:
        mark = Frame(partition=partition, rows=0, body=b"", body_crc=0, kind=PROMISE, span=1, min_time=NEVER)
        return self._append([replace(mark, extras=frames.encode_maxima(maxima))], None)

    def raise_fence(self, producer: str, fence: int) -> None:
        self._append([], Claim(producer, fence=fence))

    def take_over(self, producer: str) -> Claim:
        with self._stored.lock:
            claim = self._stored.producers.successor(producer, frames.producer_id(producer))
            self._append([], replace(claim, sequence=NO_SEQUENCE))
            return claim

    def fence(self, producer: str) -> int:
        memory = self._stored.producers.memories.get(frames.producer_id(producer))
        return memory.fence if memory else 0

    def last_sequence(self, producer: str) -> int | None:
        memory = self._stored.producers.memories.get(frames.producer_id(producer))
        return memory.recent[-1].sequence if memory and memory.recent else None

    def _append(
        self, batch: list[Frame], claim: Claim | None, expected: Mapping[str, int] | None = None
    ) -> dict[int, int]:
        if self._closed:
            raise Closed(f"topic {self.name} is closed")
        stored = self._stored
        with stored.lock:
            if claim:
                producer = frames.producer_id(claim.name)
                stored.producers.admit(self.name, claim, producer, self._settings)
                repeated = stored.producers.check(self.name, claim.name, producer, claim.fence, claim.sequence)
                if repeated is not None:
                    if stored.producers.is_raised(producer, claim.fence):
                        stored.producers.note(producer, claim.fence, NO_SEQUENCE, stored.received)
                    return dict(enumerate(repeated))
            if expected:
                self._check_versions(expected)
            stored.received = max(stored.received, stored.clock())
            stored.appends += 1
            offsets = stored.producers.offsets
            for frame in batch:
                stored.placed.append(PlacedFrame(frame, offsets[frame.partition], stored.received, stored.received))
                offsets[frame.partition] += frame.span
            if claim:
                stored.producers.note(producer, claim.fence, claim.sequence, stored.received)
            ends = dict(enumerate(offsets))
        self.ring()
        return ends

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

    def _between(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[PlacedFrame]:
        with self._stored.lock:
            check_range(self.name, start, self.begins(), self.ends())
            return [
                placed
                for placed in self._stored.placed
                if placed.frame.partition in start
                and placed.end > start[placed.frame.partition]
                and placed.offset < end.get(placed.frame.partition, -1)
            ]

    def offsets_at(self, moment: int) -> dict[int, int]:
        with self._stored.lock:
            first, placed_frames = self.ends(), list(self._stored.placed)
        # A tombstone has no event time where a column holds it.
        decoder = self.decoder([self.spec.time or TIME, OFFSET])
        for placed in reversed(placed_frames):
            if placed.frame.kind == ROWS and placed.times[1] >= moment:
                rows = decoder.decode(placed, placed.frame.body)
                late = pc.index(pc.greater_equal(rows.column(0).cast(pa.int64()), moment), True).as_py()
                first[placed.frame.partition] = rows.column(OFFSET)[late].as_py()
        return first

    def attach(self, bell: Bell) -> None:
        self._stored.bells.add(bell)

    def ring(self) -> None:
        for bell in list(self._stored.bells):
            bell.ring()

    def newest_schema(self) -> str:
        return self._stored.spec.schema

    def statistics(self) -> dict[str, Any]:
        stored, since = self._stored, self._stored.clock() - RATE_WINDOW
        recent = sum(placed.frame.rows for placed in stored.placed if placed.received > since)
        return {
            "bytes": sum(placed.frame.frame_bytes for placed in stored.placed),
            "appends": stored.appends,
            "rows_per_second": recent / (RATE_WINDOW / 1e6),
            "received": from_micros(stored.received).isoformat() if stored.received else None,
        }

    def compact(self) -> dict[str, int]:
        with self._stored.lock:
            batches = self.batches(self.begins(), self.ends(), [KEY, PARTITION, OFFSET])
            rows = [row for batch in batches for row in batch.to_pylist()]
            newest = {row[KEY]: (row[PARTITION], row[OFFSET]) for row in rows}
            left = [self._compacted(placed, set(newest.values())) for placed in self._stored.placed]
            before = sum(placed.frame.rows for placed in self._stored.placed)
            self._stored.placed = [placed for placed in left if placed is not None]
            after = sum(placed.frame.rows for placed in self._stored.placed)
            return {"kept": after, "removed": before - after}

    def _compacted(self, placed: PlacedFrame, newest: set[tuple[int, int]]) -> PlacedFrame | None:
        if placed.frame.kind != ROWS:
            return placed
        oldest_tombstone = wall_clock() - self._settings.tombstone_grace
        rows = self.decoder().decode(placed, placed.frame.body)
        hidden = zip(*(rows.column(n).to_pylist() for n in (PARTITION, OFFSET, DELETED, RECEIVED)), strict=True)
        keep = [
            (partition, offset) in newest and not (deleted and to_micros(received) < oldest_tombstone)
            for partition, offset, deleted, received in hidden
        ]
        if not any(keep):
            return None
        written = [DELETED, RECEIVED, OFFSET, *([TIME] if self.spec.time is None else [])]
        left = rows.filter(pa.array(keep)).select([*self.schema.names, *written])
        bounds = (placed.first_received, placed.received)
        frame = encode_rows(left, self._encoded_as, self.version, placed.frame.partition, bounds)
        return PlacedFrame(frame, frame.offset, *bounds)

    def enforce_retention(self) -> dict[str, int]:
        with self._stored.lock:
            placed = self._stored.placed
            gone = 0
            if self.spec.retention is not None:
                oldest = self._stored.clock() - micros(self.spec.retention)
                while gone < len(placed) and placed[gone].received < oldest:
                    gone += 1
            if self.spec.retention_bytes is not None:
                size = sum(p.frame.frame_bytes for p in placed[gone:])
                while gone < len(placed) and size > self.spec.retention_bytes:
                    size -= placed[gone].frame.frame_bytes
                    gone += 1
            for old in placed[:gone]:
                self._stored.first[old.frame.partition] = old.end
            self._stored.placed = placed[gone:]
            return {"removed": sum(old.frame.rows for old in placed[:gone])}

    @cached_property
    def spill_directory(self) -> str:
        path = tempfile.mkdtemp(prefix="riverrun-spill-")
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path

    @property
    def has_failed(self) -> bool:
        return False

    def repair(self) -> None:
        return

    def close(self) -> None:
        self._closed = True
