"""What stores in SQL databases share: fences, declarations, the commit of an epoch, pruning."""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from riverrun.columns import WEIGHT
from riverrun.durations import Duration, micros
from riverrun.errors import Conflict, Fenced, NotFound, Transient, did_you_mean
from riverrun.failpoints import failpoint
from riverrun.views import catalogue
from riverrun.views.catalogue import CHANGES, EPOCHS, LIVE, VIEWS, FlowRow, Transaction, ViewRow
from riverrun.views.changelog import pack
from riverrun.views.epoch import Epoch, Last
from riverrun.views.layout import Layout
from riverrun.views.ops import DELETE, INSERT, NEW, OP
from riverrun.views.positions import as_position, from_json
from riverrun.views.spec import ViewSpec
from riverrun.views.store import Store

if TYPE_CHECKING:
    import polars as pl

_EPOCHS_KEPT = 100  # at least so many are remembered, however old
_PRUNE_EVERY = 1_000_000
_PRUNE_PARTS = 1000  # looked at each time, so that the cost does not grow with what is kept


class SqlStore(Store):
    """A store in an SQL database. What the database does in its own way is abstract here."""

    def __init__(self, changes_kept: Duration = "1 hour") -> None:
        super().__init__()
        self._changes_kept = micros(changes_kept)
        self._pruned_at: dict[str, int] = {}

    @abstractmethod
    def _writing(self, flow: str) -> AbstractContextManager[Transaction]:
        """A transaction no other writer of the flow can come between; errors are Riverrun's."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Transaction]:
        """A read-only transaction that sees one state of the store; errors are Riverrun's."""

    @abstractmethod
    def _create(self, db: Transaction, view: ViewRow) -> None:
        """Create the table of a view's rows."""

    @abstractmethod
    def _drop(self, db: Transaction, view: ViewRow) -> None:
        """Drop the table of a view's rows."""

    @abstractmethod
    def _publish(self, db: Transaction, view: ViewRow) -> None:
        """Let SQL see the view's rows under its own name and column names, instead of what it saw there."""

    @abstractmethod
    def _unpublish(self, db: Transaction, view: ViewRow) -> None:
        """The way back from `_publish`."""

    @abstractmethod
    def _delete(self, db: Transaction, view: ViewRow, layout: Layout, keys: pl.DataFrame) -> None:
        """Delete rows by key."""

    @abstractmethod
    def _find(self, db: Transaction, view: ViewRow, layout: Layout, keys: pl.DataFrame) -> pl.DataFrame:
        """The kept rows that have one of these keys."""

    @abstractmethod
    def _upsert(self, db: Transaction, view: ViewRow, layout: Layout, rows: pl.DataFrame) -> None:
        """Put kept rows, sorted by key and with each key once, in place of what has their keys."""

    def take_fence(self, flow: str, run: str | None = None) -> int:
        with self._writing(flow) as db:
            row = catalogue.find_flow(db, flow)
            fence = row.last.fence + 1
            catalogue.write_flow(db, flow, LIVE, replace(row, last=replace(row.last, fence=fence, run=run or _me())))
        return fence

    def raise_fence(self, flow: str, fence: int, run: str | None = None) -> None:
        with self._writing(flow) as db:
            row = catalogue.find_flow(db, flow)
            refuse_older(flow, fence, row.last)
            if fence > row.last.fence:
                last = replace(row.last, fence=fence, run=run or _me())
                catalogue.write_flow(db, flow, LIVE, replace(row, last=last))

    def check_fence(self, flow: str, fence: int) -> None:
        with self._reading() as db:
            refuse_older(flow, fence, catalogue.find_fence(db, flow))

    def declare(self, spec: ViewSpec) -> None:
        with self._writing(spec.flow) as db:
            found = catalogue.find_view(db, spec.name)
            if found is None:
                view = catalogue.add_view(db, spec, LIVE, pruned=catalogue.find_flow(db, spec.flow).seq)
                self._create(db, view)
                self._publish(db, view)
                return
            if found.spec.name != spec.name:
                raise Conflict(
                    f"view {spec.name!r} differs only in case from view {found.spec.name!r}",
                    hint="SQL does not tell them apart; give one of them another name",
                )
            spec.must_equal(found.spec)
            if spec.history_micros != found.spec.history_micros:
                db.run(f"update {VIEWS} set spec = ? where id = ?", catalogue.spec_text(spec), found.id)

    def keep_only(self, flow: str, fence: int, views: Collection[str]) -> None:
        with self._writing(flow) as db:
            at = catalogue.find_flow(db, flow)
            refuse_older(flow, fence, at.last)
            catalogue.keep_only(db, flow, views, at)

    def drop(self, view: str) -> None:
        with self._reading() as db:
            flow = catalogue.need_view(db, view).spec.flow
        with self._writing(flow) as db:
            self._remove(db, catalogue.need_view(db, view))

    def _remove(self, db: Transaction, view: ViewRow) -> None:
        if view.rebuild == LIVE:
            self._unpublish(db, view)
        self._drop(db, view)
        db.run(f"delete from {CHANGES} where view = ?", view.id)
        db.run(f"delete from {VIEWS} where id = ?", view.id)

    def last(self, flow: str, rebuild: int | None = None) -> Last:
        with self._reading() as db:
            return catalogue.find_flow(db, flow, rebuild or LIVE).last

    def commit(self, epoch: Epoch) -> bool:
        ready = self._netted(epoch)
        failpoint("views.netted")
        with self._writing(epoch.flow) as db:
            failpoint("views.begun")
            applied = self._apply(db, epoch, ready)
            failpoint("views.applied")
        failpoint("views.committed")
        if applied:
            self.announce()
        return applied

    def _netted(self, epoch: Epoch) -> dict[int, pl.DataFrame]:
        """The changes of each table the epoch will change, computed while others may still write."""
        from riverrun.views.net import net

        rebuild = epoch.rebuild or LIVE
        with self._reading() as db:
            views = catalogue.find_views(db, epoch.flow, rebuild)
            is_next = epoch.epoch == catalogue.find_flow(db, epoch.flow, rebuild).last.epoch + 1
        if not is_next:
            return {}
        known = [(views[name], rows) for name, rows in epoch.changes.items() if name in views and rows.num_rows]
        layouts = [(view, Layout.of(view.spec), rows) for view, rows in known]
        return {view.rows: net(layout.keep(rows), WEIGHT, layout.key) for view, layout, rows in layouts}

    def _apply(self, db: Transaction, epoch: Epoch, ready: Mapping[int, pl.DataFrame]) -> bool:
        rebuild = epoch.rebuild or LIVE
        row = catalogue.find_flow(db, epoch.flow, rebuild)
        if rebuild and not catalogue.has_flow(db, epoch.flow, rebuild):
            raise NotFound(f"flow {epoch.flow!r} has no rebuild {rebuild}; it was switched or abandoned")
        refuse_older(epoch.flow, epoch.fence, row.last)
        if epoch.epoch <= row.last.epoch:
            _check_repeated(db, epoch, rebuild)
            return False
        if epoch.epoch != row.last.epoch + 1:
            raise Conflict(
                f"epoch {epoch.epoch} of flow {epoch.flow!r} does not follow epoch {row.last.epoch}, the last one here",
                hint="The checkpoint and this store do not belong together: restore both, or rebuild",
            )
        views = catalogue.find_views(db, epoch.flow, rebuild)
        for name in epoch.changes:
            if name not in views:
                raise NotFound(f"flow {epoch.flow!r} has declared no view {name!r}", hint=did_you_mean(name, views))
        after = FlowRow(_after(epoch, row.last), row.seq + 1)
        for name, rows in epoch.changes.items():
            if rows.num_rows:
                if views[name].rows not in ready:
                    raise Transient(f"view {name!r} was replaced while epoch {epoch.epoch} was being computed")
                self._change(db, views[name], ready[views[name].rows], after, name in epoch.whole)
                failpoint("views.changed")
        catalogue.write_flow(db, epoch.flow, rebuild, after)
        catalogue.write_epoch(db, epoch.flow, rebuild, after)
        if rebuild == LIVE:
            self._prune(db, epoch.flow, list(views.values()), after)
        return True

    def _change(self, db: Transaction, view: ViewRow, changes: pl.DataFrame, at: FlowRow, whole: bool) -> None:
        import polars as pl

        layout = Layout.of(view.spec)
        if view.rebuild == LIVE and not whole:
            changes = self._with_old(db, view, layout, changes)
        gone = changes.filter(pl.col(OP) == DELETE)
        if gone.height:
            self._delete(db, view, layout, gone.select(layout.key))
        new = changes.filter(pl.col(OP).is_in([INSERT, NEW])).drop(OP)
        if new.height:
            self._note_nulls(db, view, layout, new)
            self._upsert(db, view, layout, new)
        if view.rebuild == LIVE:
            self._log(db, view, changes, at)

    def _with_old(self, db: Transaction, view: ViewRow, layout: Layout, changes: pl.DataFrame) -> pl.DataFrame:
        """The changes with the old rows of upserts: rows that are there and were not retracted."""
        import polars as pl

        from riverrun.views.net import net

        inserts = changes.filter(pl.col(OP) == INSERT).drop(OP)
        there = self._find(db, view, layout, inserts.select(layout.key)) if inserts.height else inserts
        if not inserts.height or not there.height:
            return changes
        weighted = [
            rows.with_columns(pl.lit(weight, pl.Int64).alias(WEIGHT)) for rows, weight in ((there, -1), (inserts, 1))
        ]
        upserts = net(pl.concat(weighted), WEIGHT, layout.key)
        if inserts.height == changes.height:
            return upserts
        return pl.concat([changes.filter(pl.col(OP) != INSERT), upserts]).sort(*layout.key, OP)

    def _note_nulls(self, db: Transaction, view: ViewRow, layout: Layout, rows: pl.DataFrame) -> None:
        """Remember which key columns hold nulls, for databases whose keys cannot."""
        nulls = [name for name in layout.key if name in view.nulls or rows[name].null_count()]
        if len(nulls) > len(view.nulls):
            catalogue.mark_nulls(db, view, nulls)
            if view.rebuild == LIVE:
                self._publish(db, replace(view, nulls=tuple(nulls)))

    def _log(self, db: Transaction, view: ViewRow, changes: pl.DataFrame, at: FlowRow) -> None:
        total, parts = pack(changes)
        first = 0
        for count, data in parts:
            db.run(
                f"insert into {CHANGES} (view, seq, first, changes, total, committed, data)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                *(view.id, at.seq, first, count, total, at.last.committed, data),
            )
            first += count

    def _prune(self, db: Transaction, flow: str, views: Sequence[ViewRow], at: FlowRow) -> None:
        now = at.last.committed
        if now < self._pruned_at.get(flow, 0) + _PRUNE_EVERY:
            return
        self._pruned_at[flow] = now
        longest = self._changes_kept
        for view in views:
            keep = max(self._changes_kept, view.spec.history_micros or 0)
            longest = max(longest, keep)
            oldest = db.all(
                f"select seq, committed from {CHANGES} where view = ? order by seq limit ?", view.id, _PRUNE_PARTS
            )
            expired = max((seq for seq, committed in oldest if committed < now - keep), default=None)
            if expired is not None:
                db.run(f"delete from {CHANGES} where view = ? and seq <= ?", view.id, expired)
                db.run(f"update {VIEWS} set pruned = ? where id = ?", expired, view.id)
        db.run(
            f"delete from {EPOCHS} where flow = ? and rebuild = {LIVE} and seq < ? and committed < ?",
            *(flow, at.seq - _EPOCHS_KEPT, now - longest),
        )


