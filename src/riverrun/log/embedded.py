"""The embedded topic: a directory on this machine, no server. Any process may append and read at the same time."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl, durable
from riverrun.durations import Duration, from_micros, micros, seconds, to_micros
from riverrun.errors import Corrupt, Invalid, NewerFormat
from riverrun.log import frame as frames
from riverrun.log.archive import archive_of, claim
from riverrun.log.board import Ends
from riverrun.log.codec import encode_batch
from riverrun.log.compaction import compact
from riverrun.log.coordination import Coordination
from riverrun.log.decoder import runs
from riverrun.log.frame import NO_SEQUENCE, PROMISE, ROWS, Frame
from riverrun.log.journal import Journal
from riverrun.log.producers import Claim
from riverrun.log.rates import rows_per_second
from riverrun.log.retention import enforce
from riverrun.log.segment import Segment
from riverrun.log.segments import Entry
from riverrun.log.spec import TopicSpec, added_columns
from riverrun.log.topic import Summary, Topic
from riverrun.log.upkeep import Upkeep
from riverrun.log.wake import Bell
from riverrun.position import Position
from riverrun.settings import Settings

_FORMAT = 1


def create(directory: str, spec: TopicSpec) -> None:
    """Make a topic: complete under its name, or not there. Somebody else making it at the same time is no error."""
    parent, name = os.path.split(directory)
    fresh = f"{parent}/.new-{name}-{uuid.uuid4().hex[:8]}"
    archive = archive_of(spec)
    if archive:
        claim(archive, directory)
    durable.make_directory(f"{fresh}/schema")
    try:
        assert isinstance(spec.schema, str)
        assert isinstance(spec.partitions, int)
        Journal.create(fresh, spec.partitions)
        durable.write_file(f"{fresh}/schema/1", spec.schema)
        durable.write_file(f"{fresh}/topic.json", json.dumps({"format": _FORMAT, **spec.options()}, indent=1))
        durable.rename(fresh, directory)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        if not os.path.exists(f"{directory}/topic.json"):
            raise


def load_spec(directory: str) -> tuple[TopicSpec, dict[int, str]]:
    """The stored spec and every version of its schema."""
    path = f"{directory}/topic.json"
    try:
        with open(path, encoding="utf-8") as file:
            options = json.load(file)
        versions = {
            int(v): _read_text(f"{directory}/schema/{v}") for v in os.listdir(f"{directory}/schema") if v.isdigit()
        }
        found, newest = options.pop("format"), max(versions)
    except (OSError, ValueError, KeyError) as error:
        raise Corrupt(f"{path} cannot be read: {error}", hint="Restore the topic's directory from a copy") from None
    if found > _FORMAT:
        raise NewerFormat(f"{path} was written by a newer Riverrun (format {found})", hint="Upgrade Riverrun")
    try:
        return TopicSpec(schema=versions[newest], **options), versions
    except (Invalid, TypeError, ValueError) as error:
        raise Corrupt(f"{path}: this is no topic: {error}", hint="Restore the topic's directory from a copy") from None


class EmbeddedTopic(Topic):
    """A topic in a directory."""

    def __init__(self, directory: str, settings: Settings, coordination: Coordination) -> None:
        spec, versions = load_spec(directory)
        super().__init__(spec, versions, settings, coordination)
        self.directory = directory
        self._version = max(versions)
        fsync = micros(spec.fsync) if isinstance(spec.fsync, timedelta) else str(spec.fsync)
        self.journal = Journal(directory, self.partitions, fsync, settings, archive_of(spec))
        self.upkeep = Upkeep(self)
        self.upkeep.start_if_needed()
        # Batches without a key go round the partitions; where a process begins does not matter.
        self._turn = int.from_bytes(os.urandom(2), "little")

    def evolve(self, declared: str) -> bool:
        """Take a schema that adds nullable columns as the next version; True if it is new."""
        with self.journal.exclusive():
            spec, versions = load_spec(self.directory)
            assert isinstance(spec.schema, str)
            if not added_columns(self.name, spec.schema, declared):
                return False
            version = max(versions) + 1
            durable.write_file(f"{self.directory}/schema/{version}", ddl.render(ddl.parse(declared)))
        return True

    def newest_schema(self) -> str:
        schema = load_spec(self.directory)[0].schema
        assert isinstance(schema, str)
        return schema

    @property
    def is_open(self) -> bool:
        """Whether this handle can be used: neither closed here nor dropped by anybody."""
        return self.journal.is_open

    @property
    def spill_directory(self) -> str:
        return f"{self.directory}/spill"

    def close(self) -> None:
        try:
            self.close_producers()
        finally:
            self.upkeep.stop()
            self.journal.close()

    def append_batch(self, batch: pa.RecordBatch, claim: Claim | None) -> Position:
        self._turn += 1
        offsets, _ = self.journal.append(encode_batch(batch, self.spec, self._version, self._turn), claim)
        if self.journal.rolled:
            self.journal.rolled = False
            self.upkeep.start()
        return self._position(offsets)

    def raise_fence(self, producer: str, fence: int) -> None:
        self.journal.raise_fence(Claim(producer, fence=fence))

    def take_over(self, producer: str) -> Claim:
        return self.journal.take_over(producer)

    def last_sequence(self, producer: str) -> int | None:
        last = self.journal.last_sequence(producer)
        return None if last == NO_SEQUENCE else last

    def promise(self, partition: int, maxima: Mapping[str, int]) -> Position:
        mark = Frame(
            partition=partition,
            rows=0,
            body=b"",
            body_crc=frames.checksum(b""),
            kind=PROMISE,
            span=1,
            min_time=frames.NEVER,
            extras=frames.encode_maxima(maxima),
        )
        return self._position(self.journal.append([mark])[0])

    @property
    def earliest(self) -> Position:
        return self._position(self.view()[1][0].snapshot.offsets)

    @property
    def latest(self) -> Position:
        return self._position(self.journal.ends().offsets)

    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        decoder = self.decoder(columns)
        for segment, index, low, high in self._indexed(start, end):
            wanted = index[index["kind"] == ROWS]
            self.know_versions(wanted)
            segment.expect(wanted)
            for run in runs(wanted, low, high):
                bodies = segment.bodies(run)
                if len(run) == 1:
                    partition = run["partition"][0]
                    batch = decoder.decode(run[0], bodies[0], int(low[partition]), int(high[partition]))
                else:
                    batch = decoder.decode_run(run, bodies)
                if batch.num_rows:
                    yield batch

    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        for segment, index, _, _ in self._indexed(start, end):
            for entry in index[(index["kind"] == ROWS) | (index["kind"] == PROMISE)]:
                yield Summary(
                    partition=int(entry["partition"]),
                    offset=int(entry["offset"]),
                    span=int(entry["span"]),
                    rows=int(entry["rows"]),
                    size=int(max(entry["raw_bytes"], entry["body_bytes"])),
                    min_time=int(entry["min_time"]),
                    max_time=int(entry["max_time"]),
                    first_received=int(entry["first_received"]),
                    received=int(entry["received"]),
                    maxima=frames.decode_maxima(segment.extras(entry)),
                )

    def offsets_at(self, moment: datetime) -> Position:
        wanted = to_micros(moment)
        ends, entries = self.view()
        found: dict[int, int] = {}
        start, end = dict(enumerate(entries[0].snapshot.offsets)), dict(enumerate(ends.offsets))
        for segment, index, _, _ in self._indexed(start, end):
            late = index[(index["kind"] == ROWS) & (index["max_time"] >= wanted)]
            for partition in np.unique(late["partition"]).tolist():
                if partition not in found:
                    entry = late[late["partition"] == partition][0]
                    found[partition] = self._first_row_at(entry, segment.body(entry), wanted)
            if len(found) == self.partitions:
                break
        return self._position([found.get(p, ends.offsets[p]) for p in range(self.partitions)])

    def _first_row_at(self, entry: Any, body: pa.Buffer, wanted: int) -> int:
        time = self.spec.time if isinstance(self.spec.time, str) else "_time"
        rows = self.decoder([time, "_offset"]).decode(entry, body)
        # A tombstone has no event time, and null is not late.
        late = pc.greater_equal(rows.column(0).cast(pa.int64()), wanted)
        return int(rows.column("_offset")[pc.index(late, True).as_py()].as_py())

    def wait(self, after: Position, timeout: Duration | None = None) -> bool:
        known = after[self.name] if self.name in after else {}

        def more() -> bool:
            return any(offset > known.get(p, 0) for p, offset in enumerate(self.journal.ends().offsets))

        if more():
            return True
        with Bell() as bell:
            self.attach(bell)
            return bell.wait_until(more, seconds(timeout))

    def attach(self, bell: Bell) -> None:
        bell.watch(f"{self.directory}/wake")

    def ring(self) -> None:
        self.journal.wake()

    def _indexed(
        self, start: Mapping[int, int], end: Mapping[int, int]
    ) -> Iterator[tuple[Segment, np.ndarray, np.ndarray, np.ndarray]]:
        """Every segment that has some of the range, the index rows of the frames in it, and the range by partition.

        The low end rises when segments were rewritten while they were read: a frame may hold rows given already.
        """
        ends, pending = self.view()
        first, last = dict(enumerate(pending[0].snapshot.offsets)), dict(enumerate(ends.offsets))
        self.check_range(start, first, last)
        low = np.full(self.partitions, 1 << 62)
        high = np.full(self.partitions, -1)
        for partition, offset in start.items():
            low[partition], high[partition] = offset, min(end.get(partition, offset), last[partition])
        pending = pending[_first_segment(pending, low, high) :]
        while pending:
            entry = pending[0]
            following = pending[1].snapshot.offsets if len(pending) > 1 else ends.offsets
            if np.all((low >= high) | (np.array(entry.snapshot.offsets) >= high)):
                return
            if np.all((np.array(following) <= low) | (np.array(entry.snapshot.offsets) >= high)):
                pending = pending[1:]
                continue
            try:
                segment = self.journal.segments.open(entry)
            except FileNotFoundError:
                low = np.maximum(low, entry.snapshot.offsets)  # all segments before it are done
                self.journal.segments.forget()
                ends, pending = self.view()
                first = dict(enumerate(pending[0].snapshot.offsets))
                rest = {p: int(low[p]) for p in start if low[p] < high[p]}
                self.check_range(rest, first, dict(enumerate(ends.offsets)))
                continue
            # Bytes of the board mean the file as it was appended; a rewritten one is complete.
            grows = entry.first_commit == ends.segment and not entry.snapshot.generation
            index = segment.index(ends.end if grows else segment.size)
            index = index[_first_frame(index, low, high) :]
            partitions = index["partition"]
            wanted = (index["offset"] + index["span"] > low[partitions]) & (index["offset"] < high[partitions])
            yield segment, index[wanted], low, high
            pending = pending[1:]

    def view(self) -> tuple[Ends, list[Entry]]:
        """How far readers may look, and the segments up to there."""
        while True:
            ends = self.journal.ends()
            try:
                entries = self.journal.segments.entries(ends.segment)
            except Corrupt:
                if self.journal.ends().segment == ends.segment:
                    raise
                continue  # rolled meanwhile, and already removed by retention
            entries = [entry for entry in entries if entry.first_commit <= ends.segment]
            if entries:
                return ends, entries

    @property
    def schemas(self) -> Mapping[int, pa.Schema]:
        """Columns of every version of the schema."""
        return self._arrow

    def know_versions(self, index: np.ndarray) -> None:
        """Make sure that frames of these index rows can be decoded."""
        if not set(np.unique(index["schema"][index["kind"] == ROWS]).tolist()) <= self._arrow.keys():
            self._load_versions()

    def _load_versions(self) -> None:
        """Another process added columns; this handle goes on showing those it was opened with."""
        _, versions = load_spec(self.directory)
        self._arrow.update({version: ddl.arrow_schema(ddl.parse(text)) for version, text in versions.items()})

    def _position(self, offsets: Sequence[int]) -> Position:
        return Position({self.name: dict(enumerate(offsets))})

    def describe(self) -> dict[str, Any]:
        ends, entries = self.view()
        first = entries[0].snapshot.offsets
        size = sum(os.path.getsize(entry.path) for entry in entries if os.path.exists(entry.path))
        return {
            "name": self.name,
            "schema": self.spec.schema,
            "schema_version": self._version,
            "key": list(self.spec.key),
            "time": self.spec.time,
            "producers": self.spec.producers,
            "partitions": {p: {"earliest": first[p], "latest": ends.offsets[p]} for p in range(self.partitions)},
            "offsets": sum(ends.offsets) - sum(first),
            "bytes": size,
            "segments": len(entries),
            "appends": ends.commit,
            "rows_per_second": rows_per_second(self),
            "received": from_micros(ends.received).isoformat() if ends.received else None,
            **{
                name: self.spec.options()[name]
                for name in ("retention", "retention_bytes", "compact", "fsync", "archive")
            },
            "recoveries": self.journal.board.recoveries,
        }

    def compact(self) -> dict[str, int]:
        return compact(self)

    def enforce_retention(self) -> dict[str, int]:
        return enforce(self)


def _first_segment(entries: Sequence[Entry], low: np.ndarray, high: np.ndarray) -> int:
    """Where a range begins. Looks from the end, where most readers are: what lies before costs them nothing."""
    at, wanted = len(entries) - 1, low < high
    while at > 0 and np.any(wanted & (np.array(entries[at].snapshot.offsets) > low)):
        at -= 1
    return at


def _first_frame(index: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """The same within a segment: no frame before this one has rows of the range."""
    at, step, wanted = len(index), 64, low < high
    while at > 0 and wanted.any():
        begin = max(0, at - step)
        # Only rows: in a merged segment, promises come behind the frame whose offsets they are among.
        block = index[begin:at][index["kind"][begin:at] == ROWS]
        wanted[block["partition"][block["offset"] <= low[block["partition"]]]] = False
        at, step = begin, 2 * step
    return at


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
