"""Tables of views' rows in PostgreSQL.

Keys are unique with NULLS NOT DISTINCT; a key longer than about 2,700 bytes does not fit into an index and is refused. An
epoch's rows come in by COPY into a temporary table, and from there by one statement for each kind of change.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.views.columns import Kept
from riverrun.views.layout import DELETE, INSERT, NEW, OLD, OP, Layout
from riverrun.views.spec import ViewSpec
from riverrun.views.sql.catalogue import ViewRow
from riverrun.views.sql.conditions import quoted
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.postgres_types import KEPT, kept, type_name, typed, types_of, without_nul
from riverrun.views.sql.tables import ViewTables, table_of

if TYPE_CHECKING:
    import polars as pl

_LONGEST_NAME = 63
_MANY = 50_000
_ROWS_AT_ONCE = 100_000  # as CSV


class PostgresTransaction:
    """A transaction of one connection."""

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


class PostgresTables(ViewTables):
    """Tables in PostgreSQL. `reader` is a login that may read the views."""

    name_quotes = '"'

    def __init__(self, reader: str | None = None) -> None:
        self.reader = reader

    def create(self, db: Transaction, view: ViewRow) -> None:
        _check_names(view.spec)
        columns = ", ".join(f"{name} {type_name(kind)}" for name, kind in types_of(view.layout).items())
        db.run(f"create table {table_of(view)} ({columns}) with (fillfactor = 70)")  # room for updates in place
        db.run(f"create unique index on {table_of(view)} ({', '.join(view.layout.key)}) nulls not distinct")
        self.index(db, view)

    def drop(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop table {table_of(view)}")
        db.run(f"drop table if exists {_stage_of(view)}")

    def publish(self, db: Transaction, view: ViewRow) -> None:
        name, select = quoted(view.spec.name), f"select {self.shown(view)} from {table_of(view)}"
        db.run("savepoint publish")
        try:
            db.run(f"create or replace view {name} as {select}")
        except psycopg.errors.InvalidTableDefinition:  # other columns than before
            db.run("rollback to savepoint publish")
            self.unpublish(db, view)
            db.run(f"create view {name} as {select}")
        db.run("release savepoint publish")
        if self.reader is not None:
            db.run(f"grant select on {name} to {quoted(self.reader)}")

    def unpublish(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop view {quoted(view.spec.name)}")

    def write(self, db: Transaction, view: ViewRow, changes: pl.DataFrame) -> None:
        import polars as pl

        self._stage(db, view, changes.filter(pl.col(OP) != OLD))
        for same in _same_key(view.layout, changes.filter(pl.col(OP) == DELETE)):
            db.run(f"delete from {table_of(view)} t using {_stage_of(view)} s where s.op = {DELETE} and {same}")
        if _are_many(changes.filter(pl.col(OP) == NEW), view.layout.key):
            self._merge(db, view, NEW)
        else:
            self._upsert(db, view, NEW)
        self._insert(db, view, INSERT)

    def _insert(self, db: Transaction, view: ViewRow, op: int) -> None:
        """Write staged rows that are new. If one is not after all, as in a rebuild, where none is looked up, the slower way
        is taken."""
        db.run("savepoint inserting")
        try:
            db.run(f"insert into {table_of(view)} ({_names(view.layout)}) {_staged(view, op)}")
        except psycopg.errors.UniqueViolation:
            db.run("rollback to savepoint inserting")
            self._upsert(db, view, op)
        db.run("release savepoint inserting")

    def _upsert(self, db: Transaction, view: ViewRow, op: int) -> None:
        """Write staged rows one by one, each in place of one that has its key."""
        layout = view.layout
        changed = ", ".join(f"{name} = excluded.{name}" for name in _values(layout))
        db.run(
            f"insert into {table_of(view)} ({_names(layout)}) {_staged(view, op)}"
            f" on conflict ({', '.join(layout.key)}) do {f'update set {changed}' if changed else 'nothing'}"
        )

    def _merge(self, db: Transaction, view: ViewRow, op: int) -> None:
        """The same by a join, which takes half the time where a good part of the table changes."""
        layout = view.layout
        db.run(
            f"merge into {table_of(view)} t using ({_staged(view, op)}) s"
            f" on {' and '.join(f't.{name} = s.{name}' for name in layout.key)}"
            f" when matched then update set {', '.join(f'{name} = s.{name}' for name in _values(layout))}"
            f" when not matched then insert ({_names(layout)}) values ({_names(layout)})"
        )

    def _stage(self, db: Transaction, view: ViewRow, rows: pl.DataFrame) -> None:
        """Copy rows into the connection's own table, where they are alone; `OP` is there as `op`."""
        layout, stage = view.layout, _stage_of(view)
        columns = [f"{name} {KEPT[kind]}" for name, kind in zip(layout.columns, layout.kinds, strict=True)]
        db.run(f"create temporary table if not exists {stage} ({', '.join(columns)}, op int) on commit delete rows")
        db.run(f"truncate {stage}")
        assert isinstance(db, PostgresTransaction)
        names = ", ".join("op" if name == OP else name for name in rows.columns)
        with db.connection.cursor().copy(f"copy {stage} ({names}) from stdin (format csv)") as copy:
            for part in rows.iter_slices(_ROWS_AT_ONCE):
                copy.write(_csv(layout, part))

    def find(self, db: Transaction, view: ViewRow, keys: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        rows: list[tuple[Any, ...]] = []
        if db.one(f"select 1 from {table_of(view)} limit 1"):
            self._stage(db, view, keys)
            columns = self.kept(view.layout, "t.{}")
            for condition in _same_key(view.layout, keys):
                rows += db.all(f"select {columns} from {table_of(view)} t join {_stage_of(view)} s on {condition}")
        frame = pl.from_arrow(self.fetched(view, rows))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def matching(self, db: Transaction, view: ViewRow, rows: pl.DataFrame, where: str) -> list[int]:
        layout, types = view.layout, types_of(view.layout)
        arrays = ", ".join(f"%s::{KEPT[layout.kind(name)]}[]" for name in rows.columns)
        shown = (
            f"{typed(column, types[column])} as {quoted(name.replace('%', '%%'))}"
            for column, name in zip(rows.columns, view.spec.names, strict=True)
        )
        source = f"unnest({arrays}) with ordinality as given ({', '.join(rows.columns)}, n)"
        condition = where.replace("%", "%%")
        values = [[without_nul(value) for value in rows[name].to_list()] for name in rows.columns]
        assert isinstance(db, PostgresTransaction)
        with self.asking(view, where):
            numbers = db.connection.execute(
                f'select "riverrun:n" from (select n as "riverrun:n", {", ".join(shown)} from {source}) as t'
                f" where ({condition}\n) order by 1",
                values,
            )
            return [number - 1 for (number,) in numbers]

    def kept(self, layout: Layout, written: str) -> str:
        return ", ".join(kept(written.format(name), kind) for name, kind in types_of(layout).items())

    def shown(self, view: ViewRow) -> str:
        pairs = zip(view.spec.names, view.layout.columns, strict=False)
        return ", ".join(f"{column} as {quoted(name)}" for name, column in pairs if name not in view.spec.hidden)

    def fetched(self, view: ViewRow, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        return view.layout.table([list(map(itemgetter(i), rows)) for i in range(len(view.layout.columns))])

    def sides(self, view: ViewRow, column: int, *, ordered: bool) -> tuple[str, str]:
        name, kind = view.layout.columns[column], view.layout.kinds[column]
        return f"t.{name}", _given(KEPT[kind], view.spec.arrow.field(column).type)

    def has_key(self, view: ViewRow, key: Sequence[Any]) -> tuple[str, list[Any]]:
        layout, types = view.layout, types_of(view.layout)
        conditions = [
            f"t.{name} is null" if part is None else f"t.{name} = {_given(KEPT[layout.kind(name)], types[name])}"
            for name, part in zip(layout.key, key, strict=True)
        ]
        return " and ".join(conditions), [without_nul(part) for part in key if part is not None]

    def refusal(self, error: Exception) -> str | None:
        is_sql = isinstance(error, psycopg.ProgrammingError | psycopg.DataError)
        return str(error).splitlines()[0] if is_sql else None


def _stage_of(view: ViewRow) -> str:
    """The connection's own table that rows are copied into first."""
    return f'pg_temp."riverrun:stage:{view.rows}"'


def _staged(view: ViewRow, op: int) -> str:
    """The staged rows of one kind of change, as the table has them."""
    columns = (f"{typed(name, kind)} as {name}" for name, kind in types_of(view.layout).items())
    return f"select {', '.join(columns)} from {_stage_of(view)} where op = {op}"


def _names(layout: Layout) -> str:
    return ", ".join(layout.columns)


def _values(layout: Layout) -> list[str]:
    """The columns that are not in the key."""
    return [name for name in layout.columns if name not in layout.key]


def _given(kept_type: str, kind: pa.DataType) -> str:
    """A parameter, given as a kept value, as a value of a column."""
    return f"(select {typed('v', kind)} from (select ?::{kept_type} as v) as given)"


def _same_key(layout: Layout, keys: pl.DataFrame) -> list[str]:
    """Conditions under which a row `t` has the key of a staged row `s`, one for each way parts of a key are null.

    `is not distinct from` would say it in one, but cannot use an index.
    """
    types = types_of(layout)
    choices = []
    for name in layout.key:
        equal = f"t.{name} = {typed(f's.{name}', types[name])}"
        null = f"t.{name} is null and s.{name} is null"
        nulls = keys[name].null_count()
        choices.append([equal] * (nulls < keys.height) + [null] * (nulls > 0))
    return [" and ".join(chosen) for chosen in product(*choices)]


def _are_many(rows: pl.DataFrame, key: Sequence[str]) -> bool:
    """Whether it is worth while to join rows with the table; none may have a null in its key."""
    return rows.height >= _MANY and not any(rows[name].null_count() for name in key)


def _csv(layout: Layout, rows: pl.DataFrame) -> bytes:
    """Kept rows as COPY reads them: nulls are empty, everything else is in quotes."""
    import polars as pl
    from pyarrow import csv as arrow_csv

    columns = []
    for name in rows.columns:
        column = rows[name]
        if name == OP:
            pass
        elif layout.kind(name) is Kept.BYTES:
            column = "\\x" + column.bin.encode("hex")
        elif layout.kind(name) is Kept.STRING and column.str.contains("\0", literal=True).any():
            column = column.str.replace_all("\0", "\ufffd", literal=True)
        columns.append(column.alias(name))
    out = io.BytesIO()
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    arrow_csv.write_csv(pl.DataFrame(columns).to_arrow(), out, options)
    return out.getvalue()


def _check_names(spec: ViewSpec) -> None:
    for name in (spec.name, *spec.names):
        if len(name.encode()) > _LONGEST_NAME:
            raise Invalid(
                f"view {spec.name!r}: PostgreSQL cuts names after {_LONGEST_NAME} bytes, {name!r} is longer",
                hint="Choose a shorter name",
            )
