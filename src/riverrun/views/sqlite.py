"""Views in one SQLite file: the store of a river on one machine.

One writer at a time, readers beside it in any thread or process (WAL). A commit is on the disk when it returns
(`synchronous=full`). Readers that wait look at one row every few milliseconds, less often the longer nothing comes.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from riverrun import durable
from riverrun.durations import Duration
from riverrun.errors import Closed, Conflict, Corrupt, Invalid, NewerFormat, RiverrunError, TimedOut, Unavailable
from riverrun.views import catalogue, sqlite_tables, sqlite_values
from riverrun.views.catalogue import Transaction, ViewRow
from riverrun.views.layout import Layout, quoted
from riverrun.views.sqlite_errors import as_riverrun
from riverrun.views.sqlrebuild import SqlRebuilds

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_APPLICATION = 0x72727677  # "rrvw": what `file` and PRAGMA application_id show
_STEPS = 10_000  # of SQLite's machine between two looks at the clock


class _SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters).fetchall()

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.connection.execute(sql, parameters).fetchone()
        return row

    def run(self, sql: str, *parameters: Any) -> None:
        self.connection.execute(sql, parameters)


class SqliteStore(SqlRebuilds):
    """A view store in a file.

    `create=False` refuses a file that is not there: the way to open a store that is known to exist.
    Changes are kept for `changes_kept` and for as long as a view's `history`. A writer waits `wait` for another one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        changes_kept: Duration = "1 hour",
        wait: float = 10.0,
    ) -> None:
        super().__init__(changes_kept)
        self.path = os.path.abspath(path)
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
    def _writing(self, flow: str) -> Iterator[Transaction]:
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
    def _reader(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._check_there()
            reader = self._readers.pop() if self._readers else None
        with self._errors():
            if reader is None:
                reader = self._connect()
                reader.execute("pragma query_only = on")
                reader.set_authorizer(_read_only)
            try:
                yield reader
            finally:
                reader.set_progress_handler(None, 0)
                _roll_back(reader)
                with self._lock:
                    self._readers.append(reader)
                    if self._closed:
                        self._close_readers()

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._reader() as reader:
            reader.execute("begin")
            yield _SqliteTransaction(reader)

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
        self.announce()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()

    def _create(self, db: Transaction, view: ViewRow) -> None:
        db.run(sqlite_tables.create(view, Layout.of(view.spec)))

    def _drop(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop table {sqlite_tables.table(view)}")

    def _publish(self, db: Transaction, view: ViewRow) -> None:
        self._unpublish(db, view)
        columns = sqlite_tables.shown(view, Layout.of(view.spec))
        db.run(f"create view {quoted(view.spec.name)} as select {columns} from {sqlite_tables.table(view)}")

    def _unpublish(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop view if exists {quoted(view.spec.name)}")

    def _delete(self, db: Transaction, view: ViewRow, layout: Layout, keys: pl.DataFrame) -> None:
        statement = f"delete from {sqlite_tables.table(view)} where {sqlite_tables.having(layout)}"
        self._writer.executemany(statement, sqlite_tables.tuples(layout, keys))

    def _find(self, db: Transaction, view: ViewRow, layout: Layout, keys: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        found: list[tuple[Any, ...]] = []
        if db.one(f"select 1 from {sqlite_tables.table(view)} limit 1"):
            statement = cache(partial(sqlite_tables.find, view, layout))
            for parameters in sqlite_tables.bound(layout, keys):
                found += db.all(statement(len(parameters) // keys.width), *parameters)
        rows = pl.from_arrow(sqlite_tables.fetched(view, layout, found))
        assert isinstance(rows, pl.DataFrame)
        return rows

    def _get(self, db: Transaction, view: ViewRow, layout: Layout, key: Sequence[Any]) -> pa.Table:
        parameters = sqlite_tables.bound_key(layout, key)
        rows = db.all(f"select * from {sqlite_tables.table(view)} where {sqlite_tables.having(layout)}", *parameters)
        return sqlite_tables.fetched(view, layout, rows)

    def _listed(self, layout: Layout) -> str:
        return ", ".join(layout.columns)

    def _fetched(self, view: ViewRow, layout: Layout, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        return sqlite_tables.fetched(view, layout, rows)

    def _equal(self, view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
        return sqlite_tables.equal(view, layout, column)

    def _ordered(self, view: ViewRow, layout: Layout, column: int) -> tuple[str, str]:
        return sqlite_tables.ordered(view, layout, column)

    def _upsert(self, db: Transaction, view: ViewRow, layout: Layout, rows: pl.DataFrame) -> None:
        width = len(layout.columns)
        statement = cache(partial(sqlite_tables.upsert, view, layout))
        for parameters in sqlite_tables.bound(layout, rows.select(layout.columns)):
            db.run(statement(len(parameters) // width), *parameters)

    def _scan(self, db: Transaction, view: ViewRow, layout: Layout, where: str | None, limit: int | None) -> pa.Table:
        order = ", ".join(self._key_order(view, layout, "{}"))
        source = sqlite_tables.table(view)
        columns = ", ".join(layout.columns)
        condition = ""
        if where is not None:
            # Beside the columns people name in the condition, the kept ones, under names people cannot have.
            kept = [f'"riverrun:{name}"' for name in layout.columns]
            pairs = ", ".join(f"{name} as {alias}" for name, alias in zip(layout.columns, kept, strict=True))
            source = f"(select {pairs}, {sqlite_tables.shown(view, layout)} from {source})"
            columns, condition = ", ".join(kept), f" where ({_compared(view, where)}\n)"
            order = ", ".join(self._key_order(view, layout, '"riverrun:{}"'))
        try:
            rows = db.all(
                f"select {columns} from {source}{condition} order by {order} limit ?", -1 if limit is None else limit
            )
        except sqlite3.OperationalError as error:
            if where is None or error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise _refused(view, where, error) from None
        return sqlite_tables.fetched(view, layout, rows)

    def _key_order(self, view: ViewRow, layout: Layout, written: str) -> list[str]:
        return [part for name in layout.key for part in sqlite_tables.sorted_by(view, layout, name, written)]

    def _matching(self, view: ViewRow, layout: Layout, rows: pl.DataFrame, where: str) -> list[int]:
        table, marks = sqlite_tables.table(view), ", ".join("?" * rows.width)
        with self._errors(), closing(sqlite3.connect(":memory:")) as memory:
            memory.execute(f"create table {table} (n integer primary key, {', '.join(rows.columns)})")
            memory.executemany(f"insert into {table} values (null, {marks})", sqlite_tables.tuples(layout, rows))
            memory.set_authorizer(_read_only)
            source = f'(select n as "riverrun:n", {sqlite_tables.shown(view, layout)} from {table})'
            try:
                found = memory.execute(
                    f'select "riverrun:n" from {source} where ({_compared(view, where)}\n) order by 1'
                )
                return [number - 1 for (number,) in found]
            except sqlite3.OperationalError as error:
                raise _refused(view, where, error) from None

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), timeout: float | None = None
    ) -> list[dict[str, Any]]:
        with self._reader() as reader:
            deadline = None if timeout is None else time.monotonic() + timeout
            if deadline is not None:
                reader.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            try:
                query, values = sqlite_values.written(sql, parameters, self.views)
                found = reader.execute(query, values)
                if found.description is None:
                    raise Invalid("sql: not a query")
                names = [column[0] for column in found.description]
                rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
                return sqlite_values.with_numbers(sql, rows, self.views)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    raise TimedOut(f"the query took longer than {timeout:g} s and was stopped") from None
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                raise Invalid(
                    f"sql: {error}", hint=f"Views are {', '.join(spec.name for spec in self.views())}"
                ) from None
            except (sqlite3.ProgrammingError, OverflowError, ValueError) as error:  # the query's own: how it is called
                raise Invalid(f"sql: {error}") from None
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_AUTH:
                    raise Invalid(f"sql: only reading views is allowed ({error})") from None
                raise


def _refused(view: ViewRow, where: str, error: sqlite3.OperationalError) -> Invalid:
    hint = f"Columns are {', '.join(view.spec.visible)}"
    return Invalid(f"where={where!r} of view {view.spec.name!r}: {error}", hint=hint)


def _compared(view: ViewRow, where: str) -> str:
    """A condition, with the times in it as columns show them."""
    before = f"select 1 from {quoted(view.spec.name)} where "
    return sqlite_values.written(before + where, (), lambda: [view.spec])[0].removeprefix(before)


_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}


def _read_only(action: int, name: str | None, what: str | None, database: str | None, inner: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if what == "load_extension" else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")
