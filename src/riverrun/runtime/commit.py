"""An epoch takes effect: derived topics first, then other stores, each idempotent, then the home store, whose transaction
decides."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from riverrun.calendar import clamp_table
from riverrun.columns import CARRIED, LOG_ORDER, OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.errors import Conflict, Transient
from riverrun.failpoints import failpoint
from riverrun.flow import Flow
from riverrun.flow.operators.ends import AlertEnd, TopicEnd, ViewEnd
from riverrun.log.topic import Topic
from riverrun.runtime.compile.job import MOMENT, Job
from riverrun.runtime.control import Control
from riverrun.runtime.epoch import EpochResult
from riverrun.runtime.home import state_place
from riverrun.runtime.ledger import add_up, check_balance
from riverrun.runtime.manifest import Manifest, SourceClock, computation
from riverrun.runtime.outputs import alert_topic
from riverrun.runtime.packing import arrived
from riverrun.runtime.quarantine import quarantine_topic
from riverrun.runtime.settling import sent_schema, upserts
from riverrun.state.directory import StateDirectory
from riverrun.state.order import is_ascending
from riverrun.views import Epoch, Store
from riverrun.views.keyed_changes import net
from riverrun.views.layout import INSERT, NEW, OP
from riverrun.views.settled import Settled

log = logging.getLogger("riverrun.runtime")


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
        self.fence = fence
        self._rebuild = rebuild
        self._home = os.path.basename(home)
        self._state = StateDirectory(state_place(home))
        self._fingerprints = computation(flow)
        self.last = store.last(self._name, rebuild)
        self._base = Manifest.decode(self.last.manifest).base if self.last.manifest else 0

    def is_committed(self, epoch: int) -> bool:
        """Whether there is nothing left to do for this epoch."""
        return self.last.epoch >= epoch

    def check(self, result: EpochResult) -> None:
        """Refuse an epoch that is not the next one, or does not account for its rows."""
        if result.control.epoch != self.last.epoch + 1:
            raise Conflict(
                f"flow {self._name}: epoch {result.control.epoch} does not follow epoch {self.last.epoch} of its views",
                hint="The checkpoint and the views do not belong together: restore both, or rebuild the flow",
            )
        check_balance(self._name, result.control.epoch, result.report.counts)

    def apply(self, result: EpochResult) -> None:
        """Everything an epoch does, step by step. After a `Transient` error it may be called again."""
        failpoint("commit.begin")
        if self._rebuild is None:
            self._write_topics(result)
        manifest = Manifest(
            epoch=result.control.epoch,
            shards=self._job.shards,
            nodes=result.report.manifest,
            fingerprints=self._fingerprints,
            final=result.control.final,
            sources=self._sources(result.control),
            memory=result.control.memory,
            home=self._home,
            base=self._base,
            watermarks={
                node: (result.control.watermark(node)[1], now) for node, now in result.report.watermarks.items()
            },
            heard=result.report.heard,
        )
        epoch = Epoch(
            flow=self._name,
            fence=self.fence,
            epoch=result.control.epoch,
            positions=result.control.positions,
            changes={name + self._suffix: self._changes(end, result) for name, end in self._flow.views.items()},
            manifest=manifest.encode(),
            ledger=add_up(self._job, self.last.ledger, result.report.counts),
            received=result.control.received,
            rebuild=self._rebuild,
            whole=frozenset(
                name + self._suffix for name, end in self._flow.views.items() if end.node.is_table or end.keeps_all
            ),
            base=self._base,
            generation=self._home,
        )
        self._store.commit(epoch)
        failpoint("commit.store")
        self.last = self._store.last(self._name, self._rebuild)
        self._sweep(manifest)

    def _write_topics(self, result: EpochResult) -> None:
        for end in self._flow.derived.values():
            self._append(end, result)
        for alert in self._flow.alerts.values():
            self._fire(alert, result)
        failpoint("commit.topics")
        self._append_aside(result)
        failpoint("commit.aside")

    def _sources(self, control: Control) -> dict[str, SourceClock]:
        """Every source's clock after the epoch, for the status."""
        found = {}
        for reading in self._job.readings:
            for source in reading.watermarks:
                end = control.watermarks[source][1]
                found[source] = SourceClock(
                    reading.topic, end, reading.lateness, reading.idle, reading.producers is not None
                )
        return found

    def _changes(self, end: ViewEnd, result: EpochResult) -> pa.Table | list[Settled]:
        """What a view's store gets: parts that tasks have settled, or weighted rows in the order of the log."""
        branches = self._job.into_target[end.id]
        if branches[0].settling is not None:
            return [Settled.from_batch(part) for part in result.opened(self._job, branches[0])]
        return self._rows(end.id, result).select([*self._job.views[end.id].names, WEIGHT])

    def _rows(self, end: str, result: EpochResult) -> pa.Table:
        """Rows for an end, in the order of the log."""
        parts = [arrived(b, result.parts.get(b.index, []), result.exchange) for b in self._job.into_target[end]]
        rows = pa.concat_tables(parts)
        order = [name for name in LOG_ORDER if name in rows.column_names]
        if is_ascending(*(rows.column(name).cast(pa.int64()).to_numpy() for name in order)):
            return rows
        return rows.sort_by([(name, "ascending") for name in order])

    def _append(self, end: TopicEnd, result: EpochResult) -> None:
        branch = self._job.into_target[end.id][0]
        if branch.settling is not None:
            table = pa.Table.from_batches(result.opened(self._job, branch), schema=sent_schema(self._job, branch))
        else:
            rows = self._rows(end.id, result)
            if end.node.is_table or end.node.retracts:
                table = upserts(rows, end.key)
            else:
                moment = rows.column(TIME).cast(MOMENT)
                own = [name for name in rows.column_names if name not in (*CARRIED, RECEIVED)]
                table = rows.select(own).append_column(TIME, moment)
        if table.num_rows:
            self._appended(self._topics[end.name + self._suffix], table, result)

    def _fire(self, end: AlertEnd, result: EpochResult) -> None:
        """Rows that came to be: messages are made of them by whoever sends them."""
        rows = self._rows(end.id, result)
        if not rows.num_rows:
            return
        place = (PARTITION, OFFSET)  # of a row in the log, which is what tells rows of a stream apart
        key = [part for name in end.node.key or place for part in ((name,) if name in rows.column_names else place)]
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        came = net(frame, WEIGHT, key).filter(pl.col(OP).is_in([INSERT, NEW])).sort(PARTITION, OFFSET)
        topic = self._topics[alert_topic(self._name, end.name)]
        table = came.select(*topic.schema.names, pl.col(TIME).cast(pl.Datetime("us", "UTC"))).to_arrow()
        self._appended(topic, table, result)

    def _append_aside(self, result: EpochResult) -> None:
        """Late and quarantined rows: ordinary topics, one append for each."""
        found: dict[str, list[pa.Table]] = {}
        for name, _, data in result.late:
            found.setdefault(name + self._suffix, []).append(pa.ipc.open_stream(data).read_all())
        for name, _, data in result.quarantined:
            rows = pa.ipc.open_stream(data).read_all().drop_columns(["_time"])  # it is what is doubted
            found.setdefault(quarantine_topic(name) + self._suffix, []).append(rows)
        for name, parts in found.items():
            topic = self._topics[name]
            table = _fitted(pa.concat_tables(parts, promote_options="permissive"), topic)
            self._appended(topic, table, result)

    def _appended(self, topic: Topic, table: pa.Table, result: EpochResult) -> None:
        # What a flow computes may lie beyond the calendar, and must not end it.
        rows = clamp_table(table)
        topic.append(rows, producer=self._name, sequence=self._base + result.control.epoch, fence=self.fence)

    def _sweep(self, manifest: Manifest) -> None:
        """Now and then remove state files that no epoch can need any more."""
        if manifest.epoch % 20 == 0:
            entries = [entry for shards in manifest.nodes.values() for entry in shards.values()]
            try:
                self._state.sweep(entries, manifest.epoch)
            except Transient as error:  # the epoch has taken effect; the next sweep does it
                log.debug("old state of flow %s stays for now: %s", self._name, error)


def _fitted(table: pa.Table, topic: Topic) -> pa.Table:
    """The columns a topic has, and the event time, of a table that may have more."""
    return table.select([name for name in table.column_names if name in (*topic.schema.names, "_time")])
