"""Views in PostgreSQL 15 or newer: for views that other programs query, or that outgrow one machine.

Everything lies in one schema of the database. An epoch's rows come in by COPY into a temporary table and from there by
one statement per view. When the server is away, calls raise `Transient`; the next call connects again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import psycopg

from riverrun.durations import Duration
from riverrun.errors import Closed, Invalid, NewerFormat, TimedOut, Unavailable
from riverrun.views import catalogue, postgres_tables
from riverrun.views.catalogue import COUNTERS, Transaction, ViewRow
from riverrun.views.layout import Layout, quoted
from riverrun.views.postgres_errors import as_riverrun
from riverrun.views.spec import ViewSpec
from riverrun.views.sqlrebuild import SqlRebuilds

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_OLDEST = 150000
_LIMITS = {"connect_timeout": 10, "tcp_user_timeout": 30_000}  # a server that does not answer is away
_READ = "begin isolation level repeatable read read only"


class _PostgresTransaction:
    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def _execute(self, sql: str, parameters: Sequence[Any]) -> psycopg.Cursor:
        cursor = self.connection.cursor(binary=True)
        # Without parameters nothing is a placeholder, whatever a quoted name may hold.
        return cursor.execute(sql.replace("?", "%s"), parameters) if parameters else cursor.execute(sql)

    def all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._execute(sql, parameters).fetchall()
        return rows

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._execute(sql, parameters).fetchone()
        return row

    def run(self, sql: str, *parameters: Any) -> None:
        self._execute(sql, parameters)


class PostgresStore(SqlRebuilds):
    """A view store in a PostgreSQL database.

    `url` is a libpq connection string; `schema` holds everything of the store. `reader` is a role that `query` runs as,
    for those who may see the views but nothing else. Changes are kept for `changes_kept` and for a view's `history`.
    """

    def __init__(
        self, url: str, *, schema: str = "riverrun", reader: str | None = None, changes_kept: Duration = "1 hour"
    ) -> None:
        super().__init__(changes_kept)
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
            " set_config('client_min_messages', 'warning', false)",
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
    def _writing(self, flow: str) -> Iterator[Transaction]:
        with self._lock, self._errors():
            self._check_open()
            self._writer = self._begun(self._writer, "begin")
            try:
                session = _PostgresTransaction(self._writer)
                session.all("select pg_advisory_xact_lock(hashtextextended(?, 0))", f"{self._schema}/{flow}")
                yield session
                self._writer.execute("commit")
            except BaseException:
                _roll_back(self._writer)
                raise

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._lock:
            self._check_open()
            pooled = self._readers.pop() if self._readers else None
        with self._errors():
            reader = self._begun(pooled, _READ)
            try:
                yield _PostgresTransaction(reader)
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
        self.announce()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()

    def declare(self, spec: ViewSpec) -> None:
        postgres_tables.check_names(spec)
        super().declare(spec)

    def _create(self, db: Transaction, view: ViewRow) -> None:
        postgres_tables.check_names(view.spec)
        for statement in postgres_tables.create(view, Layout.of(view.spec)):
            db.run(statement)

    def _drop(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop table {postgres_tables.table(view)}")
        db.run(f"drop table if exists {postgres_tables.stage(view)}")

    def _publish(self, db: Transaction, view: ViewRow) -> None:
        columns = postgres_tables.shown(view, Layout.of(view.spec))
        name, source = quoted(view.spec.name), postgres_tables.table(view)
        db.run("savepoint publish")
        try:
            db.run(f"create or replace view {name} as select {columns} from {source}")
        except psycopg.errors.InvalidTableDefinition:  # other columns than before
            db.run("rollback to savepoint publish")
            db.run(f"drop view {name}")
            db.run(f"create view {name} as select {columns} from {source}")
        db.run("release savepoint publish")

    def _unpublish(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop view {quoted(view.spec.name)}")

    def _note_nulls(self, db: Transaction, view: ViewRow, layout: Layout, rows: pl.DataFrame) -> None:
        """Nothing: keys may hold nulls."""

    def _stage(self, db: Transaction, view: ViewRow, layout: Layout, rows: pl.DataFrame) -> None:
        db.run(postgres_tables.create_stage(view, layout))
        db.run(f"truncate {postgres_tables.stage(view)}")
        columns = ", ".join(rows.columns)
        connection = cast(_PostgresTransaction, db).connection
        with connection.cursor().copy(
            f"copy {postgres_tables.stage(view)} ({columns}) from stdin (format csv)"
        ) as copy:
            copy.write(postgres_tables.csv(layout, rows))

    def _delete(self, db: Transaction, view: ViewRow, layout: Layout, keys: pl.DataFrame) -> None:
        self._stage(db, view, layout, keys)
        for condition in postgres_tables.same_key(layout, keys):
            db.run(
                f"delete from {postgres_tables.table(view)} t using {postgres_tables.stage(view)} s where {condition}"
            )

    def _find(self, db: Transaction, view: ViewRow, layout: Layout, keys: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        found: list[tuple[Any, ...]] = []
        if db.one(f"select 1 from {postgres_tables.table(view)} limit 1"):
            self._stage(db, view, layout, keys)
            for condition in postgres_tables.same_key(layout, keys):
                found += db.all(
                    f"select {postgres_tables.kept_columns(layout, 't.{}')}"
                    f" from {postgres_tables.table(view)} t join {postgres_tables.stage(view)} s on {condition}"
                )
        rows = pl.from_arrow(_fetched(layout, found))
        assert isinstance(rows, pl.DataFrame)
        return rows

    def _upsert(self, db: Transaction, view: ViewRow, layout: Layout, rows: pl.DataFrame) -> None:
        self._stage(db, view, layout, rows.select(layout.columns))
        db.run(postgres_tables.merge(view, layout))

    def _get(self, db: Transaction, view: ViewRow, layout: Layout, key: Sequence[Any]) -> pa.Table:
        condition, parameters = postgres_tables.one_key(layout, key)
        columns = postgres_tables.kept_columns(layout)
        return _fetched(
            layout, db.all(f"select {columns} from {postgres_tables.table(view)} where {condition}", *parameters)
        )

    def _listed(self, layout: Layout) -> str:
        return postgres_tables.kept_columns(layout, "t.{}")

    def _fetched(self, view: ViewRow, layout: Layout, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        return _fetched(layout, rows)

    def _equal(self, view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
        return postgres_tables.compared(layout, column)

    def _ordered(self, view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
        return postgres_tables.compared(layout, column)

    def _scan(self, db: Transaction, view: ViewRow, layout: Layout, where: str | None, limit: int | None) -> pa.Table:
        # Beside the columns people name in the condition, the stored ones, under names people cannot have.
        own = '"riverrun:{}"'
        stored = ", ".join(f"{name} as {own.format(name)}" for name in layout.columns)
        source = f"(select {stored}, {postgres_tables.shown(view, layout)} from {postgres_tables.table(view)}) as rows"
        condition = "" if where is None else f" where ({where}\n)"
        # With the table before it: alone, the name would mean what is selected, where decimals are text.
        order = ", ".join(self._key_order(view, layout, f"rows.{own}"))
        cursor = cast(_PostgresTransaction, db).connection.cursor(binary=True)
        try:
            cursor.execute(
                f"select {postgres_tables.kept_columns(layout, own)} from {source}{condition}"
                f" order by {order}{'' if limit is None else f' limit {int(limit)}'}"
            )
        except (psycopg.ProgrammingError, psycopg.DataError) as error:
            raise _refused(view, where, error) from None
        return _fetched(layout, cursor.fetchall())

    def _matching(self, view: ViewRow, layout: Layout, rows: pl.DataFrame, where: str) -> list[int]:
        source, values = postgres_tables.given(view, layout, rows)
        condition = where.replace("%", "%%")
        asked = f'select "riverrun:n" from ({source}) as rows where ({condition}\n) order by 1'
        with self._reading() as db:
            try:
                found = cast(_PostgresTransaction, db).connection.execute(asked, values)
            except (psycopg.ProgrammingError, psycopg.DataError) as error:
                raise _refused(view, where, error) from None
            return [number - 1 for (number,) in found]

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), timeout: float | None = None
    ) -> list[dict[str, Any]]:
        with self._reading() as db:
            connection = cast(_PostgresTransaction, db).connection
            limit = 0 if timeout is None else max(1, round(timeout * 1000))
            connection.execute("select set_config('statement_timeout', %s, true)", (str(limit),))
            if self._reader_role is not None:
                connection.execute(f"set local role {quoted(self._reader_role)}")
            try:
                # A cursor can only be declared for one query; nothing else gets past the server's parser.
                connection.execute(f"declare asked no scroll cursor for {sql}", parameters or None, prepare=True)
                found = connection.execute("fetch all from asked")
                names = [column.name for column in found.description or ()]
                return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            except psycopg.errors.QueryCanceled:
                raise TimedOut(f"the query took longer than {timeout} s and was stopped") from None
            except (
                psycopg.ProgrammingError,
                psycopg.DataError,
                psycopg.NotSupportedError,
                psycopg.InternalError,
            ) as error:
                raise Invalid(f"sql: {str(error).splitlines()[0]}") from None


def _fetched(layout: Layout, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return layout.table([list(map(itemgetter(i), rows)) for i in range(len(layout.columns))])


def _refused(view: ViewRow, where: str | None, error: psycopg.Error) -> Invalid:
    said, hint = str(error).splitlines()[0], f"Columns are {', '.join(view.spec.visible)}"
    return Invalid(f"where={where!r} of view {view.spec.name!r}: {said}", hint=hint)


def _roll_back(connection: psycopg.Connection) -> None:
    if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return
    try:
        connection.execute("rollback")
    except psycopg.Error:
        connection.close()


def _without_secrets(url: str) -> str:
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise Invalid("not a PostgreSQL connection string", hint="Write postgresql://user@host/database") from None
    return f"{known.get('host', 'localhost')}/{known.get('dbname', known.get('user', ''))}"
