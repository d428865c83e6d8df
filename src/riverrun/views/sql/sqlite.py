"""SQLite as the database of a view store: one file, for a river on one machine.

One writer at a time, readers beside it in any thread or process (WAL). A commit is on the disk when it returns
(`synchronous=full`). Readers that wait look at one row every few milliseconds, less often the longer nothing comes.
"""

from __future__ import annotations

import errno
import os
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
    NewerFormat,
    RiverrunError,
    TimedOut,
    Transient,
    Unavailable,
)
from riverrun.views.spec import ViewSpec
from riverrun.views.sql import catalogue, sqlite_values
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.sqlite_tables import SqliteTables, code_of, read_only

_APPLICATION = 0x72727677  # "rrvw": what `file` and PRAGMA application_id show
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of these there will be some again
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
_UNUSABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}


class _SqliteTransaction:
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
        if version > catalogue.FORMAT:
            raise NewerFormat(
                f"{self.path} has format {version}, this Riverrun knows {catalogue.FORMAT}", hint="Update Riverrun"
            )
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
    def writing(self, flow: str) -> Iterator[Transaction]:
        with self._lock, self._errors():
            self._check_there()
            self._writer.execute("begin immediate")
            try:
                yield _SqliteTransaction(self._writer)
                self._writer.execute("commit")
            except BaseException:
                _roll_back(self._writer)
                raise

    @contextmanager
    def reading(self, timeout: float | None = None) -> Iterator[Transaction]:
        with self._reader() as reader:
            if timeout is not None:
                deadline = time.monotonic() + timeout
                reader.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            reader.execute("begin")
            yield _SqliteTransaction(reader)

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
        """SQLite would go on writing into a file that was removed."""
        if self._closed:
            raise Closed(f"the view store {self.path} is closed")
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != (self._file.st_dev, self._file.st_ino):
            raise Corrupt(
                f"the view store {self.path} was removed or replaced while it was open",
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
        with self._reader() as reader:
            deadline = None if timeout is None else time.monotonic() + timeout
            if deadline is not None:
                reader.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            try:
                query, values = sqlite_values.written(sql, parameters, self._views)
                answer = reader.execute(query, values)
                if answer.description is None:
                    raise Invalid("sql: not a query")
                names = [column[0] for column in answer.description]
                rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
                return sqlite_values.with_numbers(sql, rows, self._views)
            except sqlite3.OperationalError as error:
                code = code_of(error)
                if code == sqlite3.SQLITE_INTERRUPT:
                    raise TimedOut(f"the query took longer than {timeout:g} s and was stopped") from None
                if code != sqlite3.SQLITE_ERROR:
                    raise
                hint = f"Views are {', '.join(spec.name for spec in self._views())}"
                raise Invalid(f"sql: {error}", hint=hint) from None
            except (sqlite3.ProgrammingError, OverflowError, ValueError) as error:  # the query's own: how it is called
                raise Invalid(f"sql: {error}") from None
            except sqlite3.DatabaseError as error:
                if code_of(error) == sqlite3.SQLITE_AUTH:
                    raise Invalid(f"sql: only reading views is allowed ({error})") from None
                raise

    def _views(self) -> list[ViewSpec]:
        with self.reading() as db:
            return [view.spec for view in catalogue.all_views(db)]


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def as_riverrun(error: sqlite3.Error | OSError, path: str) -> RiverrunError:
    """What happened to the store at `path`, in the family of errors people know."""
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(f"no room for the view store {path}", hint="Make room; the epoch is committed then")
        return _shortage(error, path) or Unavailable(f"the view store {path} cannot be used: {error}")
    code = code_of(error)
    primary = code & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        return TimedOut(f"the view store {path} stopped a query that took too long")
    if code in _FULL:
        return DiskFull(f"no room for the view store {path} ({error})", hint="Make room; the epoch is committed then")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"another process writes to the view store {path} for too long ({error})")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(
            f"the view store {path} is damaged ({error})",
            hint="Restore the file, or remove it together with the flow's checkpoint and run the flow again",
        )
    if primary in _UNUSABLE:
        return _reason_to_wait(path) or Unavailable(f"the view store {path} cannot be used: {error}")
    return Invalid(f"the view store {path}: {error}")


def _reason_to_wait(path: str) -> Transient | None:
    """SQLite does not say why it cannot open a file; the system does."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return _shortage(error, path)
    return None


def _shortage(error: OSError, path: str) -> Transient | None:
    if error.errno not in _SHORT:
        return None
    hint = "Close some files, or raise the limit: ulimit -n" if error.errno != errno.ENOMEM else None
    return Transient(f"the view store {path} cannot be opened now ({error.strerror})", hint=hint)
