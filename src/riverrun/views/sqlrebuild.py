"""Building views again beside the running ones, and switching over in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from riverrun.columns import WEIGHT
from riverrun.durations import wall_clock
from riverrun.errors import Conflict, Invalid, NotFound
from riverrun.failpoints import failpoint
from riverrun.position import Position
from riverrun.views import catalogue
from riverrun.views.catalogue import CHANGES, EPOCHS, FLOWS, LIVE, VIEWS, FlowRow, Transaction, ViewRow
from riverrun.views.epoch import Last
from riverrun.views.layout import Layout
from riverrun.views.spec import ViewSpec
from riverrun.views.sqlread import SqlReads
from riverrun.views.sqlstore import refuse_older

if TYPE_CHECKING:
    import polars as pl


class SqlRebuilds(SqlReads):
    """An SQL store whose views can be built again."""

    def begin_rebuild(self, flow: str, specs: Sequence[ViewSpec]) -> int:
        with self._writing(flow) as db:
            rebuild = catalogue.next_id(db)
            catalogue.write_flow(db, flow, rebuild, FlowRow(Last(epoch=0, fence=0, positions=Position()), 0))
            for spec in specs:
                if spec.flow != flow:
                    raise Invalid(f"view {spec.name!r} belongs to flow {spec.flow!r}, not to {flow!r}")
                _check_owner(catalogue.find_view(db, spec.name), spec)
                self._create(db, catalogue.add_view(db, spec, rebuild, pruned=0))
        return rebuild

    def rebuilds(self, flow: str) -> list[int]:
        with self._reading() as db:
            rows = db.all(f"select rebuild from {FLOWS} where flow = ? and rebuild <> {LIVE} order by rebuild", flow)
        return [int(rebuild) for (rebuild,) in rows]

    def abandon(self, rebuild: int) -> None:
        with self._reading() as db:
            flow = _flow_of(db, rebuild)
        with self._writing(flow) as db:
            _flow_of(db, rebuild)
            for view in catalogue.all_views(db, rebuild):
                self._remove(db, view)
            _forget(db, rebuild)

    def switch(self, rebuild: int, fence: int, epoch: int | None = None, manifest: bytes | None = None) -> None:
        with self._reading() as db:
            flow = _flow_of(db, rebuild)
        with self._writing(flow) as db:
            _flow_of(db, rebuild)
            live, built = catalogue.find_flow(db, flow), catalogue.find_flow(db, flow, rebuild)
            refuse_older(flow, fence, live.last)
            refuse_older(flow, fence, built.last)
            views = catalogue.all_views(db, rebuild)
            topics = {topic for view in views for topic in view.spec.topics} | built.last.positions.keys()
            _check_positions(flow, topics, live.last.positions, built.last.positions)
            last = replace(
                built.last,
                fence=fence,
                epoch=built.last.epoch if epoch is None else epoch,
                manifest=built.last.manifest if manifest is None else manifest,
                committed=max(wall_clock(), live.last.committed),
                run=live.last.run if fence == live.last.fence else built.last.run,
            )
            at = FlowRow(last, live.seq + 1)
            for view in views:
                self._replace(db, view, at)
            catalogue.keep_only(db, flow, [view.spec.name for view in views], live)
            _forget(db, rebuild)
            catalogue.write_flow(db, flow, LIVE, at)
            catalogue.write_epoch(db, flow, LIVE, at)
            failpoint("views.switched")
        self.announce()

    def _replace(self, db: Transaction, built: ViewRow, at: FlowRow) -> None:
        old = catalogue.find_view(db, built.spec.name)
        if old is None:
            db.run(f"update {VIEWS} set rebuild = {LIVE}, pruned = ? where id = ?", at.seq, built.id)
            self._publish(db, replace(built, rebuild=LIVE))
            return
        # Of a view that was not kept up for a while, nobody can tell what it was then.
        comparable = old.stopped is None and (old.spec.schema, old.spec.key) == (built.spec.schema, built.spec.key)
        if comparable:
            self._log(db, old, self._difference(db, old, built), at)
        else:
            db.run(f"delete from {CHANGES} where view = ?", old.id)
        db.run(f"delete from {VIEWS} where id = ?", built.id)
        db.run(
            f"update {VIEWS} set spec = ?, rows = ?, pruned = ?, nulls = ? where id = ?",
            *(catalogue.spec_text(built.spec), built.rows, old.pruned if comparable else at.seq),
            *(" ".join(built.nulls), old.id),
        )
        self._publish(db, replace(built, id=old.id, rebuild=LIVE))
        self._drop(db, old)

    def _difference(self, db: Transaction, old: ViewRow, new: ViewRow) -> pl.DataFrame:
        import polars as pl

        from riverrun.views.net import net

        layout = Layout.of(new.spec)
        weighted = []
        for view, weight in ((old, -1), (new, 1)):
            rows = pl.from_arrow(self._scan(db, view, layout, None, None))
            assert isinstance(rows, pl.DataFrame)
            weighted.append(rows.with_columns(pl.lit(weight, pl.Int64).alias(WEIGHT)))
        return net(pl.concat(weighted), WEIGHT, layout.key)


def _flow_of(db: Transaction, rebuild: int) -> str:
    row = db.one(f"select flow from {FLOWS} where rebuild = ? and rebuild <> {LIVE}", rebuild)
    if row is None:
        raise NotFound(f"there is no rebuild {rebuild}; it was switched or abandoned")
    return str(row[0])


def _forget(db: Transaction, rebuild: int) -> None:
    for table in (FLOWS, EPOCHS):
        db.run(f"delete from {table} where rebuild = ?", rebuild)


def _check_owner(found: ViewRow | None, spec: ViewSpec) -> None:
    if found is not None and (found.spec.flow, found.spec.name) != (spec.flow, spec.name):
        raise Conflict(f"view {found.spec.name!r} belongs to flow {found.spec.flow!r}, not to {spec.flow!r}")


def _check_positions(flow: str, topics: set[str], live: Position, built: Position) -> None:
    both = live.keys() & topics
    if Position({t: live[t] for t in both}) != Position({t: built.get(t, {}) for t in both}):
        raise Conflict(
            f"the rebuild of flow {flow!r} has not read up to where the running one is",
            hint="Commit its next epochs, then switch",
        )
