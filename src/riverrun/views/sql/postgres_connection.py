"""Connections to PostgreSQL, and what its errors mean to people."""

from __future__ import annotations

import socket

import psycopg

from riverrun.errors import Busy, DiskFull, Invalid, RiverrunError, TimedOut, Transient, Unavailable
from riverrun.views.sql.conditions import quoted

READ = "begin isolation level repeatable read read only"
_LIMITS = {"connect_timeout": 10, "tcp_user_timeout": 30_000}  # a server that does not answer is away
LOCK_WAIT = 10.0  # seconds for what others have locked
_FULL = "53100"
_CANCELED = "57014"
_LOCKED = "55P03"
_MAY_PASS = ("08", "40", "53", "57P", "58")  # connection, conflict, resources, shutdown, system
_HERE = ("", "localhost", "127.0.0.1", "::1")
_REFUSED = ("28", "42501", "3D")  # password, privilege, no such database


def connect(url: str, schema: str, wait: float = LOCK_WAIT) -> psycopg.Connection:
    """A connection that sees the tables of a schema, and times in UTC."""
    connection = open_connection(url, wait)
    connection.execute(
        "select set_config('search_path', %s, false), set_config('timezone', 'UTC', false),"
        " set_config('client_min_messages', 'warning', false), set_config('jit', 'off', false)",
        (quoted(schema),),
    )
    return connection


def open_connection(url: str, wait: float = LOCK_WAIT) -> psycopg.Connection:
    """A connection as it comes, but that waits only so many seconds for what others have locked: readers, too, would wait
    for as long as somebody changes a table."""
    limits = {name: value for name, value in _LIMITS.items() if name not in url}
    connection = psycopg.connect(url, autocommit=True, **limits)
    connection.execute("select set_config('lock_timeout', %s, false)", (f"{round(wait * 1000)}ms",))
    return connection


def place_of(url: str) -> str:
    """How errors name the database: without secrets."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise Invalid("not a PostgreSQL connection string", hint="Write postgresql://user@host/database") from None
    return f"{parts.get('host', 'localhost')}/{parts.get('dbname', parts.get('user', ''))}"


def server_of(connection: psycopg.Connection) -> str:
    """The database behind a connection, as people on any machine understand it."""
    info = connection.info
    here = f" on {socket.gethostname()}" if info.host.startswith(("/", "@")) or info.host in _HERE else ""
    return f"{info.host}:{info.port}/{info.dbname}{here}"


def as_riverrun(error: psycopg.Error, where: str) -> RiverrunError:
    """What happened at the store `where`, in the family of errors people know. What the server says is kept; addresses and
    passwords are not in it."""
    state = error.sqlstate or ""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state == _FULL:
        return DiskFull(f"no room in the view store {where}: {said}", hint="Make room; the epoch is committed then")
    if state == _LOCKED:
        return Busy(
            f"somebody else holds a lock in the view store {where}: {said}",
            hint="A run that has begun tries again; select * from pg_stat_activity where pid in (select"
            " unnest(pg_blocking_pids(pid)) from pg_stat_activity) shows who",
        )
    if state == _CANCELED:
        return TimedOut(f"the view store {where} stopped a query: {said}")
    if state.startswith(_REFUSED):
        return Unavailable(f"the view store {where} cannot be used: {said}", hint="Check user, password and rights")
    if state.startswith(_MAY_PASS) or (
        not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return Transient(
            f"the view store {where} is away: {said}",
            hint="Is it up, and is RIVERRUN_VIEWS its address? Only a run that has begun waits for it",
        )
    return Invalid(f"the view store {where}: {said}")
