"""What a log supplies for one of its topics. `Topic` adds what is the same for every log.

A backend promises:
1. An append is atomic over all partitions: readers see all of it or nothing. It is there when the call returns, as
   safely as the topic's `fsync` says; if it raises, nothing was appended.
2. Offsets rise by one from row to row within a partition. A promise takes an offset too, and rows that retention or
   compaction removed leave theirs behind; no offset is ever given to another row.
3. Readers see the rows of a partition in the order of their offsets. There is no order between partitions.
4. A repeated (producer, sequence) has no effect, and a producer with an older fence is refused: also after a crash, and
   whichever process appended.
5. Threads and processes may use the same topic at the same time.

Every method may raise Closed after `close`, NotFound once the topic was dropped by anybody, Corrupt where stored bytes
are damaged, and Unavailable or a Transient error where the log cannot be reached. `tests/contracts` holds every backend
to this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from riverrun.durations import wall_clock
from riverrun.errors import NotFound, OutOfRange, did_you_mean
from riverrun.log.codec import HIDDEN
from riverrun.log.decoder import Decoder
from riverrun.log.producers import Claim
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.wake import Bell


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


class PromiseMade(NamedTuple):
    """Nothing older than these times comes from these producers."""

    partition: int
    offset: int
    received: int
    maxima: Mapping[str, int]


class Undecodable(NamedTuple):
    """A message that is no row of the topic, for quarantine: where it is, what it has, and why it is none."""

    partition: int
    offset: int
    received: int
    key: bytes | None
    value: bytes | None
    error: str


class Contents(NamedTuple):
    """A part of a topic: rows, and what else lies among them."""

    rows: pa.RecordBatch
    promises: Sequence[PromiseMade] = ()
    undecodable: Sequence[Undecodable] = ()


class TopicBackend(ABC):
    """One topic of a log, as one process has opened it. Offsets are given as {partition: offset}, of all partitions.

    `schemas` has the columns of every version of the schema; `version` is the one this handle shows. When another
    process adds columns, the handle goes on with those it has.
    """

    has_headers = True  # whether `summaries` are known without reading rows
    receipt_rises = True  # whether rows are received in the order of their offsets
    grain = 1  # offsets that can only be read together begin at a multiple of it

    def __init__(self, spec: StoredSpec, version: int, schemas: dict[int, pa.Schema]) -> None:
        self.spec = spec
        self.version = version
        self.schemas = schemas

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def schema(self) -> pa.Schema:
        """The topic's columns."""
        return self.schemas[self.version]

    def decoder(self, columns: Sequence[str] | None = None) -> Decoder:
        """The decoder for some columns, or all of them with the hidden ones. NotFound names one that is not there."""
        there = [*self.schema.names, *HIDDEN]
        for name in columns or ():
            if name not in there:
                raise NotFound(f"topic {self.name} has no column {name!r}", hint=did_you_mean(name, there))
        return Decoder(self.spec, self.schema, self.schemas, columns)

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether this handle can be used: neither closed here nor dropped by anybody. Raises nothing."""

    @abstractmethod
    def begins(self) -> dict[int, int]:
        """The first offsets that can be read; those of an empty partition equal its end."""

    @abstractmethod
    def ends(self) -> dict[int, int]:
        """The offsets that the next rows will get. Cheap: readers ask again and again."""

    @abstractmethod
    def append(
        self, batch: pa.RecordBatch, claim: Claim | None, expected: Mapping[str, int] | None = None
    ) -> dict[int, int]:
        """Append rows, at least one, that `Topic.checked` gave. Gives the ends after them.

        A row goes to the partition of its key, as `riverrun.log.partitioner` has it; rows without a key go to any one.
        For a sequence that the producer has appended already, nothing is appended and the ends are those after the
        first time (or of the oldest append that is still known). Raises Fenced if a newer fence of the producer is
        known, DiskFull if there is no room. Of a topic with versions, `expected` says how many rows keys must have by
        now, written or not yet on the disk; else VersionConflict says how many they have. A repeat is not asked for it.
        """

    @abstractmethod
    def rows_of(self, key: str, columns: Sequence[str] | None = None, after: int = 0) -> pa.Table:
        """The rows of a key in a topic with versions, from offset `after` of its partition on, in order: all that were
        written, perhaps not on the disk yet. How many others there are does not matter much."""

    @abstractmethod
    def promise(self, partition: int, maxima: Mapping[str, int]) -> dict[int, int]:
        """Record that nothing older than these times will come from these producers. Gives the ends after it.

        It takes one offset of the partition and has no row; `summaries` tells of it.
        """

    @abstractmethod
    def raise_fence(self, producer: str, fence: int) -> None:
        """From now on, appends of this producer with an older fence are refused. Raises Fenced if this one is older."""

    @abstractmethod
    def take_over(self, producer: str) -> Claim:
        """Raise this producer's fence by one, so that whoever held the name before is refused.

        Gives the new fence, with the last sequence that was appended (NO_SEQUENCE when there is none). No two callers
        get the same fence.
        """

    @abstractmethod
    def fence(self, producer: str) -> int:
        """The newest fence of this producer; 0 when it has none."""

    @abstractmethod
    def last_sequence(self, producer: str) -> int | None:
        """The newest sequence that was appended under this name; None when there is none."""

    @abstractmethod
    def batches(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows from `start` to before `end`, those of a partition in order, a bounded number at a time.

        A partition that `start` leaves out is not read; `end` may be beyond the end of the topic. With `columns`, only
        these. Raises OutOfRange, perhaps after some batches, where `start` is no longer kept or beyond the end; NotFound
        for a column that is not there; Invalid for such a partition.
        """

    @abstractmethod
    def summaries(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Summary]:
        """What is known of a range without reading its rows, in the order in which they came. Raises as `batches` does.

        The first and the last of a partition may reach beyond the ends of the range.
        """

    def contents(
        self, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
    ) -> Iterator[Contents]:
        """The same as `batches`, with what else lies there, for who cannot learn of it from `summaries`."""
        return (Contents(rows) for rows in self.batches(start, end, columns))

    def count(self, start: Mapping[int, int], end: Mapping[int, int]) -> int:
        """About how many rows lie in a range: what its offsets say."""
        return sum(max(offset - start.get(p, 0), 0) for p, offset in end.items())

    def row_bytes(self) -> int:
        """About how long a row is."""
        return int(self.statistics()["bytes"] // max(self.count(self.begins(), self.ends()), 1))

    def first_received(self, partition: int, start: int, end: int) -> int | None:
        """When (µs) the first row of a range was received, to the frame that has it; None where no row is left of it."""
        try:
            first = next(iter(self.summaries({partition: start}, {partition: end})), None)
        except OutOfRange:  # retention was faster
            return None
        return first.first_received if first else None

    def settled(self) -> int:
        """A moment (µs): what was received before it can be read by now."""
        return wall_clock()

    def offsets_received(self, moment: int) -> dict[int, int]:
        """In each partition the first offset, to the frame, that was received (µs) not before `moment`; its end if there
        is none."""
        found = self.ends()
        for part in reversed(list(self.summaries(self.begins(), found))):
            if part.received >= moment:
                found[part.partition] = part.offset
        return found

    @abstractmethod
    def offsets_at(self, moment: int) -> dict[int, int]:
        """In each partition the first offset whose event time (µs) is not before `moment`; its end if there is none."""

    @abstractmethod
    def attach(self, bell: Bell) -> None:
        """Let the bell ring whenever rows arrive, or somebody calls `ring`, until it is closed."""

    @abstractmethod
    def ring(self) -> None:
        """Make everybody who waits for this topic look again, in every process."""

    @abstractmethod
    def newest_schema(self) -> str:
        """The schema as it is now: another process may have added columns since this topic was opened here."""

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """What `describe` adds to the spec and the offsets: at least "bytes", "appends", "rows_per_second" over the last
        minute, and "received", the time of the newest append. Cheap."""

    @abstractmethod
    def compact(self) -> dict[str, int]:
        """Keep the newest row of every key, and tombstones for `tombstone_grace`. Offsets do not change.

        Gives how many rows were "kept" and "removed". Raises Busy while another process is at it for too long.
        """

    @abstractmethod
    def enforce_retention(self) -> dict[str, int]:
        """Remove (or archive) what is older or more than the topic keeps, oldest first. Gives what was removed."""

    @property
    @abstractmethod
    def spill_directory(self) -> str:
        """Where producers of this machine put rows that have no room in memory. It need not exist yet."""

    @property
    @abstractmethod
    def has_failed(self) -> bool:
        """Whether no writes are accepted until somebody has looked at the disk and called `repair`."""

    @abstractmethod
    def repair(self) -> None:
        """Look at the stored bytes again, cut off an unfinished append, and accept writes again."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and threads. What was appended is as safe as `fsync` says. A second close does nothing."""
