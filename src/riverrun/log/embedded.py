"""The embedded log: a topic is a directory on this machine, no server. Any process may append and read at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun import ddl
from riverrun.checksums import checksum
from riverrun.columns import OFFSET, TIME
from riverrun.durations import micros
from riverrun.log import frame as frames
from riverrun.log.codec import encode_batch
from riverrun.log.compaction import compact_topic
from riverrun.log.decoder import decodable_runs
from riverrun.log.frame import NO_SEQUENCE, PROMISE, ROWS, Frame
from riverrun.log.journal import Journal
from riverrun.log.producers import Claim, turn_of
from riverrun.log.read_range import find_frames
from riverrun.log.retention import enforce_retention
from riverrun.log.segment_archive import archive_directory
from riverrun.log.statistics import measure
from riverrun.log.topic_backend import Summary, TopicBackend
from riverrun.log.topic_directory import add_schema, load_spec
from riverrun.log.upkeep import Upkeep
from riverrun.log.versioned_keys import VersionedKeys
from riverrun.log.wake import Bell
from riverrun.settings import Settings


class EmbeddedBackend(TopicBackend):
    """A topic in a directory."""

    def __init__(self, directory: str, settings: Settings) -> None:
        spec, versions = load_spec(directory)
        super().__init__(spec, max(versions), _columns(versions))
        self.directory = directory
        self.settings = settings
        fsync = micros(spec.fsync) if isinstance(spec.fsync, timedelta) else spec.fsync
        self.journal = Journal(directory, spec.partitions, fsync, settings, archive_directory(spec))
        self.upkeep = Upkeep(self)
        try:
            self.upkeep.start_if_needed()
        except BaseException:
            self.journal.close()
            raise
        # Batches without a key go round the partitions; where a process begins does not matter.
        self._turn = int.from_bytes(os.urandom(2), "little")

    @property
    def is_open(self) -> bool:
        return self.journal.is_open

    def begins(self) -> dict[int, int]:
        return dict(enumerate(self.journal.extent()[1][0].snapshot.offsets))

    def ends(self) -> dict[int, int]:
        return dict(enumerate(self.journal.ends().offsets))

    def append(
        self, batch: pa.RecordBatch, claim: Claim | None, expected: Mapping[str, int] | None = None
    ) -> dict[int, int]:
        self._turn += 1
        encoded = encode_batch(batch, self.spec, self.version, turn_of(claim, self._turn))
        if expected:
            offsets = self.keys.append(encoded, claim, expected)
        else:
            offsets, _ = self.journal.append(encoded, claim)
        if self.journal.rolled:
            self.journal.rolled = False
            self.upkeep.start()
        return dict(enumerate(offsets))

    def promise(self, partition: int, maxima: Mapping[str, int]) -> dict[int, int]:
        mark = Frame(
            partition=partition,
            rows=0,
            body=b"",
            body_crc=checksum(b""),
            kind=PROMISE,
            span=1,
            min_time=frames.NEVER,
            extras=frames.encode_maxima(maxima),
        )
        return dict(enumerate(self.journal.append([mark])[0]))

    def raise_fence(self, producer: str, fence: int) -> None:
        self.journal.raise_fence(Claim(producer, fence=fence))

    def take_over(self, producer: str) -> Claim:
        return self.journal.take_over(producer)

    def fence(self, producer: str) -> int:
        return self.journal.fence(producer)

    def last_sequence(self, producer: str) -> int | None:
        last = self.journal.last_sequence(producer)
        return None if last == NO_SEQUENCE else last

    @cached_property
    def keys(self) -> VersionedKeys:
        """Of a topic with versions: where the rows of each key are."""
        return VersionedKeys(self)

    def rows_of(self, key: str, columns: Sequence[str] | None = None, after: int = 0) -> pa.Table:
        return self.keys.rows_of(key, columns, after)

    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self.read(start, end, columns)

    def read(
        self,
        start: Mapping[int, int],
        end: Mapping[int, int],
        columns: Sequence[str] | None = None,
        written: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The same, with `written` also rows that are not on the disk yet."""
        decoder = self.decoder(columns)
        for segment, index, low, high in find_frames(self.journal, start, end, written):
            wanted = index[index["kind"] == ROWS]
            self.know_versions(wanted)
            segment.expect(wanted)
            for run in decodable_runs(wanted, low, high):
                bodies = segment.bodies(run)
                if len(run) == 1:
                    partition = run["partition"][0]
                    batch = decoder.decode(run[0], bodies[0], int(low[partition]), int(high[partition]))
                else:
                    batch = decoder.decode_run(run, bodies)
                if batch.num_rows:
                    yield batch

    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        for segment, index, _, _ in find_frames(self.journal, start, end):
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

    def offsets_at(self, moment: int) -> dict[int, int]:
        ends, entries = self.journal.extent()
        start, end = dict(enumerate(entries[0].snapshot.offsets)), dict(enumerate(ends.offsets))
        first: dict[int, int] = {}
        for segment, index, _, _ in find_frames(self.journal, start, end):
            late = index[(index["kind"] == ROWS) & (index["max_time"] >= moment)]
            for partition in np.unique(late["partition"]).tolist():
                if partition not in first:
                    entry = late[late["partition"] == partition][0]
                    first[partition] = self._first_row_at(entry, segment.body(entry), moment)
            if len(first) == len(end):
                break
        return {**end, **first}

    def _first_row_at(self, entry: Any, body: pa.Buffer, moment: int) -> int:
        rows = self.decoder([self.spec.time or TIME, OFFSET]).decode(entry, body)
        # A tombstone has no event time, and null is not late.
        late = pc.greater_equal(rows.column(0).cast(pa.int64()), moment)
        return int(rows.column(OFFSET)[pc.index(late, True).as_py()].as_py())

    def attach(self, bell: Bell) -> None:
        bell.watch(f"{self.directory}/wake")

    def ring(self) -> None:
        self.journal.wake()

    def newest_schema(self) -> str:
        return load_spec(self.directory)[0].schema

    def grow(self, declared: str) -> bool:
        """Take a schema that adds nullable columns as the next version; True if it is new. This handle stays as it is."""
        with self.journal.exclusive():
            spec, versions = load_spec(self.directory)
            grown = spec.grow(declared)
            if grown is not None:
                add_schema(self.directory, max(versions) + 1, grown.schema)
        return grown is not None

    def know_versions(self, index: np.ndarray) -> None:
        """Make sure that frames of these index rows can be decoded: another process may have added columns."""
        if not set(np.unique(index["schema"][index["kind"] == ROWS]).tolist()) <= self.schemas.keys():
            self.schemas.update(_columns(load_spec(self.directory)[1]))

    def statistics(self) -> dict[str, Any]:
        return measure(self.journal)

    def compact(self) -> dict[str, int]:
        return compact_topic(self)

    def enforce_retention(self) -> dict[str, int]:
        return enforce_retention(self)

    @property
    def spill_directory(self) -> str:
        return f"{self.directory}/spill"

    @property
    def has_failed(self) -> bool:
        return self.journal.board.failed

    def repair(self) -> None:
        self.journal.repair()

    def close(self) -> None:
        self.upkeep.stop()
        self.journal.close()


def _columns(versions: Mapping[int, str]) -> dict[int, pa.Schema]:
    return {version: ddl.arrow_schema(ddl.parse(schema)) for version, schema in versions.items()}
