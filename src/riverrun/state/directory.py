"""The door to state on files: open what a manifest says, change it in a step, commit it as new entries.

    state = directory.open(entries, kernel.tables, node="revenue", shard=3, shards=4)
    kernel.step(state, inputs, clock)
    entries |= state.commit(epoch=18)       # plain data, for the manifest that the epoch's transaction stores

The entries of a node, by shard, are the whole truth about its state. Files are written before they are named in an
entry and never changed afterwards, so a retried, late or killed task leaves orphans, not wrong state.

A step is about one shard, or about all of them at once (`shard=None`), when there is little to do. What such a step
changes is kept in one small run for all shards, under `ALL_SHARDS`, until it has grown or a shard is opened alone.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from riverrun.errors import Conflict, Invalid, NewerFormat, NotFound, OlderFormat, did_you_mean
from riverrun.state.files import Content, Files, RunFiles
from riverrun.state.frames import keep
from riverrun.state.layers import RunTable, Stored
from riverrun.state.merge import absorbed, merge
from riverrun.state.shards import shard_numbers
from riverrun.state.sorted_run import SortedRun
from riverrun.state.table import StateTable, TableSpec

Entry = dict[str, Any]
"""{"version": 3, "tables": {name: {"low", "tail", "runs": [{"file", "rows", "size", "crc", "lo", "hi"}]}}}.
`tail` is a small run as an Arrow stream; `runs` are files, newest first; buckets below `low` are released.
"""

Entries = Mapping[str, Entry]
"""The state of a node, by shard: "0", "1", …, and what is kept for all shards together."""

ALL_SHARDS = "*"
VERSION = 3
INLINE_BYTES = 64 << 10
CACHE_BYTES = 4 << 30  # of copies on this machine, of files that are in an object store
_EPOCH = re.compile(r"(\d+)-")
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class StateDirectory:
    """The state files of a flow. What was opened or written last stays open, for the next epoch of the same process."""

    def __init__(self, location: str | Path, inline_bytes: int = INLINE_BYTES, cache_bytes: int = CACHE_BYTES) -> None:
        self.files = _open_files(str(location), cache_bytes)
        self.inline_bytes = inline_bytes
        self._tails: dict[tuple[str, str], tuple[bytes, SortedRun]] = {}
        self._runs: dict[tuple[str, str], dict[str, SortedRun]] = {}
        self._kept: dict[tuple[str, int | None], dict[str, Any]] = {}

    def open(
        self, entries: Entries, specs: Mapping[str, TableSpec], node: str, shard: int | None = 0, shards: int = 1
    ) -> NodeState:
        """The state of one shard, or of all, as the entries say; without entries it is empty."""
        for entry in entries.values():
            if entry["version"] > VERSION:
                raise NewerFormat(
                    f"the state of node {node!r} was written by a newer Riverrun", hint="Upgrade Riverrun"
                )
            if entry["version"] < VERSION:
                raise OlderFormat(
                    f"the state of node {node!r} was written by an older Riverrun", hint="Rebuild the flow"
                )
        scope = Scope(self, entries, node, shard, shards)
        alone = all(spec.route == () for spec in specs.values())  # one shard has everything
        kept = self._kept.setdefault((node, 0 if alone else shard), {})
        return NodeState(scope, {name: scope.table(name, spec) for name, spec in specs.items()}, kept)

    def tail(self, data: bytes, spec: TableSpec, owner: str, table: str) -> SortedRun:
        """A small run from an entry."""
        known = self._tails.get((owner, table))
        if known is None or known[0] != data or known[1].spec != spec:
            known = (data, _opened(pa.ipc.open_stream(data).read_next_batch(), spec, table))
            self._tails[owner, table] = known
        return known[1]

    def encode_tail(self, run: SortedRun, owner: str, table: str) -> bytes:
        """A small run for an entry."""
        known = self._tails.get((owner, table))
        if known is not None and known[1] is run:  # nothing has changed since it was read
            return known[0]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, run.batch.schema, options=_COMPRESSED) as out:
            out.write_batch(run.batch)
        data: bytes = sink.getvalue().to_pybytes()
        self._tails[owner, table] = (data, run)
        return data

    def stored(self, runs: Iterable[Mapping[str, Any]], spec: TableSpec, owner: str, table: str) -> list[Stored]:
        """The run files that an entry names; only these stay mapped."""
        before = self._runs.get((owner, table), {})
        mapped = self._runs[owner, table] = {run["file"]: before[run["file"]] for run in runs if run["file"] in before}
        return [
            Stored(
                run["file"],
                run["rows"],
                content := Content(run["size"], run["crc"]),
                run["lo"],
                run["hi"],
                partial(self._load, mapped, run["file"], content, spec, table),
            )
            for run in runs
        ]

    def _load(
        self, mapped: dict[str, SortedRun], file: str, content: Content, spec: TableSpec, table: str
    ) -> SortedRun:
        if file not in mapped:
            mapped[file] = _opened(self.files.read(file, content), spec, table)
        return mapped[file]

    def write(self, run: SortedRun, epoch: int, owner: str, table: str) -> Stored:
        """A run as a new file. The name says who wrote it when, and is never used twice."""
        file = f"{epoch:012d}-{owner}-{re.sub(r'[^A-Za-z0-9_]', '_', table)}-{uuid.uuid4().hex[:12]}.arrow"
        content = self.files.write(file, run.batch)
        return Stored(file, run.rows, content, run.lo, run.hi, lambda: run)

    def sweep(self, kept: Iterable[Entry], oldest: int) -> list[str]:
        """Remove the files of epochs before `oldest` that none of the `kept` entries names; returns their names.

        `kept` are the entries of every manifest that may still be opened and `oldest` is the first epoch of these:
        what a running task has written and nobody has named yet is younger.
        """
        named = {file for entry in kept for file in files_of(entry)}
        gone = [file for file in self.files.names() if file not in named and _epoch_of(file) < oldest]
        self.files.delete(gone)
        return gone


class Scope:
    """What one step is about: a shard of a node, or all of them."""

    def __init__(self, directory: StateDirectory, entries: Entries, node: str, shard: int | None, shards: int) -> None:
        self._directory = directory
        self._entries = entries
        self._node = re.sub(r"[^A-Za-z0-9._]", "_", node)[:60]
        self._shard = shard
        self._shards = shards

    @property
    def _own(self) -> list[str]:
        """The shards of the step, by name."""
        return [str(shard) for shard in range(self._shards)] if self._shard is None else [str(self._shard)]

    def _owner(self, shard: str) -> str:
        return f"{self._node}-{'all' if shard == ALL_SHARDS else shard}"

    def _entry(self, shard: str, table: str) -> Mapping[str, Any]:
        found = self._entries.get(shard, {"tables": {}})["tables"].get(table)
        return found if found is not None else {"low": None, "tail": None, "runs": []}

    def table(self, name: str, spec: TableSpec) -> RunTable:
        """A table as it is at the step's start."""
        low: int | None = None
        tails, stored = [], []
        for shard in (ALL_SHARDS, *self._own):
            entry, owner = self._entry(shard, name), self._owner(shard)
            if entry["low"] is not None:
                low = entry["low"] if low is None else max(low, entry["low"])
            if entry["tail"]:
                tail = self._directory.tail(entry["tail"], spec, owner, name)
                tails += [tail] if shard != ALL_SHARDS else self._mine(tail)
            stored += self._directory.stored(entry["runs"], spec, owner, name)
        return RunTable(spec, low, tails, stored)

    def _mine(self, tail: SortedRun) -> list[SortedRun]:
        """The part of a run for all shards that belongs to the step."""
        return [tail] if self._shard is None else [part for shard, part in self._split(tail) if shard == self._shard]

    def _split(self, run: SortedRun) -> list[tuple[int, SortedRun]]:
        """A run for all shards, shard by shard."""
        numbers = shard_numbers(run.frame, run.spec.probe if run.spec.route is None else run.spec.route, self._shards)
        parts = []
        for shard in np.unique(numbers).tolist():
            mine = numbers == shard
            gone = None if run.gone is None else run.gone[mine]
            parts.append((shard, SortedRun.build(keep(run.frame, mine), run.spec, run.hashes[mine], gone)))
        return parts

    def commit(self, name: str, table: RunTable, epoch: int) -> dict[str, dict[str, Any]]:
        """The table after the step, by shard. Small changes stay in a tail; larger ones are written as a file."""
        low = table.low
        stored = {shard: self._living(shard, name, table) for shard in self._own}
        small = [run for run in (*table.own(), *table.tails) if run.live(low)]
        whole = not any(stored.values())
        run = merge(small, table.spec, low, whole) if small else None
        keeper = ALL_SHARDS if self._shard is None else str(self._shard)
        tail = None
        if run is not None and run.batch.nbytes > self._directory.inline_bytes:
            parts = self._split(run) if self._shard is None else [(self._shard, run)]
            for shard, part in parts:
                stored[str(shard)] = self._absorb(part, stored[str(shard)], low, epoch, self._owner(str(shard)), name)
        elif run is not None and run.rows:
            tail = self._directory.encode_tail(run, self._owner(keeper), name)
        tables: dict[str, dict[str, Any]] = {
            shard: {
                "low": low,
                "tail": None,
                "runs": [
                    {
                        "file": s.file,
                        "rows": s.rows,
                        "size": s.content.size,
                        "crc": s.content.crc,
                        "lo": s.lo,
                        "hi": s.hi,
                    }
                    for s in runs
                ],
            }
            for shard, runs in stored.items()
        }
        tables.setdefault(keeper, {"low": low, "tail": None, "runs": []})["tail"] = tail
        return tables

    def _living(self, shard: str, name: str, table: RunTable) -> list[Stored]:
        """The run files of a shard that still have something to say."""
        files = {run["file"] for run in self._entry(shard, name)["runs"]}
        released = table.spec.bucket is not None and table.low is not None
        return [s for s in table.stored if s.file in files and not (released and s.hi < table.low)]  # type: ignore[operator]

    def _absorb(
        self, run: SortedRun, stored: list[Stored], low: int | None, epoch: int, owner: str, table: str
    ) -> list[Stored]:
        """The run as a new file, merged with those older ones that are not much larger."""
        follows = bool(stored) and stored[0].precedes(run) and not run.spec.single
        count = absorbed(run.rows, [s.live(low) for s in stored], follows)
        older = [s.run for s in stored[:count]]
        stored = stored[count:]
        run = merge([run, *older], run.spec, low, whole=not stored)
        return [self._directory.write(run, epoch, owner, table), *stored] if run.rows else stored


