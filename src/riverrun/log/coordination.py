"""The coordination database: which topics there are, who consumes what, how far each group has come.

SQLite in the river's directory. Every change is one immediate transaction, so processes never see half of one.
Leases are measured on the machine's monotonic clock, which all its processes share and nobody can set.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from riverrun.errors import Busy, Corrupt, DiskFull, NewerFormat, RiverrunError, Unavailable
from riverrun.log.board import boot_id

_VERSION = 1
_TABLES = """
create table topics (name text primary key) without rowid;
create table groups (
    name text primary key, generation integer not null
) without rowid;
create table members (
    grp text not null, member text not null, boot text not null, seen integer not null, joined integer not null,
    topics text not null, primary key (grp, member)
) without rowid;
create table owners (
    grp text not null, topic text not null, partition integer not null,
    owner text, target text, epoch integer not null, primary key (grp, topic, partition)
) without rowid;
create table offsets (
    grp text not null, topic text not null, partition integer not null, offset integer not null,
    committed integer not null, primary key (grp, topic, partition)
) without rowid;
create table cursors (
    grp text not null, topic text not null, partition integer not null, next integer not null,
    primary key (grp, topic, partition)
) without rowid;
create table messages (
    grp text not null, topic text not null, partition integer not null, offset integer not null,
    attempt integer not null, lease text, boot text not null, expires integer not null, dead integer, reason text,
    primary key (grp, topic, partition, offset)
) without rowid;
create table dead_letters (grp text not null, topic text not null, next integer not null, primary key (grp, topic)) without rowid;
"""


class Coordination:
    """One database; a connection for every thread that uses it, and new ones after a fork."""

    def __init__(self, path: str, create: bool = False) -> None:
        self.path = path
        self.boot = f"{boot_id():x}"
        self._local = threading.local()
        self._shared = path == ":memory:"
        self._memory: sqlite3.Connection | None = None
        self._memory_lock = threading.RLock()
        if not self._shared and not create and not os.path.exists(path):
            raise Corrupt(
                f"{path} is missing", hint="It holds the offsets of all consumer groups; restore it from a copy"
            )
        self._prepare()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: all of it or nothing, one at a time."""
        with self._connection() as db:
            try:
                db.execute("begin immediate")
                yield db
                db.execute("commit")
            except BaseException as error:
                if db.in_transaction:
                    db.execute("rollback")
                if isinstance(error, sqlite3.Error):
                    raise self._explain(error) from error
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For a single query."""
        with self._connection() as db:
            try:
                yield db
            except sqlite3.Error as error:
                raise self._explain(error) from error

    def close(self) -> None:
        """Close this thread's connection; the others go with their threads."""
        db = getattr(self._local, "db", None)
        if db is not None and getattr(self._local, "pid", 0) == os.getpid():
            db.close()
        self._local = threading.local()
        if self._memory is not None:
            self._memory.close()

    @staticmethod
    def now() -> int:
        """Microseconds on the machine's monotonic clock."""
        return time.monotonic_ns() // 1000

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._shared:
            with self._memory_lock:
                if self._memory is None:
                    self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                yield self._memory
            return
        local = self._local
        if getattr(local, "pid", 0) != os.getpid():
            try:
                local.db = sqlite3.connect(self.path, isolation_level=None, timeout=10, cached_statements=256)
                local.db.execute("pragma synchronous = normal")
            except sqlite3.Error as error:
                raise self._explain(error) from error
            local.pid = os.getpid()
        yield local.db

    def _prepare(self) -> None:
        with self.reading() as db:
            (version,) = db.execute("pragma user_version").fetchone()
            if version == 0 and not self._shared:
                db.execute("pragma journal_mode = wal")
        if version > _VERSION:
            raise NewerFormat(f"{self.path} was written by a newer Riverrun", hint="Upgrade Riverrun")
        if version == 0:
            with self.transaction() as db:
                if db.execute("pragma user_version").fetchone()[0] == 0:
                    for statement in filter(str.strip, _TABLES.split(";")):
                        db.execute(statement)
                    db.execute(f"pragma user_version = {_VERSION}")

    def _explain(self, error: sqlite3.Error) -> RiverrunError:
        text = str(error)
        if "locked" in text or "busy" in text:
            return Busy(f"{self.path} is in use by another process for over 10 s", hint="Try again")
        if "full" in text:
            return DiskFull(f"{self.path}: no room ({text})", hint="Free some space and try again")
        if "malformed" in text or "not a database" in text:
            return Corrupt(f"{self.path} is damaged ({text})", hint="Restore it from a copy")
        return Unavailable(f"{self.path} cannot be used ({text})")
