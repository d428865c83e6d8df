"""PostgreSQL 15 or newer as the database of a view store: for views that other programs query, or that outgrow one machine.

Everything lies in one schema of the database. When the server is away, calls raise `Transient`; the next call connects again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from riverrun.errors import Closed, DiskFull, Invalid, NewerFormat, RiverrunError, TimedOut, Transient, Unavailable
from riverrun.views.sql import catalogue
from riverrun.views.sql.catalogue import COUNTERS
from riverrun.views.sql.conditions import quoted
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.postgres_tables import PostgresTables, PostgresTransaction

_OLDEST = 150000
_LIMITS = {"connect_timeout": 10, "tcp_user_timeout": 30_000}  # a server that does not answer is away
_READ = "begin isolation level repeatable read read only"
_FULL = "53100"
_CANCELED = "57014"
_MAY_PASS = ("08", "40", "53", "55P03", "57P", "58")  # connection, conflict, resources, lock, shutdown, system
_REFUSED = ("28", "42501", "3D")  # password, privilege, no such database


class PostgresDatabase:
    """A schema of a PostgreSQL database.

    `url` is a libpq connection string. `reader` is a role that `query` runs as, for those who may see the views but nothing
    else.
    """

    def __init__(self, url: str, *, schema: str = "riverrun", reader: str | None = None) -> None:
        self.tables = PostgresTables()
        self._url = url
        self._schema = schema
        self._reader_role = reader
        self._lock = threading.RLock()
        self._writer: psycopg.Connection | None = None
        self._readers: list[psycopg.Connection] = []
        self._closed = False
        self.where = _without_secrets(url)
        self._limits = {name: value for name, value in _LIMITS.items() if name not in url}
        with self._errors():
            self._set_up()

    def _set_up(self) -> None:
        with psycopg.connect(self._url, autocommit=True, **self._limits) as connection, connection.transaction():
            if connection.info.server_version < _OLDEST:
                raise Unavailable(f"the view store {self.where} needs PostgreSQL 15 or newer")
            connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._schema,))
            there = connection.execute("select 1 from pg_namespace where nspname = %s", (self._schema,)).fetchone()
            if not there:
                connection.execute(f"create schema {quoted(self._schema)}")
            connection.execute("select set_config('search_path', %s, true)", (quoted(self._schema),))
            if not connection.execute("select to_regclass(%s)", (COUNTERS,)).fetchone()[0]:
                for statement in catalogue.tables("bytea"):
                    connection.execute(statement)
            row = connection.execute(f"select value from {COUNTERS} where name = 'format'").fetchone()
            if row is None or row[0] > catalogue.FORMAT:
                raise NewerFormat(
                    f"the view store {self.where} has format {row and row[0]}, this Riverrun knows {catalogue.FORMAT}",
                    hint="Update Riverrun",
                )

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self._url, autocommit=True, **self._limits)
        connection.execute(
            "select set_config('search_path', %s, false), set_config('timezone', 'UTC', false),"
            " set_config('client_min_messages', 'warning', false), set_config('jit', 'off', false)",
            (quoted(self._schema),),
        )
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise as_riverrun(error, self.where) from error

    @contextmanager
    def writing(self, flow: str) -> Iterator[Transaction]:
        with self._lock, self._errors():
            self._check_open()
            self._writer = self._begun(self._writer, "begin")
            try:
                transaction = PostgresTransaction(self._writer)
                transaction.all("select pg_advisory_xact_lock(hashtextextended(?, 0))", f"{self._schema}/{flow}")
                yield transaction
                self._writer.execute("commit")
            except BaseException:
                _roll_back(self._writer)
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._lock:
            self._check_open()
            pooled = self._readers.pop() if self._readers else None
        with self._errors():
            reader = self._begun(pooled, _READ)
            try:
                yield PostgresTransaction(reader)
            finally:
                _roll_back(reader)
                with self._lock:
                    if not reader.closed:
                        self._readers.append(reader)
                    if self._closed:
                        self._close_readers()

    def _begun(self, connection: psycopg.Connection | None, begin: str) -> psycopg.Connection:
        """The connection in a transaction, or a new one when the server has been away since."""
        if connection is not None and not connection.closed:
            try:
                connection.execute(begin)
                return connection
            except psycopg.OperationalError:
                connection.close()
        connection = self._connect()
        connection.execute(begin)
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the view store {self.where} is closed")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._close_readers()
            if self._writer is not None:
                self._writer.close()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None
    ) -> list[dict[str, Any]]:
        with self.reading() as db:
            assert isinstance(db, PostgresTransaction)
            connection = db.connection
            limit = 0 if timeout is None else max(1, round(timeout * 1000))
            connection.execute("select set_config('statement_timeout', %s, true)", (str(limit),))
            if self._reader_role is not None:
                connection.execute(f"set local role {quoted(self._reader_role)}")
            try:
                # A cursor can only be declared for one query; nothing else gets past the server's parser.
                connection.execute(f"declare asked no scroll cursor for {sql}", parameters or None, prepare=True)
                answer = connection.execute("fetch all from asked")
                names = [column.name for column in answer.description or ()]
                return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
            except psycopg.errors.QueryCanceled:
                raise TimedOut(f"the query took longer than {timeout} s and was stopped") from None
            except (
                psycopg.ProgrammingError,
                psycopg.DataError,
                psycopg.NotSupportedError,
                psycopg.InternalError,
            ) as error:
                raise Invalid(f"sql: {str(error).splitlines()[0]}") from None


def _roll_back(connection: psycopg.Connection) -> None:
    if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return
    try:
        connection.execute("rollback")
    except psycopg.Error:
        connection.close()


def _without_secrets(url: str) -> str:
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise Invalid("not a PostgreSQL connection string", hint="Write postgresql://user@host/database") from None
    return f"{parts.get('host', 'localhost')}/{parts.get('dbname', parts.get('user', ''))}"


def as_riverrun(error: psycopg.Error, where: str) -> RiverrunError:
    """What happened at the store `where`, in the family of errors people know. What the server says is kept; addresses and
    passwords are not in it."""
    state = error.sqlstate or ""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state == _FULL:
        return DiskFull(f"no room in the view store {where}: {said}", hint="Make room; the epoch is committed then")
    if state == _CANCELED:
        return TimedOut(f"the view store {where} stopped a query: {said}")
    if state.startswith(_REFUSED):
        return Unavailable(f"the view store {where} cannot be used: {said}", hint="Check user, password and rights")
    if state.startswith(_MAY_PASS) or (
        not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return Transient(
            f"the view store {where} is away: {said}",
            hint="Is it up, and is RIVERRUN_VIEWS its address? Runs wait for it",
        )
    return Invalid(f"the view store {where}: {said}")
