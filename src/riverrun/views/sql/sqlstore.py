"""A view store in an SQL database: every call is one transaction of the parts it holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from riverrun.columns import check_name
from riverrun.durations import Duration, micros, wall_clock
from riverrun.errors import Conflict, Invalid
from riverrun.failpoints import failpoint
from riverrun.position import Position
from riverrun.store_address import StoreAddress
from riverrun.views.changelog import Change, Cursor
from riverrun.views.columns import keep
from riverrun.views.epoch import Epoch, Incumbent, Last, Positions, StoreIdentity, ViewProgress, as_position, this_run
from riverrun.views.selection import Selection, check_count
from riverrun.views.spec import ViewSpec
from riverrun.views.sql import catalogue, flow_progress, incumbents
from riverrun.views.sql.catalogue import LIVE, ViewRow
from riverrun.views.sql.commits import Commits, settle_all
from riverrun.views.sql.conditions import condition
from riverrun.views.sql.database import Database
from riverrun.views.sql.kept_changes import KeptChanges
from riverrun.views.sql.rebuilds import TableRebuilds
from riverrun.views.sql.versions import find_version, undo
from riverrun.views.store import Store

_TELLING = 0.5  # seconds that a word of a run may wait for a lock: epochs of other flows wait for it meanwhile


class SqlStore(Store):
    """A store in a database, which it closes. Changes are kept for `changes_kept` and for a view's `history`."""

    def __init__(self, database: Database, changes_kept: Duration = "1 hour") -> None:
        super().__init__()
        self.database = database
        self._tables = database.tables
        self._changes = KeptChanges(micros(changes_kept))
        self._commits = Commits(self._tables, self._changes)
        self._rebuilds = TableRebuilds(self._tables, self._changes)

    def identity(self, *, number: bool = False) -> StoreIdentity:
        with self.database.reading() as db:
            known = catalogue.store_number(db)
        if known is None and number:
            with self.database.writing("") as db:
                known = catalogue.number_store(db)
        return StoreIdentity(known, self.database.place)

    def take_fence(self, flow: str, run: str | None = None) -> int:
        check_name(flow, "flow")
        with self.database.writing(flow) as db:
            row = flow_progress.find_flow(db, flow)
            last = replace(row.last, fence=row.last.fence + 1, run=run or this_run())
            flow_progress.write_flow(db, flow, LIVE, replace(row, last=last))
        return last.fence

    def raise_fence(self, flow: str, fence: int, run: str | None = None) -> None:
        check_name(flow, "flow")
        with self.database.writing(flow) as db:
            row = flow_progress.find_flow(db, flow)
            row.last.refuse_older(flow, fence)
            if fence > row.last.fence:
                last = replace(row.last, fence=fence, run=run or this_run())
                flow_progress.write_flow(db, flow, LIVE, replace(row, last=last))

    def check_fence(self, flow: str, fence: int) -> None:
        with self.database.reading() as db:
            flow_progress.find_fence(db, flow).refuse_older(flow, fence)

    def hear(self, flow: str, fence: int, process: str) -> None:
        with self.database.writing(flow, _TELLING) as db:
            if not self.database.has_table(db, catalogue.RUNS):
                db.run(catalogue.RUNS_TABLE)
            incumbents.write_incumbent(db, flow, Incumbent(fence, this_run(), process, wall_clock(), wall_clock()))

    def resign(self, flow: str, fence: int) -> None:
        with self.database.writing(flow, _TELLING) as db:
            if self.database.has_table(db, catalogue.RUNS):
                incumbents.remove_incumbent(db, flow, fence)

    def incumbent(self, flow: str) -> Incumbent | None:
        with self.database.reading() as db:
            there = self.database.has_table(db, catalogue.RUNS)
            return incumbents.find_incumbent(db, flow) if there else None

    def declare(self, spec: ViewSpec) -> None:
        with self.database.writing(spec.flow) as db:
            declared = catalogue.find_view(db, spec.name)
            if declared is None:
                view = catalogue.add_view(db, spec, LIVE, pruned=flow_progress.find_seq(db, spec.flow))
                if spec.to is None:
                    self._tables.create(db, view)
                    self._tables.publish(db, view)
                return
            if declared.spec.name != spec.name:
                raise Conflict(
                    f"view {spec.name!r} differs only in case from view {declared.spec.name!r}",
                    hint="SQL does not tell them apart; give one of them another name",
                )
            spec.must_equal(declared.spec)
            view = replace(declared, spec=spec)
            if spec.indexes != declared.spec.indexes and spec.to is None:
                self._tables.unindex(db, declared)
                self._tables.index(db, view)
            if (spec.history_micros, spec.indexes) != (declared.spec.history_micros, declared.spec.indexes):
                catalogue.write_view(db, view)

    def keep_only(self, flow: str, fence: int, views: Collection[str]) -> None:
        with self.database.writing(flow) as db:
            row = flow_progress.find_flow(db, flow)
            row.last.refuse_older(flow, fence)
            catalogue.keep_only(db, flow, views, row.progress)

    def drop(self, view: str) -> None:
        with self.database.writing(self.spec(view).flow) as db:
            row = catalogue.need_view(db, view)
            if row.spec.to is None:
                self._tables.unpublish(db, row)
                self._tables.drop(db, row)
            self._changes.forget(db, row)
            catalogue.remove_view(db, row)

    def last(self, flow: str, rebuild: int | None = None) -> Last:
        with self.database.reading() as db:
            return flow_progress.find_flow(db, flow, rebuild or LIVE).last

    def commit(self, epoch: Epoch) -> bool:
        with self.database.reading() as db:
            views = self._commits.targets(db, epoch)
        ready = settle_all(epoch, views)
        failpoint("views.netted")
        with self.database.writing(epoch.flow) as db:
            failpoint("views.begun")
            applied = self._commits.apply(db, epoch, ready)
            failpoint("views.applied")
        failpoint("views.committed")
        if applied:
            self.announce()
        return applied

    def begin_rebuild(self, flow: str, specs: Sequence[ViewSpec]) -> int:
        with self.database.writing(flow) as db:
            return self._rebuilds.begin(db, flow, specs)

    def rebuilds(self, flow: str) -> list[int]:
        with self.database.reading() as db:
            return flow_progress.rebuild_tokens(db, flow)

    def abandon(self, rebuild: int) -> None:
        with self.database.writing(self._flow_of(rebuild)) as db:
            self._rebuilds.abandon(db, rebuild)

    def staged(self, rebuild: int) -> list[ViewSpec]:
        with self.database.reading() as db:
            return [view.spec for view in catalogue.all_views(db, rebuild)]

    def switch(
        self, rebuild: int, fence: int, epoch: int | None = None, manifest: bytes | None = None, base: int = 0
    ) -> None:
        with self.database.writing(self._flow_of(rebuild)) as db:
            self._rebuilds.check(db, rebuild)
            self._rebuilds.switch(db, rebuild, fence, epoch, manifest)
            failpoint("views.switched")
        self.announce()

    def supersede(self, rebuild: int, fence: int, epoch: int, positions: Positions, manifest: bytes) -> None:
        """The same whatever the running views have read: for a store that follows another one."""
        with self.database.writing(self._flow_of(rebuild)) as db:
            self._rebuilds.switch(db, rebuild, fence, epoch, manifest, as_position(positions))
            failpoint("views.switched")
        self.announce()

    def _flow_of(self, rebuild: int) -> str:
        with self.database.reading() as db:
            return flow_progress.flow_of(db, rebuild)

    def flows(self) -> list[str]:
        with self.database.reading() as db:
            return flow_progress.flow_names(db)

    def views(self) -> list[ViewSpec]:
        with self.database.reading() as db:
            return [view.spec for view in catalogue.all_views(db)]

    def spec(self, view: str) -> ViewSpec:
        with self.database.reading() as db:
            return catalogue.need_view(db, view).spec

    def progress(self, view: str) -> ViewProgress:
        with self.database.reading() as db:
            return flow_progress.find_progress(db, view)

    def count(self, view: str) -> int:
        with self.database.reading() as db:
            return self._tables.count(db, catalogue.need_rows(db, view))

    def fetch(
        self, view: str, where: str | None = None, limit: int | None = None, timeout: float | None = None
    ) -> pa.Table:
        check_count("limit", limit)
        with self.database.reading(None if where is None else timeout) as db:
            row = catalogue.need_rows(db, view)
            checked = None if where is None else condition(where, row.spec.visible, self._tables.name_quotes)
            kept = self._tables.scan(db, row, checked, limit)
        return row.layout.give_back(kept)

    def select(self, view: str, selection: Selection) -> pa.Table:
        with self.database.reading() as db:
            row = catalogue.need_rows(db, view)
            kept = self._tables.select(db, row, selection)
        return row.layout.give_back(kept)

    def page(self, view: str, selection: Selection, size: int, timeout: float | None = None) -> tuple[pa.Table, bool]:
        with self.database.reading(timeout) as db:
            row = catalogue.need_rows(db, view)
            kept, more = self._tables.page(db, row, selection, size)
        return row.layout.give_back(kept), more

    def matching(self, spec: ViewSpec, rows: pa.Table, where: str) -> pa.Table:
        import polars as pl

        checked = condition(where, spec.visible, self._tables.name_quotes)
        visible = ViewRow(0, ViewSpec(spec.name, spec.flow, rows.schema, key=()), LIVE, 0, 0, ())
        frame = pl.from_arrow(pa.table({f"c{i}": keep(column) for i, column in enumerate(rows.columns)}))
        assert isinstance(frame, pl.DataFrame)
        with self.database.reading() as db:
            return rows.take(self._tables.matching(db, visible, frame, checked))

    def lookup(self, view: str, key: Sequence[pa.Array]) -> pa.Table:
        with self.database.reading() as db:
            row = catalogue.need_rows(db, view)
            kept = self._tables.get(db, row, [keep(part)[0].as_py() for part in key] or [0])
        return row.layout.give_back(kept)

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        timeout: float | None = None,
        view: str | None = None,
    ) -> list[dict[str, Any]]:
        return self.database.query(sql, parameters, timeout)

    def introduce(self, addresses: Iterable[StoreAddress]) -> None:
        pass  # it has the rows of all its views itself

    def admit_strangers(self) -> None:
        self.database.admit_strangers()

    def concerns(self) -> list[tuple[str, str]]:
        return self.database.concerns()

    def changes(self, view: str, after: Cursor | None) -> Iterator[Change]:
        while True:
            # A transaction per part: a slow reader must not hold a snapshot open.
            with self.database.reading() as db:
                row = catalogue.need_rows(db, view)
                after = self._changes.start(db, row, after)
                part = self._changes.next(db, row, after)
            if part is None:
                return
            for change in part:
                after = Cursor.parse(change.cursor)
                yield change

    def changed(self, flow: str, after: int | None) -> tuple[int, dict[str, int]]:
        with self.database.reading() as db:
            newest = flow_progress.find_seq(db, flow)
            return newest, self._changes.counts(db, flow, newest if after is None else after)

    def version(self, view: str, at: Position | int) -> tuple[ViewProgress, pa.Table]:
        with self.database.reading() as db:
            row = catalogue.need_rows(db, view)
            if row.spec.history_micros is None:
                raise Invalid(f"view {view!r} keeps no history", hint='Declare it with flow.view(…, history="7 days")')
            progress = find_version(db, row, at)
            now, since = self._tables.scan(db, row), self._changes.since(db, row, progress.commit)
        return progress, row.layout.give_back(undo(now, since, row.layout))

    def close(self) -> None:
        self.database.close()
        self.announce()
