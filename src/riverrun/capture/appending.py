"""Batches of changes → topics, exactly once.

Each topic has the sequence of the last batch that it took; what it has is left out before anything is looked up for it.
When all topics have a batch, one row of the transactions topic says so, with the ends of every topic: up to there, and
not in between, flows read. After a kill some topics may be ahead of others; then nothing is said until all have caught up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from riverrun.capture.changes import (
    CapturedTable,
    ChangeBatch,
    TableChanges,
    TableChunk,
    TableTrouble,
    Transactions,
)
from riverrun.capture.expansion import completed
from riverrun.capture.forms import TopicForm
from riverrun.capture.reconciling import Recent
from riverrun.capture.versions import TableVersions
from riverrun.durations import wall_clock
from riverrun.errors import Invalid
from riverrun.failpoints import failpoint
from riverrun.log.topic import Topic


@dataclass
class Destination:
    """A table's topic, and what is known of it."""

    table: CapturedTable
    topic: Topic
    sequence: int  # of the last batch it has
    directory: str  # for what follows from the topic
    recent: Recent | None = None  # keys that were touched lately, while a snapshot is being made
    begin_again: Callable[[], None] | None = None  # the snapshot; before the next append
    rows: int = 0  # appended since the capture began
    seen: int = 0  # a chunk may have seen transactions up to this sequence
    stopped: bool = False  # nothing more is appended
    _versions: TableVersions | None = field(default=None, repr=False)

    @property
    def versions(self) -> TableVersions:
        """The topic's rows by key; made when they are needed for the first time."""
        if self._versions is None:
            self._versions = TableVersions(self.directory, self.topic)
        return self._versions

    def grown(self, table: CapturedTable, topic: Topic) -> None:
        """The table has other columns now."""
        self.table, self.topic, self._versions = table, topic, None

    def save(self) -> None:
        if self._versions is not None:
            self._versions.save()


