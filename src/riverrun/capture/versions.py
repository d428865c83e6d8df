"""The rows that a table has now, by key, as its topic says: for values that a source does not send again.

Kept as the runs of `riverrun.state` beside the topic, with the offsets up to which they have been read. They follow from
the topic: what is lost, or was never made, is read from there again. A table that never needs them costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
import polars as pl
import pyarrow as pa

from riverrun import durable
from riverrun.columns import DELETED
from riverrun.errors import Corrupt, NewerFormat, OlderFormat
from riverrun.failpoints import failpoint
from riverrun.log.topic import Topic
from riverrun.state.directory import Entry, StateDirectory, files_of
from riverrun.state.keys import last_of_each
from riverrun.state.table import TableSpec

_SAVED_ROWS = 200_000  # after so many that were read, what is known is written down
_TABLE = "rows"


class _Saved(msgspec.Struct):
    columns: list[str]
    offsets: dict[int, int]
    step: int
    entries: dict[str, Entry]


class TableVersions:
    """Of each key the newest row of a topic, found by key. Implements `OldValues`; every look reads the topic to its end."""

    def __init__(self, directory: str, topic: Topic, columns: Sequence[str] | None = None) -> None:
        self._path = f"{directory}/versions"
        self._directory = StateDirectory(directory)
        self._topic = topic
        self._key = list(topic.spec.key)
        names = [field.name for field in topic.schema if not field.name.startswith("_")]
        self._columns = list(dict.fromkeys([*self._key, *(names if columns is None else columns)]))
        empty = pl.from_arrow(pa.schema([topic.schema.field(name) for name in self._columns]).empty_table())
        assert isinstance(empty, pl.DataFrame)
        self._spec = TableSpec(dict(empty.schema), tuple(self._key), tuple(self._key), route=())
        self._read: dict[int, int] = {}
        self._unsaved = 0
        self._saved = self._load()
        self._open()

    def lookup(self, keys: pl.DataFrame, columns: Sequence[str]) -> pa.RecordBatch:
        self._catch_up()
        distinct = keys.unique(maintain_order=True)
        found = distinct.hstack(self._state[_TABLE].lookup(distinct).select(self._columns[len(self._key) :]))
        found = keys.join(found, on=self._key, how="left", nulls_equal=True, maintain_order="left")
        table = found.select(list(columns)).to_arrow().combine_chunks()
        schema = pa.schema([self._topic.schema.field(name) for name in columns])
        return pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays(table.column(field.name).cast(field.type).chunks)
                if table.num_rows
                else pa.nulls(0, field.type)
                for field in schema
            ],
            schema=schema,
        )

    def keys(self) -> pl.DataFrame:
        self._catch_up()
        return self._state[_TABLE].scan().select(self._key)

    def _catch_up(self) -> None:
        ends = self._topic.ends()
        if self._read == ends:
            return
        for batch in self._topic.batches(self._read, ends, [*self._columns, DELETED]):
            rows = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(rows, pl.DataFrame)
            newest = last_of_each(rows, self._key)
            gone = newest.get_column(DELETED)
            table = self._state[_TABLE]
            table.remove(newest.filter(gone).select(self._key))
            table.put(newest.filter(~gone).drop(DELETED))
            self._unsaved += rows.height
        self._read = dict(ends)
        if self._unsaved >= _SAVED_ROWS:
            self.save()

    def save(self) -> None:
        """Write down what is known, so that the next start reads only what comes after it."""
        if not self._unsaved:
            return
        step = self._saved.step + 1
        entries = self._state.commit(step)
        failpoint("capture.versions")
        self._saved = _Saved(self._columns, dict(self._read), step, entries)
        durable.write_file(self._path, msgspec.msgpack.encode(self._saved))
        self._directory.sweep(entries.values(), step)
        self._open()

    def _open(self) -> None:
        self._state = self._directory.open(self._saved.entries, {_TABLE: self._spec}, "versions")
        begins = self._topic.begins()
        self._read = {p: max(self._saved.offsets.get(p, 0), begin) for p, begin in begins.items()}
        self._unsaved = 0

    def _load(self) -> _Saved:
        """What was written down, where it can be used: it is of these columns, of this topic, and whole."""
        nothing = _Saved(self._columns, {}, 0, {})
        durable.make_directory(os.path.dirname(self._path))
        try:
            with open(self._path, "rb") as file:
                saved = msgspec.msgpack.decode(file.read(), type=_Saved)
            nothing.step = saved.step
            ends = self._topic.ends()
            if saved.columns != self._columns or any(offset > ends.get(p, 0) for p, offset in saved.offsets.items()):
                return nothing
            for entry in saved.entries.values():
                for name in files_of(entry):
                    if not os.path.exists(f"{self._directory.files.location}/{name}"):
                        return nothing
            self._directory.open(saved.entries, {_TABLE: self._spec}, "versions")[_TABLE].scan(0, 0)
        except (FileNotFoundError, msgspec.MsgspecError, Corrupt, NewerFormat, OlderFormat):
            return nothing
        return saved