class NodeState:
    """The tables of a node during one step."""

    def __init__(self, scope: Scope, tables: Mapping[str, RunTable], kept: dict[str, Any]) -> None:
        self._scope = scope
        self._tables = tables
        self.kept = kept

    def __getitem__(self, table: str) -> StateTable:
        try:
            return self._tables[table]
        except KeyError:
            raise NotFound(f"no state table {table!r}", hint=did_you_mean(table, self._tables)) from None

    def commit(self, epoch: int) -> dict[str, Entry]:
        """Write what changed and return the entries that describe the state now. The files they name are durable.

        Call it once, at the end of the step; the state is not used afterwards.
        """
        if epoch < 0:
            raise Invalid(f"an epoch is not negative: {epoch}")
        entries: dict[str, Entry] = {}
        for name, table in self._tables.items():
            for shard, described in self._scope.commit(name, table, epoch).items():
                entries.setdefault(shard, {"version": VERSION, "tables": {}})["tables"][name] = described
        return entries


def files_of(entry: Entry) -> list[str]:
    """The names of the files that an entry needs."""
    return [run["file"] for table in entry["tables"].values() for run in table["runs"]]


def _open_files(location: str, cache_bytes: int) -> RunFiles:
    if "://" not in location:
        return Files(location)
    from riverrun.state.object_files import ObjectFiles

    return ObjectFiles(location, cache_bytes)


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
    return SortedRun.read(batch, spec)
