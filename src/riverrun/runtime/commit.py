"""An epoch takes effect: derived topics first, each idempotent, then the home store, whose transaction decides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from riverrun.columns import LOG_ORDER, OFFSET, PARTITION, TIME, WEIGHT
from riverrun.errors import Conflict, Corrupt
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.flow.nodes import AlertEnd, TopicEnd, ViewEnd
from riverrun.log.topic import Topic
from riverrun.runtime.blob import CONTROL, LATE, LEDGER, MANIFEST, QUARANTINE, WORK, rows_of
from riverrun.runtime.host import Control
from riverrun.runtime.job import Job
from riverrun.runtime.manifest import Manifest, SourceClock, computation
from riverrun.runtime.outputs import alert_topic, quarantine, view_spec
from riverrun.state.directory import StateDirectory
from riverrun.views import Epoch, Store
from riverrun.views.keyed_changes import net
from riverrun.views.layout import DELETE, INSERT, NEW, OLD, OP

COUNTS = ("read", "accepted", "late_dropped", "late_aside", "duplicates", "quarantined")


@dataclass(frozen=True)
class Outputs:
    """What an epoch brought, taken apart."""

    control: Control
    rows: Mapping[int, list[Any]]  # branch → blobs
    nodes: dict[str, dict[str, Any]]
    counts: dict[tuple[str, str], dict[str, int]]
    late: list[tuple[str, str, bytes]]
    quarantined: list[tuple[str, str, bytes]]
    work: dict[str, int]  # topic or node → microseconds that tasks spent on it


def take_apart(packed: pa.Table) -> Outputs:
    """The packed rows of an epoch as they arrive at the driver."""
    control: Control | None = None
    rows: dict[int, list[tuple[int, Any]]] = {}
    nodes: dict[str, dict[str, Any]] = {}
    counts: dict[tuple[str, str], dict[str, int]] = {}
    late: list[tuple[str, str, bytes]] = []
    quarantined: list[tuple[str, str, bytes]] = []
    work: dict[str, int] = {}
    shards, branches = packed.column("shard").to_pylist(), packed.column("branch").to_pylist()
    blobs = packed.column("blob")
    for i, (shard, branch) in enumerate(zip(shards, branches, strict=True)):
        blob = blobs[i].as_buffer()
        if branch >= 0:
            rows.setdefault(branch, []).append((shard, blob))
        elif branch == CONTROL:
            control = control or msgspec.msgpack.decode(blob, type=Control)
        elif branch == MANIFEST:
            node, number, entry = msgspec.msgpack.decode(blob)
            nodes.setdefault(node, {})[number] = entry
        elif branch == LEDGER:
            node, name, found = msgspec.msgpack.decode(blob)
            total = counts.setdefault((node, name), dict.fromkeys(COUNTS, 0))
            for kind, number in found.items():
                total[kind] += number
        elif branch == LATE:
            late.append(msgspec.msgpack.decode(blob, type=tuple[str, str, bytes]))
        elif branch == QUARANTINE:
            quarantined.append(msgspec.msgpack.decode(blob, type=tuple[str, str, bytes]))
        elif branch == WORK:
            name, micros = msgspec.msgpack.decode(blob)
            work[name] = work.get(name, 0) + micros
    if control is None:
        raise Corrupt("an epoch came back without its control")
    ordered = {branch: [blob for _, blob in sorted(found, key=lambda pair: pair[0])] for branch, found in rows.items()}
    return Outputs(control, ordered, nodes, counts, late, quarantined, work)


class Committer:
    """Commits the epochs of one run of a flow, or of a rebuild: that has tables of its own, and writes to no topic."""

    def __init__(
        self,
        flow: Flow,
        job: Job,
        store: Store,
        topics: Mapping[str, Topic],
        home: str,
        suffix: str,
        fence: int,
        rebuild: int | None = None,
    ) -> None:
        self._flow = flow
        self._job = job
        self._store = store
        self._topics = topics
        self._name = flow.name + suffix
        self._suffix = suffix
        self._fence = fence
        self._rebuild = rebuild
        self._home = os.path.basename(home)
        self._state = StateDirectory(f"{home}/state")
        self.last = store.last(self._name, rebuild)
        self._base = Manifest.decode(self.last.manifest).base if self.last.manifest else 0

    def is_committed(self, epoch: int) -> bool:
        """Whether there is nothing left to do for this epoch."""
        return self.last.epoch >= epoch

    def commit(self, packed: pa.Table) -> Outputs:
        """Make an epoch visible everywhere."""
        made = self.received(packed)
        self.apply(made)
        return made

    def received(self, packed: pa.Table) -> Outputs:
        """An epoch as it came back from the tasks, checked."""
        made = take_apart(packed)
        if made.control.epoch != self.last.epoch + 1:
            raise Conflict(
                f"flow {self._name}: epoch {made.control.epoch} does not follow epoch {self.last.epoch} of its views",
                hint="The checkpoint and the views do not belong together: restore both, or rebuild the flow",
            )
        for count in made.counts.values():
            if count["read"] != sum(count[kind] for kind in COUNTS[1:]):
                raise Corrupt(f"flow {self._name}, epoch {made.control.epoch}: the ledger does not balance: {count}")
        return made

    def apply(self, made: Outputs) -> None:
        """Everything an epoch does, step by step. After a `Transient` error it may be called again."""
        failpoint("commit.begin")
        if self._rebuild is None:
            self._write_topics(made)
        manifest = Manifest(
            epoch=made.control.epoch,
            shards=self._job.shards,
            nodes=made.nodes,
            fingerprints=computation(self._flow),
            final=made.control.final,
            sources=self._sources(made.control),
            memory=made.control.memory,
            home=self._home,
            base=self._base,
        )
        epoch = Epoch(
            flow=self._name,
            fence=self._fence,
            epoch=made.control.epoch,
            positions=made.control.positions,
            changes={name + self._suffix: self._changes(end, made) for name, end in self._flow.views.items()},
            manifest=manifest.encode(),
            ledger=_added(self.last.ledger, made.counts),
            received=made.control.received,
            rebuild=self._rebuild,
            whole=frozenset(
                name + self._suffix for name, end in self._flow.views.items() if end.node.is_table or end.keeps_all
            ),
        )
        self._store.commit(epoch)
        failpoint("commit.store")
        self.last = self._store.last(self._name, self._rebuild)
        self._sweep(manifest)

    def _write_topics(self, made: Outputs) -> None:
        for end in self._flow.derived.values():
            self._append(end, made)
        for alert in self._flow.alerts.values():
            self._fire(alert, made)
        failpoint("commit.topics")
        self._append_aside(made)
        failpoint("commit.aside")

    def _sources(self, control: Control) -> dict[str, SourceClock]:
        """Every source's clock after the epoch, for the status."""
        found = {}
        for reading in self._job.readings:
            for source in (reading.id, *(clock for clock, _, _ in reading.clocks)):
                end = control.watermarks[source][1]
                found[source] = SourceClock(reading.topic, end, reading.lateness, reading.idle)
        return found

    def _changes(self, end: ViewEnd, made: Outputs) -> pa.Table:
        spec = view_spec(self._flow, self._job, end, self._suffix)
        rows = self._rows(end.id, made)
        return rows.select([*spec.names, WEIGHT])

    def _rows(self, end: str, made: Outputs) -> pa.Table:
        """Rows for an end, in the order of the log."""
        branches = [branch for branch in self._job.branches if branch.target == end]
        rows = pa.concat_tables(rows_of(branch, made.rows.get(branch.index, [])) for branch in branches)
        order = [(name, "ascending") for name in LOG_ORDER if name in rows.column_names]
        return rows.sort_by(order) if rows.num_rows > 1 else rows

    def _append(self, end: TopicEnd, made: Outputs) -> None:
        rows = self._rows(end.id, made)
        if not rows.num_rows:
            return
        topic = self._topics[end.name + self._suffix]
        names = [name for name in rows.column_names if name not in (TIME, WEIGHT, PARTITION, OFFSET)]
        moment = rows.column(TIME).cast(pa.timestamp("us", "UTC"))
        if end.node.is_table or end.node.retracts:
            table = _upserts(rows, names, end.key)
        else:
            table = rows.select(names).append_column("_time", moment)
        self._appended(topic, table, made)

    def _fire(self, end: AlertEnd, made: Outputs) -> None:
        """Rows that came to be: messages are made of them by whoever sends them."""
        rows = self._rows(end.id, made)
        if not rows.num_rows:
            return
        place = (PARTITION, OFFSET)  # of a row in the log, which is what tells rows of a stream apart
        key = [part for name in end.node.key or place for part in ((name,) if name in rows.column_names else place)]
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        came = net(frame, WEIGHT, key).filter(pl.col(OP).is_in([INSERT, NEW])).sort(PARTITION, OFFSET)
        topic = self._topics[alert_topic(self._name, end.name)]
        table = came.select(*topic.schema.names, pl.col(TIME).cast(pl.Datetime("us", "UTC"))).to_arrow()
        self._appended(topic, table, made)

    def _append_aside(self, made: Outputs) -> None:
        """Late and quarantined rows: ordinary topics, one append for each."""
        found: dict[str, list[pa.Table]] = {}
        for name, _, data in made.late:
            found.setdefault(name + self._suffix, []).append(pa.ipc.open_stream(data).read_all())
        for name, _, data in made.quarantined:
            rows = pa.ipc.open_stream(data).read_all().drop_columns(["_time"])  # it is what is doubted
            found.setdefault(quarantine(name) + self._suffix, []).append(rows)
        for name, parts in found.items():
            topic = self._topics[name]
            table = _fitted(pa.concat_tables(parts, promote_options="permissive"), topic)
            self._appended(topic, table, made)

    def _appended(self, topic: Topic, table: pa.Table, made: Outputs) -> None:
        topic.append(table, producer=self._name, sequence=self._base + made.control.epoch, fence=self._fence)

    def _sweep(self, manifest: Manifest) -> None:
        """Now and then remove state files that no epoch can need any more."""
        if manifest.epoch % 20 == 0:
            entries = [entry for shards in manifest.nodes.values() for entry in shards.values()]
            self._state.sweep(entries, manifest.epoch)


