"""PostgreSQL 15 or newer as the database of a view store: for views that other programs query, or that outgrow one machine.

Everything lies in one schema of the database. When the server is away, calls raise `Transient`; the next call connects again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from riverrun.errors import Closed, NotFound, Transient, Unavailable
from riverrun.views.sql import catalogue
from riverrun.views.sql.catalogue import COUNTERS, LIVE, VIEWS
from riverrun.views.sql.conditions import quoted
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.postgres_connection import (
    LOCK_WAIT,
    READ,
    as_riverrun,
    connect,
    open_connection,
    place_of,
    server_of,
)
from riverrun.views.sql.postgres_login import HINT, OWNER_HINT, grant_schema, is_superuser, login_of, refuse_powers
from riverrun.views.sql.postgres_tables import PostgresTables, PostgresTransaction
from riverrun.views.sql.query_message import Question, packed
from riverrun.views.sql.query_process import MOST_BYTES, shared_processes

_OLDEST = 150000
# Writers of a flow exclude each other by a row of this table. An advisory lock would do as well, but everybody who can
# connect to the database can take one.
_LOCKS = '"riverrun:locks"'


class PostgresDatabase:
    """A schema of a PostgreSQL database.

    `url` is a libpq connection string. `read` is another one, of a login that sees the views and nothing else: `query` uses
    it. `create=False` changes nothing, and refuses a schema that is not there. What others have locked is waited for
    `wait` seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "riverrun",
        read: str | None = None,
        create: bool = True,
        wait: float = LOCK_WAIT,
    ) -> None:
        self._url = url
        self._read = read
        self._schema = schema
        self._wait = wait
        self._lock = threading.RLock()
        self._writer: psycopg.Connection | None = None
        self._readers: list[psycopg.Connection] = []
        self._closed = False
        self.where = place_of(url)
        self.tables = PostgresTables(None if read is None else login_of(read))
        with self._errors():
            self._set_up(create)

    def _set_up(self, create: bool) -> None:
        with open_connection(self._url, self._wait) as connection, connection.transaction():
            if connection.info.server_version < _OLDEST:
                raise Unavailable(f"the view store {self.where} needs PostgreSQL 15 or newer")
            connection.execute("select set_config('search_path', %s, true)", (quoted(self._schema),))
            if create and not _is_there(connection, _LOCKS):
                self._create(connection)
            elif not _is_there(connection, COUNTERS):
                raise NotFound(f"the view store {self.where} has no views yet")
            self.place = f"{server_of(connection)}, schema {self._schema}"
            row = connection.execute(f"select value from {COUNTERS} where name = 'format'").fetchone()
            catalogue.check_format(row[0] if row else 0, f"the view store {self.where}, schema {self._schema},")
            if create and self.tables.reader is not None:
                self._let_read(connection, self.tables.reader)

    def _create(self, connection: psycopg.Connection) -> None:
        connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._schema,))
        there = connection.execute("select 1 from pg_namespace where nspname = %s", (self._schema,)).fetchone()
        if not there:
            connection.execute(f"create schema {quoted(self._schema)}")
        if not _is_there(connection, COUNTERS):
            for statement in catalogue.tables("bytea"):
                connection.execute(statement)
        connection.execute(f"create table if not exists {_LOCKS} (flow text primary key)")

    def _let_read(self, connection: psycopg.Connection, login: str) -> None:
        """Views from before the login was named are granted, too."""
        grant_schema(connection, self._schema, login)
        unseen = connection.execute(
            f"select quote_ident(name) from {VIEWS} where rebuild = {LIVE}"
            " and not has_table_privilege(%s, quote_ident(name), 'select')",
            (login,),
        )
        for (name,) in unseen.fetchall():
            connection.execute(f"grant select on {name} to {quoted(login)}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise as_riverrun(error, self.where) from error

    @contextmanager
    def writing(self, flow: str, wait: float | None = None) -> Iterator[Transaction]:
        with self._lock, self._errors():
            self._check_open()
            self._writer = self._begun(self._writer, "begin")
            try:
                transaction = PostgresTransaction(self._writer)
                if wait is not None:
                    transaction.one("select set_config('lock_timeout', ?, true)", f"{round(wait * 1000)}ms")
                self._exclude_others(transaction, flow)
                yield transaction
                self._writer.execute("commit")
            except psycopg.errors.ReadOnlySqlTransaction as error:
                # A standby, since the server was replaced by another one: the next connection may find that.
                self._writer.close()
                raise Transient(
                    f"the view store {self.where} takes no changes now: {str(error).splitlines()[0]}",
                    hint="A run that has begun tries again until the server is the primary, or the address leads to it",
                ) from error
            except BaseException:
                _roll_back(self._writer)
                raise

    def _exclude_others(self, db: Transaction, flow: str) -> None:
        locked = f"select 1 from {_LOCKS} where flow = ? for update"
        if db.one(locked, flow) is None:
            db.run(f"insert into {_LOCKS} values (?) on conflict do nothing", flow)
            db.one(locked, flow)

    def has_table(self, db: Transaction, table: str) -> bool:
        found = db.one("select has_table_privilege(to_regclass(?), 'select')", table)
        return found is not None and bool(found[0])  # null where there is none

    @contextmanager
    def reading(self, timeout: float | None = None) -> Iterator[Transaction]:
        with self._lock:
            self._check_open()
            pooled = self._readers.pop() if self._readers else None
        with self._errors():
            reader = self._begun(pooled, READ)
            try:
                if timeout is not None:
                    limit = f"{max(1, round(timeout * 1000))}ms"
                    reader.execute("select set_config('statement_timeout', %s, true)", (limit,))
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
        connection = connect(self._url, self._schema, self._wait)
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
        with self._lock:
            self._check_open()
        place, guarded = (self._url, False) if self._read is None else (self._read, True)
        question = Question(place, sql, packed(parameters), timeout, MOST_BYTES, self._schema, guarded)
        return shared_processes().ask(question)

    def admit_strangers(self) -> None:
        if self._read is None:
            raise Unavailable("SQL over views in PostgreSQL needs a login that reads views and nothing else", hint=HINT)

    def concerns(self) -> list[tuple[str, str]]:
        found = []
        with self._errors(), connect(self._url, self._schema) as connection:
            if is_superuser(connection):
                found.append((f"the login of the view store {self.where} is a superuser", OWNER_HINT))
        if self._read is not None:
            with self._errors(), connect(self._read, self._schema) as connection:
                try:
                    refuse_powers(connection, self._schema)
                except Unavailable as error:
                    found.append((error.message, error.hint or ""))
        return found


def _is_there(connection: psycopg.Connection, table: str) -> bool:
    row = connection.execute("select to_regclass(%s)", (table,)).fetchone()
    return row is not None and row[0] is not None


def _roll_back(connection: psycopg.Connection) -> None:
    if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return
    try:
        connection.execute("rollback")
    except psycopg.Error:
        connection.close()
