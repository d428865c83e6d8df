"""SQLite as the database of a view store: one file, for a river on one machine.

One writer at a time, readers beside it in any thread or process (WAL). A commit is on the disk when it returns
(`synchronous=full`). Readers that wait look at one row every few milliseconds, less often the longer nothing comes.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from riverrun import durable
from riverrun.errors import (
    Busy,
    Closed,
    Conflict,
    Corrupt,
    DiskFull,
    Invalid,
    RiverrunError,
    TimedOut,
    Transient,
    Unavailable,
    from_system,
)
from riverrun.views.sql import catalogue
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.query_message import Question, packed
from riverrun.views.sql.query_process import MOST_BYTES, shared_processes
from riverrun.views.sql.sqlite_guard import read_only
from riverrun.views.sql.sqlite_tables import SqliteTables, code_of

_APPLICATION = 0x72727677  # "rrvw": what `file` and PRAGMA application_id show
STEPS = 10_000  # of SQLite's machine between two looks at the clock
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
_UNUSABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}


class SqliteTransaction:
    """A transaction of one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(sql, parameters).fetchone()
        return row

    def run(self, sql: str, *parameters: Any) -> None:
        self._connection.execute(sql, parameters)


class SqliteDatabase:
    """A database in a file.

    `create=False` refuses a file that is not there: the way to open a store that is known to exist. A writer waits
    `wait` seconds for another one.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, wait: float = 10.0) -> None:
        self.path = os.path.abspath(path)
        self.tables = SqliteTables()
        self._wait = wait
        self._lock = threading.RLock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        if not create and not os.path.exists(self.path):
            raise Unavailable(f"the view store {self.path} is missing", hint="Restore the file, or rebuild the views")
        with self._errors():
            self._writer = self._connect()
            try:
                self._open()
                self._file = os.stat(self.path)
            except BaseException:
                self._writer.close()
                raise

    @property
    def place(self) -> str:
        return place_of(self.path)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=self._wait, isolation_level=None, check_same_thread=False, cached_statements=64
        )

    def _open(self) -> None:
        db = self._writer
        [(application,)] = db.execute("pragma application_id")
        [(version,)] = db.execute("pragma user_version")
        if application not in (0, _APPLICATION):
            raise Conflict(f"{self.path} is a file of another program", hint="Give the view store a file of its own")
        if application == _APPLICATION:
            catalogue.check_format(version, f"the view store {self.path}")
        if not os.path.getsize(self.path):  # made just now
            durable.make_private(self.path)  # and with it the files that SQLite puts beside it
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")
        db.execute("pragma wal_autocheckpoint = 4000")
        db.execute("pragma journal_size_limit = 67108864")
        db.execute("pragma cache_size = -65536")
        if application == _APPLICATION:
            return
        db.execute("begin immediate")
        try:
            [(application,)] = db.execute("pragma application_id")
            if application != _APPLICATION:
                if db.execute("select 1 from sqlite_master").fetchone():
                    raise Conflict(f"{self.path} is a database of another program", hint="Give the view store its own")
                for statement in catalogue.tables("blob"):
                    db.execute(statement)
                db.execute(f"pragma user_version = {catalogue.FORMAT}")
                db.execute(f"pragma application_id = {_APPLICATION}")
            db.execute("commit")
        except BaseException:
            _roll_back(db)
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except RiverrunError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise as_riverrun(error, self.path) from error

    @contextmanager
    def writing(self, flow: str, wait: float | None = None) -> Iterator[Transaction]:
        with self._lock, self._errors():
            self._check_there()
            self._begin(self._wait if wait is None else wait)
            try:
                yield SqliteTransaction(self._writer)
                self._writer.execute("commit")
            except BaseException:
                _roll_back(self._writer)
                raise

    def _begin(self, wait: float) -> None:
        self._writer.execute(f"pragma busy_timeout = {round(wait * 1000)}")
        try:
            self._writer.execute("begin immediate")
        finally:
            self._writer.execute(f"pragma busy_timeout = {round(self._wait * 1000)}")

    def has_table(self, db: Transaction, table: str) -> bool:
        return db.one("select 1 from sqlite_master where name = ?", table.strip('"')) is not None

    @contextmanager
    def reading(self, timeout: float | None = None) -> Iterator[Transaction]:
        with self._reader() as reader:
            if timeout is not None:
                deadline = time.monotonic() + timeout
                reader.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
            reader.execute("begin")
            yield SqliteTransaction(reader)

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._check_there()
            reader = self._readers.pop() if self._readers else None
        with self._errors():
            if reader is None:
                reader = self._connect()
                reader.execute("pragma query_only = on")
                reader.set_authorizer(read_only)
            try:
                yield reader
            finally:
                reader.set_progress_handler(None, 0)
                _roll_back(reader)
                with self._lock:
                    self._readers.append(reader)
                    if self._closed:
                        self._close_readers()

    def _check_there(self) -> None:
        """SQLite would go on writing into a file that was removed. One that was moved away may be put back: it is the same."""
        if self._closed:
            raise Closed(f"the view store {self.path} is closed")
        try:
            now = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise Transient(
                f"the view store {self.path} is not there",
                hint="Put the file back: runs wait for it. If it is lost, stop them, and rebuild the views",
            ) from None
        if (now.st_dev, now.st_ino) != (self._file.st_dev, self._file.st_ino):
            raise Corrupt(
                f"the view store {self.path} was replaced while it was open",
                hint="Restore the file, or rebuild the views; then start again",
            )

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._close_readers()
                self._writer.close()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None
    ) -> list[dict[str, Any]]:
        with self._lock:
            self._check_there()
        return shared_processes().ask(Question(self.path, sql, packed(parameters), timeout, MOST_BYTES))

    def admit_strangers(self) -> None:
        pass  # `query` reads views, whoever asks

    def concerns(self) -> list[tuple[str, str]]:
        return []


def place_of(path: str) -> str:
    """Where a file is, as people on any machine understand it."""
    return f"{os.path.realpath(path)} on {socket.gethostname()}"


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def as_riverrun(error: sqlite3.Error | OSError, path: str) -> RiverrunError:
    """What happened to the store at `path`, in the family of errors people know."""
    if isinstance(error, OSError):
        return from_system(error, f"the view store {path} cannot be used")
    code = code_of(error)
    if code == sqlite3.SQLITE_INTERRUPT:
        return TimedOut(f"the view store {path} stopped a query that took too long")
    primary = code & 0xFF
    if code in _FULL:
        return DiskFull(f"no room for the view store {path} ({error})", hint="Make room; the epoch is committed then")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"another process writes to the view store {path} for too long ({error})")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(
            f"the view store {path} is damaged ({error})",
            hint="Restore the file, or remove it together with the flow's checkpoint and run the flow again",
        )
    if primary == sqlite3.SQLITE_CANTOPEN and (short := durable.out_of_descriptors()) is not None:
        return from_system(short, f"the view store {path} cannot be opened")
    if primary in _UNUSABLE:
        return Unavailable(f"the view store {path} cannot be used: {error}")
    return Invalid(f"the view store {path}: {error}")
