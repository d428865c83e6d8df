"""Connections to a SQLite file, and its errors as ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote as percent

from riverrun.errors import Busy, DiskFull, Invalid, NotFound, RiverrunError, Transient, Unavailable

PREFIX = "sqlite:"
_PATIENCE = 5.0  # seconds that another writer is waited for
_HURRY = 0.1


def path_of(address: str) -> str:
    """The file of an address, as an absolute path."""
    path = address.removeprefix(PREFIX)
    if not path or path == ":memory:":
        raise Invalid("an address of SQLite names a file", hint="Write sqlite:shop.db")
    return os.path.abspath(os.path.expanduser(path))


def connect(path: str) -> sqlite3.Connection:
    """A connection that reads and writes. The file must be there: an empty one is never made."""
    if not os.path.isfile(path):
        raise NotFound(f"there is no file {path}", hint="Write the path of the database: sqlite:PATH")
    with explaining(f"{path} cannot be opened"):
        db = sqlite3.connect(
            f"file:{percent(path)}?mode=rw",
            uri=True,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        db.execute("select count(*) from sqlite_master").fetchone()
    return db


@contextmanager
def explaining(what: str) -> Iterator[None]:
    """What SQLite refuses inside, as an error of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, what) from error


def explained(error: sqlite3.Error, what: str) -> RiverrunError:
    """An error of SQLite. A file that others hold, or a full disk, may pass."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    line = str(error).strip()
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"{what} ({line})", hint="Another program holds it for long: end its transaction")
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"{what} ({line})")
    if code in (sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_IOERR):
        return Transient(f"{what} ({line})")
    if code == sqlite3.SQLITE_READONLY:
        return Unavailable(
            f"{what} ({line})", hint="A capture writes triggers and a table into it: let it write file and directory"
        )
    if code == sqlite3.SQLITE_NOTADB:
        return Invalid(f"{what} ({line})", hint="Write the path of a SQLite database: sqlite:PATH")
    return Unavailable(f"{what} ({line})")


@contextmanager
def writing(db: sqlite3.Connection, what: str) -> Iterator[None]:
    """A transaction that writes: whole or not at all."""
    with explaining(what):
        db.execute("begin immediate")
        try:
            yield
            db.commit()
        except BaseException:
            db.rollback()
            raise


@contextmanager
def reading(db: sqlite3.Connection, what: str) -> Iterator[None]:
    """One view of the database."""
    with explaining(what):
        db.execute("begin")
        try:
            yield
        finally:
            db.rollback()


@contextmanager
def hurrying(db: sqlite3.Connection) -> Iterator[None]:
    """Nobody is waited for inside: what is not done now is done later."""
    db.execute(f"pragma busy_timeout = {int(_HURRY * 1000)}")
    try:
        yield
    finally:
        db.execute(f"pragma busy_timeout = {int(_PATIENCE * 1000)}")


def quote(name: str) -> str:
    """An identifier as SQL reads it."""
    return '"' + name.replace('"', '""') + '"'
