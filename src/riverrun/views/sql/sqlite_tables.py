"""Tables of views' rows in SQLite, and how people see them in SQL.

Rows lie in key order, the order they are written in. A view whose key is one whole number has that as its rowid, which is
twice as fast to write; all others have tables without rowids. Columns have no types; `sqlite_binding` says what is in them.

Under the view's own name there is an SQL VIEW for people, where timestamps are strings ("2026-01-31 12:00:00.25", UTC: each
moment has one string, and strings have the order of time), dates are strings, and decimals are numbers (rounded to 15
digits or so; `rows`, `get` and `arrow` give the exact ones). `sqlite_values` makes what people compare them with the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from math import nan
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.views.columns import Kept
from riverrun.views.layout import DELETE, INSERT, NEW, OP, Layout
from riverrun.views.sql import catalogue, sqlite_values
from riverrun.views.sql.catalogue import LIVE, ViewRow
from riverrun.views.sql.conditions import quoted
from riverrun.views.sql.database import Transaction
from riverrun.views.sql.sqlite_binding import NAN, bound, bound_key, missing
from riverrun.views.sql.sqlite_guard import read_only
from riverrun.views.sql.tables import ViewTables, table_of

if TYPE_CHECKING:
    import polars as pl


class SqliteTables(ViewTables):
    """Tables in SQLite."""

    name_quotes = '"`['

    def create(self, db: Transaction, view: ViewRow) -> None:
        layout = view.layout
        if _has_rowid(view):
            columns = [f"{name} integer primary key" if name in layout.key else name for name in layout.columns]
            db.run(f"create table {table_of(view)} ({', '.join(columns)})")
        else:
            key = f"primary key ({', '.join(layout.key)})"
            db.run(f"create table {table_of(view)} ({', '.join(layout.columns)}, {key}) without rowid")
        self.index(db, view)

    def drop(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop table {table_of(view)}")

    def publish(self, db: Transaction, view: ViewRow) -> None:
        self.unpublish(db, view)
        db.run(f"create view {quoted(view.spec.name)} as select {self.shown(view)} from {table_of(view)}")

    def unpublish(self, db: Transaction, view: ViewRow) -> None:
        db.run(f"drop view if exists {quoted(view.spec.name)}")

    def write(self, db: Transaction, view: ViewRow, changes: pl.DataFrame) -> None:
        from riverrun.state.frames import keep, pick

        layout = view.layout
        view = self._with_nulls(db, view, changes)
        table, key = table_of(view), ", ".join(layout.key)
        operation = changes.get_column(OP).to_numpy()
        for rows, values in bound(layout, pick(keep(changes, operation == DELETE), layout.key)):
            keys = f"with keys ({key}) as (values {rows})"
            db.run(f"{keys} delete from {table} where ({key}) in (select {key} from keys)", *values)
        # Nothing but the key is unique, so to replace a row is to update it.
        there = keep(changes, (operation == INSERT) | (operation == NEW))
        for rows, values in bound(layout, pick(there, layout.columns)):
            db.run(f"replace into {table} values {rows}", *values)

    def _with_nulls(self, db: Transaction, view: ViewRow, rows: pl.DataFrame) -> ViewRow:
        """The view as it has to be for these rows: it is known which key columns hold nulls, and no rowid is null."""
        nulls = [name for name in view.layout.key if name in view.nulls or rows[name].null_count()]
        if len(nulls) == len(view.nulls):
            return view
        noted = replace(view, nulls=tuple(nulls))
        if _has_rowid(view):
            noted = replace(noted, rows=catalogue.next_id(db))
            self.create(db, noted)
            db.run(f"insert into {table_of(noted)} select * from {table_of(view)}")
            self.drop(db, view)
        catalogue.write_view(db, noted)
        if view.rebuild == LIVE:
            self.publish(db, noted)
        return noted

    def find(self, db: Transaction, view: ViewRow, keys: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        layout = view.layout
        columns = self.kept(layout, "t.{}")
        same = " and ".join(f"t.{name} = keys.{name}" for name in layout.key)
        rows: list[tuple[Any, ...]] = []
        if db.one(f"select 1 from {table_of(view)} limit 1"):
            for values, parameters in bound(layout, keys):
                # Written so that SQLite takes key by key: of `(a, b) in (values …)` it scans the table.
                rows += db.all(
                    f"with keys ({', '.join(layout.key)}) as (values {values})"
                    f" select {columns} from keys cross join {table_of(view)} t on {same}",
                    *parameters,
                )
        frame = pl.from_arrow(self.fetched(view, rows))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def matching(self, db: Transaction, view: ViewRow, rows: pl.DataFrame, where: str) -> list[int]:
        with closing(sqlite3.connect(":memory:")) as memory:
            memory.execute(f"create table t (n integer primary key, {', '.join(rows.columns)})")
            for values, parameters in bound(view.layout, rows):
                memory.execute(f"insert into t ({', '.join(rows.columns)}) values {values}", parameters)
            memory.set_authorizer(read_only)
            source = f'(select n as "riverrun:n", {self.shown(view)} from t)'
            with self.asking(view, where):
                numbers = memory.execute(
                    f'select "riverrun:n" from {source} where ({self.compared(view, where)}\n) order by 1'
                )
                return [number - 1 for (number,) in numbers]

    def kept(self, layout: Layout, written: str) -> str:
        return ", ".join(written.format(name) for name in layout.columns)

    def shown(self, view: ViewRow) -> str:
        spec, layout = view.spec, view.layout
        return ", ".join(
            # Only where there are nulls: an expression would keep conditions on the key from using it.
            f"{_shown(_nullable(view, column, column), field.type)} as {quoted(name)}"
            for name, field, column in zip(spec.names, spec.arrow, layout.columns, strict=False)
            if name not in spec.hidden
        )

    def fetched(self, view: ViewRow, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        layout = view.layout
        columns: list[list[Any]] = [list(map(itemgetter(i), rows)) for i in range(len(layout.columns))]
        for i, (name, kind) in enumerate(zip(layout.columns, layout.kinds, strict=True)):
            if name in view.nulls:
                none = missing(kind)
                columns[i] = [None if value == none else value for value in columns[i]]
            if kind is Kept.DOUBLE and NAN in columns[i]:
                columns[i] = [nan if value == NAN else value for value in columns[i]]
        return layout.table(columns)

    def sides(self, view: ViewRow, column: int, *, ordered: bool) -> tuple[str, str]:
        layout = view.layout
        side = _nullable(view, layout.columns[column], f"t.{layout.columns[column]}")
        # sqlite3 would bind a NaN as null.
        given = "ifnull(?, 'NaN')" if layout.kinds[column] is Kept.DOUBLE else "?"
        if ordered and pa.types.is_decimal(view.spec.arrow.field(column).type):
            return f"cast({side} as real)", f"cast({given} as real)"  # kept as strings, ordered as numbers
        return side, given

    def has_key(self, view: ViewRow, key: Sequence[Any]) -> tuple[str, list[Any]]:
        return " and ".join(f"t.{name} = ?" for name in view.layout.key), bound_key(view.layout, key)

    def key_order(self, view: ViewRow, written: str) -> list[str]:
        return [part for name in view.layout.key for part in _ordered(view, name, written.format(name))]

    def compared(self, view: ViewRow, where: str) -> str:
        """The condition, with the times in it as columns show them."""
        before = f"select 1 from {quoted(view.spec.name)} where "
        return sqlite_values.written(before + where, (), lambda: [view.spec])[0].removeprefix(before)

    def refusal(self, error: Exception) -> str | None:
        is_sql = isinstance(error, sqlite3.OperationalError) and code_of(error) == sqlite3.SQLITE_ERROR
        return str(error) if is_sql else None


def code_of(error: sqlite3.Error) -> int:
    """What SQLite calls an error; those of the module itself, such as a string that is not UTF-8, are the statement's."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code