def _upserts(rows: pa.Table, names: list[str], key: tuple[str, ...]) -> pa.Table:
    """One row or tombstone for each changed key."""
    frame = pl.from_arrow(rows.select([*names, TIME, WEIGHT]))
    assert isinstance(frame, pl.DataFrame)
    changes = net(frame, WEIGHT, key).filter(pl.col(OP) != OLD)
    gone = pl.col(OP) == DELETE
    values = [pl.when(gone).then(None).otherwise(pl.col(name)).alias(name) for name in names if name not in key]
    moment = pl.col(TIME).cast(pl.Datetime("us", "UTC")).alias("_time")
    return changes.select(*key, *values, gone.alias("_deleted"), moment).to_arrow()


def _fitted(table: pa.Table, topic: Topic) -> pa.Table:
    """The columns a topic has, and the event time, of a table that may have more."""
    return table.select([name for name in table.column_names if name in (*topic.schema.names, "_time")])


def _added(before: Any, counts: Mapping[tuple[str, str], Mapping[str, int]]) -> list[dict[str, Any]]:
    """Running totals of the ledger."""
    totals = {(entry["node"], entry["input"]): dict(entry) for entry in before or []}
    for (node, name), found in counts.items():
        entry = totals.setdefault((node, name), {"node": node, "input": name, **dict.fromkeys(COUNTS, 0)})
        for kind in COUNTS:
            entry[kind] += found[kind]
    return list(totals.values())
