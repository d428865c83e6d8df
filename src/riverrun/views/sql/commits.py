"""How an epoch takes effect in an SQL store: settled before the transaction, checked, written and logged in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from riverrun.columns import WEIGHT
from riverrun.errors import Invalid, NotFound, Transient, did_you_mean
from riverrun.failpoints import failpoint
from riverrun.views.epoch import Epoch
from riverrun.views.layout import INSERT, OP
from riverrun.views.settled import Settled, settled_parts
from riverrun.views.sql import flow_progress
from riverrun.views.sql.catalogue import LIVE, ViewRow, find_views
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.flow_progress import FlowRow
from riverrun.views.sql.kept_changes import KeptChanges
from riverrun.views.sql.tables import ViewTables

if TYPE_CHECKING:
    import polars as pl


class Commits:
    """Applies epochs to the tables, and to the changes that are kept."""

    def __init__(self, tables: ViewTables, changes: KeptChanges) -> None:
        self._tables = tables
        self._changes = changes

    def targets(self, db: Transaction, epoch: Epoch) -> dict[str, ViewRow]:
        """The views that the epoch changes, as they are now; none when the epoch is not the next one."""
        rebuild = epoch.rebuild or LIVE
        if epoch.epoch != flow_progress.find_flow(db, epoch.flow, rebuild).last.epoch + 1:
            return {}
        views = find_views(db, epoch.flow, rebuild)
        return {name: views[name] for name in epoch.changes if name in views}

    def apply(self, db: Transaction, epoch: Epoch, ready: Mapping[int, Sequence[Settled]]) -> bool:
        """Write the epoch; False when it is there already."""
        rebuild = epoch.rebuild or LIVE
        if rebuild and rebuild not in flow_progress.rebuild_tokens(db, epoch.flow):
            raise NotFound(f"flow {epoch.flow!r} has no rebuild {rebuild}; it was switched or abandoned")
        flow = flow_progress.find_flow(db, epoch.flow, rebuild)
        flow.last.refuse_older(epoch.flow, epoch.fence)
        if epoch.epoch <= flow.last.epoch:
            epoch.check_repeated(flow_progress.find_positions(db, epoch.flow, rebuild, epoch.epoch))
            return False
        after = FlowRow(epoch.after(flow.last), flow.seq + 1)
        views = find_views(db, epoch.flow, rebuild)
        for name in epoch.changes:
            if name not in views:
                raise NotFound(f"flow {epoch.flow!r} has declared no view {name!r}", hint=did_you_mean(name, views))
            if views[name].spec.to is not None:
                raise Invalid(f"view {name!r} is not in this store: it is in {views[name].spec.to}")
            if views[name].rows not in ready:
                raise Transient(f"view {name!r} was replaced while epoch {epoch.epoch} was being computed")
            parts = ready[views[name].rows]
            if parts:
                self._change(db, views[name], parts, after, name in epoch.whole)
                failpoint("views.changed")
        flow_progress.write_epoch(db, epoch.flow, rebuild, after)
        if rebuild == LIVE:
            self._changes.prune(db, epoch.flow, views.values(), after)
        return True

    def _change(self, db: Transaction, view: ViewRow, parts: Sequence[Settled], at: FlowRow, whole: bool) -> None:
        from riverrun.state.frames import stack

        visible = view.rebuild == LIVE  # nobody follows the rows of a rebuild
        if visible and not whole:
            parts = [self._with_old(db, view, part) for part in parts]
        self._tables.write(db, view, stack([part.to_frame() for part in parts]))
        if visible:
            self._changes.write(db, view, [part.batch for part in parts], at)

    def _with_old(self, db: Transaction, view: ViewRow, part: Settled) -> Settled:
        """The changes with the old rows of upserts: rows that are there and were not retracted."""
        import polars as pl

        from riverrun.views.keyed_changes import net

        changes = part.to_frame()
        inserts = changes.filter(pl.col(OP) == INSERT).drop(OP)
        if not inserts.height:
            return part
        there = self._tables.find(db, view, inserts.select(view.layout.key))
        if not there.height:
            return part
        upserts = net(pl.concat([_weighted(there, -1), _weighted(inserts, 1)]), WEIGHT, view.layout.key)
        if inserts.height < changes.height:
            others = changes.filter(pl.col(OP) != INSERT)
            upserts = pl.concat([others, upserts]).sort(*view.layout.key, OP)
        return Settled.from_frame(view.spec, upserts)


def settle_all(epoch: Epoch, views: Mapping[str, ViewRow]) -> dict[int, list[Settled]]:
    """The changes of these views ready to be written, by the number of their table."""
    return {view.rows: settled_parts(view.spec, epoch.changes[name]) for name, view in views.items()}


def _weighted(rows: pl.DataFrame, weight: int) -> pl.DataFrame:
    import polars as pl

    return rows.with_columns(pl.lit(weight, pl.Int64).alias(WEIGHT))
