"""The snapshots of tables, chunk after chunk beside the stream. A kill goes on with the next chunk.

A table is `waiting`, then `reading`; when all chunks are in it is `read`, and when the stream has come to where the source
was then, it is `done`: from there on transactions are whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from riverrun.capture.appending import Appender, Destination
from riverrun.capture.changes import CaptureSource
from riverrun.capture.progress import ProgressFile, TableProgress
from riverrun.capture.reconciling import Recent
from riverrun.columns import DELETED, OFFSET, PARTITION
from riverrun.durations import wall_clock
from riverrun.errors import Invalid
from riverrun.failpoints import failpoint
from riverrun.log.topic import Topic
from riverrun.state.keys import last_of_each


class Snapshots:
    """Reads tables that are not read yet, a chunk at each `step`."""

    def __init__(
        self,
        file: ProgressFile,
        database: CaptureSource,
        appender: Appender,
        destinations: Mapping[str, Destination],
        chunk_rows: int,
    ) -> None:
        self._file = file
        self._database = database
        self._appender = appender
        self._destinations = destinations
        self._chunk_rows = chunk_rows
        self._frontier: int | None = None
        for table in self._tables("read"):
            self._attach(table)
            destinations[table].recent = None
        for table in self._tables("reading"):
            self._resume(table)
        if not self.are_done:
            for table in self._tables("waiting"):
                self._begin(table)
            file.save()

    @property
    def are_done(self) -> bool:
        """Whether nothing is left to do."""
        return not any(self._tables(state) for state in ("waiting", "reading", "read"))

    def _tables(self, state: str) -> list[str]:
        return [
            name for name, one in self._file.value.tables.items() if one.state == state and name in self._destinations
        ]

    def _begin(self, table: str) -> None:
        destination = self._destinations[table]
        topic = destination.topic
        ends = topic.ends()
        self._file.value.tables[table] = TableProgress(
            state="reading",
            of=destination.table.estimate,
            since=ends,
            again=topic.begins() != ends,
        )
        self._attach(table)

    def _attach(self, table: str) -> None:
        destination = self._destinations[table]
        destination.recent = _recent(destination)
        destination.seen = self._file.value.tables[table].seen
        destination.begin_again = lambda: self._begin_again(table)

    def _begin_again(self, table: str) -> None:
        """Read a table from its beginning once more; what was read stays, and what `since` says, too."""
        one = self._file.value.tables[table]
        one.state, one.after, one.last, one.noted, one.rows = "reading", None, None, False, 0
        self._file.save()
        if self._destinations[table].recent is None:
            self._attach(table)

    def _resume(self, table: str) -> None:
        """A chunk that was noted and is in the topic is done; one that is not is read again."""
        one, destination = self._file.value.tables[table], self._destinations[table]
        if one.noted:
            in_topic = (destination.topic.last_sequence(self._appender.snapshot_producer) or 0) >= one.chunk
            if in_topic:
                one.after = one.last
                one.state = "reading" if one.last is not None else "read"
                if one.state == "read":
                    self._finish(table)
            one.noted = False
        if one.state == "reading":
            self._attach(table)
            assert destination.recent is not None
            destination.recent.recall(self._appender.touched(destination, one.since))

    def step(self) -> bool:
        """Do a little; False when there is nothing to do just now."""
        reading = self._tables("reading")
        if reading:
            return self._step_table(reading[0])
        if self._tables("read"):
            if self._frontier is None:
                self._frontier = self._database.health([]).position
            if self._database.reached >= self._frontier and self._appender.is_whole:
                self._end()
                return True
        return False

    def _step_table(self, table: str) -> bool:
        progress, one, destination = self._file.value, self._file.value.tables[table], self._destinations[table]
        try:
            chunk = self._database.chunk(destination.table, one.after, self._chunk_rows)
        except Invalid as error:
            self._appender.stop(destination, error)
            return True
        if chunk is None:
            return False
        assert destination.recent is not None
        rows = destination.recent.newest(chunk)
        if rows is None:
            return False
        progress.chunks += 1
        one.chunk, one.last, one.noted = progress.chunks, list(chunk.last) if chunk.last is not None else None, True
        one.seen = destination.seen = max(one.seen, chunk.sequence)
        self._file.save()
        self._appender.append_chunk(destination, chunk, rows, one.chunk)
        if destination.stopped:
            return True
        one.rows += chunk.rows.num_rows
        one.after, one.noted = one.last, False
        if one.last is None:
            self._finish(table)
        return True

    def _finish(self, table: str) -> None:
        """All chunks are in. What the topic has from before, and the table no longer has, gets tombstones."""
        progress, one, destination = self._file.value, self._file.value.tables[table], self._destinations[table]
        if one.again:
            progress.chunks += 1
            keys = vanished(destination.topic, one.since)
            self._appender.append_tombstones(
                destination, keys, progress.chunks, self._database.show(self._database.reached)
            )
        failpoint("capture.finished")
        one.state, one.of, self._frontier = "read", one.rows, None
        destination.recent = None
        self._file.save()

    def _end(self) -> None:
        progress = self._file.value
        progress.chunks += 1
        position = self._database.show(self._database.reached)
        rows = sum(progress.tables[table].rows for table in self._tables("read"))
        self._appender.record_chunk(position, wall_clock(), rows, "snapshot_done", progress.chunks)
        for table in self._tables("read"):
            progress.tables[table].state = "done"
            self._destinations[table].begin_again = None
        self._frontier = None
        self._file.save()


def _recent(destination: Destination) -> Recent:
    return Recent(destination.table.key, _typed_key(destination))


def _typed_key(destination: Destination) -> pa.Schema:
    from riverrun import ddl

    types = {column.name: column.type for column in destination.table.columns}
    return pa.schema([(name, ddl.to_arrow(ddl.parse_type(types[name]))) for name in destination.table.key])


def vanished(topic: Topic, since: Mapping[int, int]) -> pa.RecordBatch:
    """The keys that had a row before `since` and were not written to afterwards."""
    key = list(topic.spec.key)
    newest: pl.DataFrame | None = None
    for batch in topic.batches(topic.begins(), topic.ends(), [*key, DELETED, PARTITION, OFFSET]):
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        newest = last_of_each(frame if newest is None else pl.concat([newest, frame]), key)
    schema = pa.schema([topic.schema.field(name) for name in key])
    if newest is None:
        return pa.RecordBatch.from_pylist([], schema=schema)
    before = pl.col(PARTITION).replace_strict(dict(since), default=0, return_dtype=pl.Int64())
    gone = newest.filter(~pl.col(DELETED) & (pl.col(OFFSET) < before)).select(key).to_arrow()
    table = pa.table({field.name: gone.column(field.name).cast(field.type) for field in schema})
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
