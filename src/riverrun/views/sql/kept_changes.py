"""The changes of views in an SQL store: written with every commit, kept for a while, read from any cursor on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from riverrun.errors import OutOfRange
from riverrun.views.changelog import Change, Cursor, changes_of, count, pack
from riverrun.views.sql.catalogue import CHANGES, LIVE, VIEWS, ViewRow
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.flow_progress import FlowRow, find_seq, forget_epochs

_PRUNE_EVERY = 1_000_000
_PRUNE_PARTS = 1000  # looked at each time, so that the cost does not grow with what is kept


class KeptChanges:
    """Keeps changes for `kept` microseconds, and for as long as a view's history."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._pruned_at: dict[str, int] = {}

    def write(self, db: Transaction, view: ViewRow, parts: Sequence[pa.RecordBatch], at: FlowRow) -> None:
        """The changes of a view in the commit `at`."""
        total, first = sum(map(count, parts)), 0
        for number, data in pack(parts):
            db.run(
                f"insert into {CHANGES} (view, seq, first, changes, total, committed, data)"
                " values (?, ?, ?, ?, ?, ?, ?)",
                *(view.id, at.seq, first, number, total, at.last.committed, data),
            )
            first += number

    def forget(self, db: Transaction, view: ViewRow) -> None:
        """Remove everything about a view."""
        db.run(f"delete from {CHANGES} where view = ?", view.id)

    def prune(self, db: Transaction, flow: str, views: Iterable[ViewRow], at: FlowRow) -> None:
        """Now and then, remove what has been kept for long enough."""
        now = at.last.committed
        if now < self._pruned_at.get(flow, 0) + _PRUNE_EVERY:
            return
        self._pruned_at[flow] = now
        longest = self._kept
        for view in views:
            kept = max(self._kept, view.spec.history_micros or 0)
            longest = max(longest, kept)
            oldest = db.all(
                f"select seq, committed from {CHANGES} where view = ? order by seq limit ?", view.id, _PRUNE_PARTS
            )
            expired = max((seq for seq, committed in oldest if committed < now - kept), default=None)
            if expired is not None:
                db.run(f"delete from {CHANGES} where view = ? and seq <= ?", view.id, expired)
                db.run(f"update {VIEWS} set pruned = ? where id = ?", expired, view.id)
        forget_epochs(db, flow, at, longest)

    def start(self, db: Transaction, view: ViewRow, cursor: Cursor | None) -> Cursor:
        """The cursor to read from, by default before all changes there are; `OutOfRange` when some after it are gone."""
        if cursor is None:
            return Cursor(view.pruned)
        newest = find_seq(db, view.spec.flow)
        expired = cursor.commit < view.pruned or (cursor.commit == view.pruned and cursor.done is not None)
        if expired or cursor.commit > newest:
            raise OutOfRange(
                f"view {view.spec.name!r} does not have the changes after cursor {cursor};"
                f" it has those after {view.pruned}, up to {newest}",
                hint="Read the view, then follow it from its cursor",
            )
        return cursor

    def next(self, db: Transaction, view: ViewRow, after: Cursor) -> Iterator[Change] | None:
        """The first changes after a cursor, a bounded number; None when there are none."""
        done = -1 if after.done is None else after.done
        part = db.one(
            f"select seq, first, total, data from {CHANGES} where view = ?"
            " and (seq > ? or (seq = ? and ? >= 0 and first + changes > ?)) order by seq, first limit 1",
            *(view.id, after.commit, after.commit, done, done),
        )
        if part is None:
            return None
        seq, first, total, data = part
        skip = max(0, done - first) if seq == after.commit else 0
        return changes_of(bytes(data), view.spec, seq, first, total, skip)

    def since(self, db: Transaction, view: ViewRow, commit: int) -> list[bytes]:
        """All blobs of changes after a commit, oldest first."""
        rows = db.all(f"select data from {CHANGES} where view = ? and seq > ? order by seq, first", view.id, commit)
        return [bytes(data) for (data,) in rows]

    def counts(self, db: Transaction, flow: str, after: int) -> dict[str, int]:
        """How many rows of each view of a flow changed after a commit."""
        rows = db.all(
            f"select v.name, coalesce(sum(c.changes), 0) from {VIEWS} v left join {CHANGES} c"
            f" on c.view = v.id and c.seq > ? where v.flow = ? and v.rebuild = {LIVE} group by v.name",
            *(after, flow),
        )
        return {name: int(number) for name, number in rows}
