"""Who works off a queue: a row for each worker, from its first look for a message until it is closed.

Most workers have no message most of the time, so that the messages alone do not tell. The table is made when the first
worker is heard: rivers from before have none.
"""

from __future__ import annotations

from sqlite3 import Connection

from riverrun.log import process
from riverrun.log.coordination import Coordination

_TABLE = """create table if not exists queue_workers (
    grp text not null, topic text not null, worker text not null, process text not null, heard integer not null,
    primary key (grp, topic, worker)
) without rowid"""
EVERY = 5_000_000  # microseconds between two words of a worker
_FORGOTTEN = 3_600_000_000  # after which its row is deleted, too
_SILENT = 20_000_000  # after which one that cannot be seen from here, as in another container, counts as gone


class QueueWorkers:
    """The workers of one group and topic, as they tell."""

    def __init__(self, coordination: Coordination, group: str, topic: str) -> None:
        self._coordination = coordination
        self._place = (group, topic)
        self._heard: dict[str, int] = {}

    def hear(self, worker: str) -> None:
        """A worker of this process is there; written down now and then."""
        now = self._coordination.now()
        first = worker not in self._heard
        if not first and now < self._heard[worker] + EVERY:
            return
        with self._coordination.transaction() as db:
            db.execute(_TABLE)
            if first:
                _forget_dead(db, now)
            db.execute(
                "insert or replace into queue_workers values (?, ?, ?, ?, ?)",
                (*self._place, worker, process.identity(), now),
            )
        self._heard[worker] = now

    def leave(self, worker: str) -> None:
        """It is closed."""
        if self._heard.pop(worker, None) is not None:
            with self._coordination.transaction() as db:
                if _has_table(db):  # a copy from before may have been put back
                    where = "where grp = ? and topic = ? and worker = ?"
                    db.execute(f"delete from queue_workers {where}", (*self._place, worker))


def live_workers(db: Connection, group: str, now: int) -> list[tuple[str, str]]:
    """Process and topic of each worker of a group that is there."""
    if not _has_table(db):
        return []
    found = db.execute("select process, topic, heard from queue_workers where grp = ? order by worker", (group,))
    return [(name, topic) for name, topic, heard in found.fetchall() if _is_there(name, now - heard)]


def forget_workers(db: Connection, group: str) -> None:
    """Of a group that is dropped."""
    if _has_table(db):
        db.execute("delete from queue_workers where grp = ?", (group,))


def _is_there(name: str, silent: int) -> bool:
    return not process.is_gone(name) and (process.is_near(name) or silent < _SILENT)


def _forget_dead(db: Connection, now: int) -> None:
    """Of whatever group: one that nobody works off any more has nobody else who does."""
    rows = db.execute("select grp, topic, worker, process, heard from queue_workers").fetchall()
    gone = [
        (group, topic, worker)
        for group, topic, worker, name, heard in rows
        if process.is_gone(name) or (not process.is_near(name) and now - heard > _FORGOTTEN)
    ]
    db.executemany("delete from queue_workers where grp = ? and topic = ? and worker = ?", gone)


def _has_table(db: Connection) -> bool:
    return db.execute("select 1 from sqlite_master where name = 'queue_workers'").fetchone() is not None
