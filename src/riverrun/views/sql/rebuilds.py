"""Views built again beside the running ones, and put in their place, in an SQL store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from riverrun.columns import WEIGHT
from riverrun.durations import wall_clock
from riverrun.errors import Conflict, Invalid
from riverrun.position import Position
from riverrun.views.settled import Settled
from riverrun.views.spec import ViewSpec
from riverrun.views.sql import catalogue, flow_progress
from riverrun.views.sql.catalogue import LIVE, ViewRow
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.flow_progress import NEVER, FlowRow
from riverrun.views.sql.kept_changes import KeptChanges
from riverrun.views.sql.tables import ViewTables

if TYPE_CHECKING:
    import polars as pl


class TableRebuilds:
    """Begins, ends and switches rebuilds; each step in the transaction that is given."""

    def __init__(self, tables: ViewTables, changes: KeptChanges) -> None:
        self._tables = tables
        self._changes = changes

    def begin(self, db: Transaction, flow: str, specs: Sequence[ViewSpec]) -> int:
        """Empty tables for these views; the token of the rebuild."""
        rebuild = catalogue.next_id(db)
        flow_progress.write_flow(db, flow, rebuild, NEVER)
        for spec in specs:
            if spec.flow != flow:
                raise Invalid(f"view {spec.name!r} belongs to flow {spec.flow!r}, not to {flow!r}")
            _check_owner(catalogue.find_view(db, spec.name), spec)
            view = catalogue.add_view(db, spec, rebuild, pruned=0)
            if spec.to is None:
                self._tables.create(db, view)
        return rebuild

    def abandon(self, db: Transaction, rebuild: int) -> None:
        """Remove the tables."""
        for view in catalogue.all_views(db, rebuild):
            if view.spec.to is None:
                self._tables.drop(db, view)
            catalogue.remove_view(db, view)
        flow_progress.forget_rebuild(db, rebuild)

    def check(self, db: Transaction, rebuild: int) -> None:
        """`Conflict` unless the rebuild and the running flow have read up to the same positions."""
        flow = flow_progress.flow_of(db, rebuild)
        live, built = flow_progress.find_flow(db, flow), flow_progress.find_flow(db, flow, rebuild)
        views = catalogue.all_views(db, rebuild)
        topics = {topic for view in views for topic in view.spec.topics} | built.last.positions.keys()
        _check_positions(flow, topics, live.last.positions, built.last.positions)

    def switch(
        self,
        db: Transaction,
        rebuild: int,
        fence: int,
        epoch: int | None = None,
        manifest: bytes | None = None,
        positions: Position | None = None,
    ) -> None:
        """Put the tables, positions and the manifest in place of the flow's."""
        flow = flow_progress.flow_of(db, rebuild)
        live, built = flow_progress.find_flow(db, flow), flow_progress.find_flow(db, flow, rebuild)
        live.last.refuse_older(flow, fence)
        built.last.refuse_older(flow, fence)
        views = catalogue.all_views(db, rebuild)
        last = replace(
            built.last,
            fence=fence,
            epoch=built.last.epoch if epoch is None else epoch,
            positions=built.last.positions if positions is None else positions,
            manifest=built.last.manifest if manifest is None else manifest,
            committed=max(wall_clock(), live.last.committed),
            run=live.last.run if fence == live.last.fence else built.last.run,
        )
        after = FlowRow(last, live.seq + 1)
        for view in views:
            self._replace(db, view, after)
        catalogue.keep_only(db, flow, [view.spec.name for view in views], live.progress)
        flow_progress.forget_rebuild(db, rebuild)
        flow_progress.write_epoch(db, flow, LIVE, after)

    def _replace(self, db: Transaction, built: ViewRow, at: FlowRow) -> None:
        """Make a rebuilt view the one that readers see, and tell its followers the difference if it can be told."""
        old = catalogue.find_view(db, built.spec.name)
        if old is None:
            shown = replace(built, rebuild=LIVE, pruned=at.seq)
            catalogue.write_view(db, shown)
            if shown.spec.to is None:
                self._tables.publish(db, shown)
            return
        # Of a view that was not kept up for a while, nobody can tell what it was then.
        here = old.spec.to is None and built.spec.to is None
        same = (old.spec.schema, old.spec.key) == (built.spec.schema, built.spec.key)
        comparable = here and same and old.stopped is None
        if comparable:
            self._changes.write(db, old, [self._difference(db, old, built).batch], at)
        else:
            self._changes.forget(db, old)
        catalogue.remove_view(db, built)
        shown = replace(built, id=old.id, rebuild=LIVE, pruned=old.pruned if comparable else at.seq)
        catalogue.write_view(db, shown)
        if shown.spec.to is None:
            self._tables.publish(db, shown)
        elif old.spec.to is None:
            self._tables.unpublish(db, old)
        if old.spec.to is None:
            self._tables.drop(db, old)

    def _difference(self, db: Transaction, old: ViewRow, new: ViewRow) -> Settled:
        import polars as pl

        from riverrun.views.keyed_changes import net

        weighted: list[pl.DataFrame] = []
        for view, weight in ((old, -1), (new, 1)):
            rows = pl.from_arrow(self._tables.scan(db, view))
            assert isinstance(rows, pl.DataFrame)
            weighted.append(rows.with_columns(pl.lit(weight, pl.Int64).alias(WEIGHT)))
        return Settled.from_frame(new.spec, net(pl.concat(weighted), WEIGHT, new.layout.key))


def _check_owner(view: ViewRow | None, spec: ViewSpec) -> None:
    if view is not None and (view.spec.flow, view.spec.name) != (spec.flow, spec.name):
        raise Conflict(f"view {view.spec.name!r} belongs to flow {view.spec.flow!r}, not to {spec.flow!r}")


def _check_positions(flow: str, topics: Collection[str], live: Position, built: Position) -> None:
    both = live.keys() & set(topics)
    if Position({t: live[t] for t in both}) != Position({t: built.get(t, {}) for t in both}):
        raise Conflict(
            f"the rebuild of flow {flow!r} has not read up to where the running one is",
            hint="Commit its next epochs, then switch",
        )