def _me() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


def refuse_older(flow: str, fence: int, last: Last) -> None:
    """`Fenced`, naming the newer run, when another one has taken over."""
    if fence < last.fence:
        raise Fenced(
            f"run {fence} of flow {flow!r} may write nothing more: run {last.fence} has taken over ({last.run})",
            hint="Only one run of a flow can write; stop this one",
        )


def _check_repeated(db: Transaction, epoch: Epoch, rebuild: int) -> None:
    row = db.one(
        f"select positions from {EPOCHS} where flow = ? and rebuild = ? and epoch = ? order by seq desc limit 1",
        *(epoch.flow, rebuild, epoch.epoch),
    )
    if row is None:
        raise Conflict(
            f"epoch {epoch.epoch} of flow {epoch.flow!r} is older than the epochs remembered here",
            hint="The checkpoint is older than this store: restore both, or rebuild",
        )
    if from_json(row[0]) != as_position(epoch.positions):
        raise Conflict(
            f"epoch {epoch.epoch} of flow {epoch.flow!r} was committed with other input positions ({row[0]})",
            hint="Two checkpoints write the same views: stop one of them, or rebuild",
        )


def _after(epoch: Epoch, last: Last) -> Last:
    return Last(
        epoch=epoch.epoch,
        fence=epoch.fence,
        positions=as_position(epoch.positions),
        manifest=epoch.manifest,
        ledger=epoch.ledger,
        received=epoch.received,
        committed=max(epoch.committed, last.committed),  # the clock may jump; the order of commits does not
        run=last.run if epoch.fence == last.fence else _me(),
    )