class Appender:
    """Writes under one name and fence."""

    def __init__(
        self, producer: str, fence: int, form: TopicForm, transactions: Topic, destinations: Mapping[str, Destination]
    ) -> None:
        self.producer = producer
        self._fence = fence
        self._form = form
        self._transactions = transactions
        self._destinations = destinations
        self._said = transactions.last_sequence(producer) or 0
        # A topic may be ahead by a batch that others do not have yet: until they do, its end is inside of it.
        self._whole_from = max((one.sequence for one in destinations.values()), default=0)
        self._owed = self._said < self._whole_from
        self._troubles: list[TableTrouble] = []

    @property
    def is_whole(self) -> bool:
        """Whether all topics end at the end of the same transaction."""
        return self._said >= self._whole_from

    def append(self, batch: ChangeBatch) -> int:
        """Take a batch; gives how many rows of it were new. Durable in every topic when this returns."""
        count = 0
        for changes in batch.changes:
            destination = self._destinations.get(changes.table)
            if destination is not None and not destination.stopped:
                try:
                    count += self._append_changes(destination, changes, batch)
                except Invalid as error:  # a row that no topic takes: too large, or of another time
                    self.stop(destination, error)
        failpoint("capture.appended")
        self._said = max(self._said, batch.sequence)
        if self.is_whole and (count or self._owed):
            self._owed = False
            last = batch.transactions
            self._record(
                last.ids[-1],
                last.positions[-1],
                int(last.times[-1]),
                batch.rows,
                "part" if batch.is_part else "commit",
                batch.sequence,
                self.producer,
            )
        return count

    def stop(self, destination: Destination, error: Invalid) -> None:
        """A table that cannot go on; the others do."""
        destination.stopped = True
        self._troubles.append(TableTrouble(destination.table.id, error.message, error.hint))

    def take_troubles(self) -> list[TableTrouble]:
        """Tables that had to stop since the last call."""
        troubles, self._troubles = self._troubles, []
        return troubles

    def _append_changes(self, destination: Destination, changes: TableChanges, batch: ChangeBatch) -> int:
        sequences = batch.transactions.sequences[changes.transactions]
        fresh = sequences > destination.sequence
        if destination.recent is not None and not fresh.all():
            # A chunk's view may not see yet what the topic has for long.
            destination.recent.add(changes.take(~fresh), batch.transactions, None)
        if not fresh.any():
            return 0
        changes = changes if fresh.all() else changes.take(fresh)
        rows = self._rows(destination, changes, batch.transactions)
        failpoint("capture.append")
        destination.topic.append(rows, producer=self.producer, sequence=batch.sequence, fence=self._fence)
        destination.sequence = batch.sequence
        destination.rows += rows.num_rows
        return int(rows.num_rows)

    def _rows(self, destination: Destination, changes: TableChanges, transactions: Transactions) -> pa.RecordBatch:
        key = destination.table.key
        missing: np.ndarray | None = None
        doubtful: np.ndarray | None = None
        if changes.moved is not None and changes.unsent:
            early = transactions.sequences[changes.transactions] <= destination.seen
            doubtful = changes.moved & early & np.logical_or.reduce(list(changes.unsent.values()))
        if self._form.needs_old_values and changes.unsent:
            changes, missing = completed(changes, key, destination.versions)
            if doubtful is not None:
                doubtful |= changes.moved & missing
        if doubtful is not None and doubtful.any() and destination.begin_again is not None:
            # Moved from a key that was not read yet to one that may have been: then no chunk has the row, nor will one. Or
            # from a key under which a chunk has a later row.
            destination.begin_again()
        if destination.recent is not None:
            destination.recent.add(changes, transactions, missing)
        return self._form.rows(changes, transactions, destination.table, lambda: destination.versions)

    def append_chunk(self, destination: Destination, chunk: TableChunk, rows: pa.RecordBatch, number: int) -> None:
        """Take the rows of a chunk that are not older than what the topic has, under the chunk's own number."""
        producer = self.snapshot_producer
        if rows.num_rows and (destination.topic.last_sequence(producer) or 0) < number:
            made = self._form.chunk(rows, chunk, destination.table)
            failpoint("capture.chunk")
            try:
                destination.topic.append(made, producer=producer, sequence=number, fence=self._fence)
            except Invalid as error:
                return self.stop(destination, error)
            destination.rows += made.num_rows
        failpoint("capture.chunked")
        return self.record_chunk(chunk.position, chunk.at, rows.num_rows, "snapshot", number)

    def touched(self, destination: Destination, since: Mapping[int, int]) -> Iterator[pa.Table]:
        """Keys and transactions of what the topic has from `since` on."""
        topic = destination.topic
        start = {p: max(since.get(p, 0), begin) for p, begin in topic.begins().items()}
        for batch in topic.batches(start, topic.ends(), self._form.touching(destination.table)):
            yield self._form.touched(batch, destination.table)

    def append_tombstones(self, destination: Destination, keys: pa.RecordBatch, number: int, position: str) -> None:
        """What a table no longer has, found by a snapshot of it."""
        if keys.num_rows:
            made = self._form.tombstones(keys, destination.table, position, wall_clock())
            failpoint("capture.tombstones")
            destination.topic.append(made, producer=self.snapshot_producer, sequence=number, fence=self._fence)

    @property
    def snapshot_producer(self) -> str:
        return f"{self.producer}:snapshot"

    def record_chunk(self, position: str, at: int, rows: int, kind: str, number: int) -> None:
        """Say that a chunk is there, or that all of them are, unless transactions are half there."""
        if self.is_whole:
            self._record("", position, at, rows, kind, number, self.snapshot_producer)

    def record_rest(self, position: str) -> None:
        """Say where topics end, if a kill came between a chunk and its row; `number` is of no chunk."""
        ends = self._shown_ends()
        if self.is_whole and ends != self._last_said("ends"):
            self._transactions.append(
                {
                    "transaction": "",
                    "position": position,
                    "at": _moment(wall_clock()),
                    "ends": ends,
                    "rows": 0,
                    "kind": "snapshot",
                },
                producer=self.snapshot_producer,
                fence=self._fence,
            )

    def _record(
        self, transaction: str, position: str, at: int, rows: int, kind: str, sequence: int, producer: str
    ) -> None:
        failpoint("capture.record")
        self._transactions.append(
            {
                "transaction": transaction,
                "position": position,
                "at": _moment(at),
                "ends": self._shown_ends(),
                "rows": rows,
                "kind": kind,
            },
            producer=producer,
            sequence=sequence,
            fence=self._fence,
        )
        failpoint("capture.recorded")

    def _shown_ends(self) -> str:
        ends = {one.topic.name: list(one.topic.ends().values()) for one in self._destinations.values()}
        return json.dumps(ends, separators=(",", ":"))

    def last_time(self) -> int | None:
        """Of the last transaction or chunk that was told of, by a capture before this one; in microseconds."""
        found = self._last_said("at")
        return None if found is None else int(pa.scalar(found, pa.timestamp("us", "UTC")).value)

    def _last_said(self, column: str) -> Any:
        end = self._transactions.ends()[0]
        begin = self._transactions.begins()[0]
        if end == begin:
            return None
        return self._transactions.read_offsets({0: end - 1}, {0: end}, [column]).column(0)[-1].as_py()


def _moment(micros: int) -> object:
    return pa.scalar(micros, pa.timestamp("us", "UTC")).as_py()
