"""The door to state on files: open what a manifest entry names, change it in a step, commit it as a new entry.

    state = directory.open(entry, kernel.tables, node="revenue", shard=3)
    kernel.step(state, inputs, clock)
    entry = state.commit(epoch=18)          # plain data, for the manifest that the epoch's transaction stores

An entry is the whole truth about the state of one node in one shard. Files are written before they are named in an
entry and never changed afterwards, so a retried, late or killed task leaves orphans, not wrong state.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from riverrun.errors import Conflict, Invalid, NewerFormat, NotFound, did_you_mean
from riverrun.state.files import Files
from riverrun.state.layers import RunTable, Stored
from riverrun.state.merge import absorbed, merge
from riverrun.state.sorted_run import SortedRun
from riverrun.state.table import StateTable, TableSpec

Entry = dict[str, Any]
"""JSON-able: {"version": 1, "tables": {name: {"low", "tail", "runs": [{"file", "rows", "size", "lo", "hi"}]}}}.
`tail` is a small run as a base64 Arrow stream; `runs` are files, newest first; buckets below `low` are released.
"""

VERSION = 1
INLINE_BYTES = 64 << 10
_EPOCH = re.compile(r"(\d+)-")


class StateDirectory:
    """The state files of a flow."""

    def __init__(self, location: str | Path, inline_bytes: int = INLINE_BYTES) -> None:
        self.files = Files(location)
        self.inline_bytes = inline_bytes

    def open(self, entry: Entry | None, specs: Mapping[str, TableSpec], node: str, shard: int) -> RunState:
        """The state that `entry` describes; None is the empty state of a new node."""
        if entry is not None and entry["version"] > VERSION:
            raise NewerFormat(f"the state of node {node!r} was written by a newer Riverrun")
        stored = entry["tables"] if entry else {}
        tables = {name: self._table(stored.get(name), spec, name) for name, spec in specs.items()}
        return RunState(self, tables, f"{re.sub(r'[^A-Za-z0-9._]', '_', node)[:60]}-{shard}")

    def _table(self, entry: Mapping[str, Any] | None, spec: TableSpec, name: str) -> RunTable:
        if entry is None:
            return RunTable(spec, None, None, [])
        tail = _opened(_decoded(entry["tail"]), spec, name) if entry["tail"] else None
        return RunTable(spec, entry["low"], tail, [self._stored(run, spec, name) for run in entry["runs"]])

    def _stored(self, run: Mapping[str, Any], spec: TableSpec, name: str) -> Stored:
        load = partial(self._load, run["file"], run["size"], spec, name)
        return Stored(run["file"], run["rows"], run["size"], run["lo"], run["hi"], load)

    def _load(self, file: str, size: int, spec: TableSpec, name: str) -> SortedRun:
        return _opened(self.files.read(file, size), spec, name)

    def write(self, run: SortedRun, epoch: int, owner: str, table: str) -> Stored:
        """A run as a new file. The name says who wrote it when, and is never used twice."""
        file = f"{epoch:012d}-{owner}-{re.sub(r'[^A-Za-z0-9_]', '_', table)}-{uuid.uuid4().hex[:12]}.arrow"
        size = self.files.write(file, run.batch)
        return Stored(file, run.rows, size, run.lo, run.hi, lambda: run)

    def sweep(self, kept: Iterable[Entry], oldest: int) -> list[str]:
        """Remove the files of epochs before `oldest` that none of the `kept` entries names; returns their names.

        `kept` are the entries of every manifest that may still be opened and `oldest` is the first epoch of these:
        what a running task has written and nobody has named yet is younger.
        """
        named = {file for entry in kept for file in files_of(entry)}
        gone = [file for file in self.files.names() if file not in named and _epoch_of(file) < oldest]
        self.files.delete(gone)
        return gone


class RunState:
    """The tables of one node in one shard, during one step."""

    def __init__(self, directory: StateDirectory, tables: Mapping[str, RunTable], owner: str) -> None:
        self._directory = directory
        self._tables = tables
        self._owner = owner

    def __getitem__(self, table: str) -> StateTable:
        try:
            return self._tables[table]
        except KeyError:
            raise NotFound(f"no state table {table!r}", hint=did_you_mean(table, self._tables)) from None

    def commit(self, epoch: int) -> Entry:
        """Write what changed and return the entry that describes the state now. The files it names are durable.

        Call it once, at the end of the step; the state is not used afterwards.
        """
        if epoch < 0:
            raise Invalid(f"an epoch is not negative: {epoch}")
        return {"version": VERSION, "tables": {name: self._commit(name, epoch) for name in self._tables}}

    def _commit(self, name: str, epoch: int) -> dict[str, Any]:
        table = self._tables[name]
        low = table.low
        stored = [s for s in table.stored if not table.spec.bucket or low is None or s.hi >= low]
        small = [run for run in (table.own(), table.tail) if run is not None and run.live(low)]
        run = merge(small, table.spec, low, whole=not stored) if small else None
        if run is not None and run.batch.nbytes > self._directory.inline_bytes:
            follows = bool(stored) and stored[0].precedes(run) and not table.spec.single
            count = absorbed(run.rows, [s.live(low) for s in stored], follows)
            older = [s.run for s in stored[:count]]
            stored = stored[count:]
            run = merge([run, *older], table.spec, low, whole=not stored)
            if run.rows:
                stored.insert(0, self._directory.write(run, epoch, self._owner, name))
            run = None
        tail = _encoded(run.batch) if run is not None and run.rows else None
        runs = [{"file": s.file, "rows": s.rows, "size": s.size, "lo": s.lo, "hi": s.hi} for s in stored]
        return {"low": low, "tail": tail, "runs": runs}


def files_of(entry: Entry) -> list[str]:
    """The names of the files that an entry needs."""
    return [run["file"] for table in entry["tables"].values() for run in table["runs"]]


def _epoch_of(file: str) -> int:
    found = _EPOCH.match(file)
    return int(found[1]) if found else -1


def _opened(batch: pa.RecordBatch, spec: TableSpec, name: str) -> SortedRun:
    missing = [column for column in spec.schema if column not in batch.schema.names]
    if missing:
        raise Conflict(
            f"stored state of table {name!r} has no column {', '.join(missing)}",
            hint="The node has changed; rebuild the flow",
        )
    return SortedRun(batch, spec)


def _encoded(batch: pa.RecordBatch) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def _decoded(text: str) -> pa.RecordBatch:
    return pa.ipc.open_stream(base64.b64decode(text)).read_next_batch()
