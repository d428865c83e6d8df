"""The coordination database: which topics there are, who consumes what, how far each group has come.

SQLite in the river's directory. Every change is one immediate transaction, so processes never see half of one.
Leases are measured on the machine's monotonic clock, which all its processes share and nobody can set.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from riverrun import durable
from riverrun.errors import Busy, Closed, Corrupt, DiskFull, NewerFormat, RiverrunError, Unavailable, from_system
from riverrun.log.wake import Bell

_VERSION = 1
_PATIENCE = 10  # seconds
_RESTORE = "It holds the offsets of all consumer groups; restore it from a copy"
_TABLES = """
create table topics (name text primary key) without rowid;
create table groups (
    name text primary key, generation integer not null
) without rowid;
create table members (
    grp text not null, member text not null, process text not null, expires integer not null, joined integer not null,
    topics text not null, primary key (grp, member)
) without rowid;
create table owners (
    grp text not null, topic text not null, partition integer not null,
    owner text, target text, epoch integer not null, primary key (grp, topic, partition)
) without rowid;
create table starts (
    grp text not null, topic text not null, partition integer not null, offset integer not null,
    primary key (grp, topic, partition)
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
    attempt integer not null, worker text, process text, expires integer not null, dead integer, reason text,
    primary key (grp, topic, partition, offset)
) without rowid;
create index messages_due on messages (grp, topic, expires) where dead is null;
create index messages_dead on messages (grp, topic, dead) where dead is not null;
create table dead_letters (
    grp text not null, topic text not null, next integer not null, primary key (grp, topic)
) without rowid;
"""


class Dependent(Protocol):
    """Something that must let go of the database before it is closed."""

    def leave(self) -> None: ...


class Connection:
    """A connection that closes itself when its thread ends."""

    def __init__(self, path: str) -> None:
        self.pid = os.getpid()
        # Used by one thread at a time, but closed by whichever closes the river.
        self.db = sqlite3.connect(
            path, isolation_level=None, timeout=_PATIENCE, cached_statements=256, check_same_thread=False
        )
        self.db.execute("pragma synchronous = normal")

    def close(self) -> None:
        if self.pid == os.getpid():
            self.db.close()
        else:
            _inherited.append(self.db)  # SQLite forbids to use, and even to close, a connection of the parent

    def __del__(self) -> None:
        if hasattr(self, "db"):
            self.close()


_inherited: list[sqlite3.Connection] = []


class Coordination:
    """One database; a connection for every thread that uses it, and new ones after a fork."""

    def __init__(self, path: str, create: bool = False) -> None:
        self.path = path
        self.dependents: weakref.WeakSet[Dependent] = weakref.WeakSet()
        self._closed = False
        self._local = threading.local()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._memory: Connection | None = None
        self._in_memory = path == ":memory:"
        self._memory_lock = threading.RLock()
        self._bells: weakref.WeakSet[Bell] = weakref.WeakSet()
        if not self._in_memory and not create:
            if not os.path.exists(path):
                raise Corrupt(f"{path} is missing", hint=_RESTORE)
            if not os.path.getsize(path):
                raise Corrupt(f"{path} is empty", hint=_RESTORE)
        self._prepare()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: all of it or nothing, one at a time."""
        with self._connection() as db, self._explained():
            db.execute("begin immediate")
            try:
                yield db
                db.execute("commit")
            except BaseException:
                if db.in_transaction:
                    db.execute("rollback")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For a single query."""
        with self._connection() as db, self._explained():
            yield db

    def close(self) -> None:
        """Let members and workers leave their groups, then close every connection. A second close does nothing."""
        if not self._closed:
            for dependent in list(self.dependents):
                dependent.leave()
            self._closed = True
            for connection in list(self._connections):
                connection.close()

    def attach(self, bell: Bell) -> None:
        """Let the bell ring whenever the members of a group or their partitions change."""
        if self._in_memory:
            self._bells.add(bell)
        else:
            bell.watch(f"{self.path}-wake")

    def ring(self) -> None:
        """Make everybody look at their group again."""
        if self._in_memory:
            for bell in list(self._bells):
                bell.ring()
        else:
            fd = self._wake_file()
            os.pwrite(fd, b"\0", 0)
            os.close(fd)

    def _wake_file(self) -> int:
        return durable.open_file(f"{self.path}-wake", os.O_WRONLY | os.O_CREAT)

    @staticmethod
    def now() -> int:
        """Microseconds on the machine's monotonic clock."""
        return time.monotonic_ns() // 1000

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._closed:
            raise Closed(f"{self.path} is closed")
        if self._in_memory:
            with self._memory_lock:
                if self._memory is None:
                    self._memory = self._connect()
                yield self._memory.db
            return
        local = self._local
        if not hasattr(local, "connection") or local.connection.pid != os.getpid():
            local.connection = self._connect()
        yield local.connection.db

    def _connect(self) -> Connection:
        with self._explained():
            connection = Connection(self.path)
        self._connections.add(connection)
        return connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from error

    def _prepare(self) -> None:
        with self.reading() as db:
            (version,) = db.execute("pragma user_version").fetchone()
            if version == 0 and not self._in_memory:
                durable.make_private(self.path)  # and with it the files that SQLite puts beside it
                _use_wal(db)
        if version > _VERSION:
            raise NewerFormat(f"{self.path} was written by a newer Riverrun", hint="Upgrade Riverrun")
        if version == 0:
            with self.transaction() as db:
                if db.execute("pragma user_version").fetchone()[0] == 0:
                    for statement in filter(str.strip, _TABLES.split(";")):
                        db.execute(statement)
                    db.execute(f"pragma user_version = {_VERSION}")
        if not self._in_memory:
            os.close(self._wake_file())

    def _explain(self, error: sqlite3.Error) -> RiverrunError:
        text = str(error)
        if "locked" in text or "busy" in text:
            return Busy(f"{self.path} is in use by another process for over {_PATIENCE} s", hint="Is one stopped?")
        if "full" in text:
            return DiskFull(f"{self.path}: no room ({text})", hint="Free some space and try again")
        if "malformed" in text or "not a database" in text:
            return Corrupt(f"{self.path} is damaged ({text})", hint="Restore it from a copy")
        short = durable.out_of_descriptors()
        if short is not None:
            return from_system(short, f"{self.path} cannot be opened")
        return Unavailable(f"{self.path} cannot be used ({text})")


def _use_wal(db: sqlite3.Connection) -> None:
    """Several processes may make the same river; SQLite does not wait for a lock when it changes the journal mode."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            db.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.005)