def _has_rowid(view: ViewRow) -> bool:
    """Whether the key is a table's rowid. A null cannot be one: the first of them moves the rows to another table."""
    layout = view.layout
    return not view.nulls and len(layout.key) == 1 and layout.kind(layout.key[0]) is Kept.WHOLE


def _nullable(view: ViewRow, column: str, written: str) -> str:
    """A column with nulls where a key has none, if it ever had."""
    if column not in view.nulls:
        return written
    none = "''" if missing(view.layout.kind(column)) == "" else "x''"
    return f"nullif({written}, {none})"


def _ordered(view: ViewRow, column: str, written: str) -> list[str]:
    """SQL that sorts rows by a key column, nulls last. Most columns lie in that order already."""
    layout = view.layout
    number = layout.columns.index(column)
    if number < len(view.spec.arrow) and pa.types.is_decimal(view.spec.arrow.field(number).type):
        return [f"cast(nullif({written}, x'') as real) nulls last", written]
    if layout.kind(column) is Kept.BYTES and column in view.nulls:
        return [f"{written} = ''", written]  # a null among bytes is a string, which comes before them
    return [written]


def _shown(column: str, kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        micros = f"(({column} % 1000000 + 1000000) % 1000000)"
        seconds = f"datetime(({column} - {micros}) / 1000000, 'unixepoch')"
        fraction = f"rtrim('.' || printf('%06d', {micros}), '0')"
        return f"iif({column} % 1000000 = 0, {seconds}, {seconds} || {fraction})"
    if pa.types.is_date(kind):
        return f"date({column} * 86400, 'unixepoch')"
    if pa.types.is_decimal(kind):
        return f"cast({column} as real)"
    return column
