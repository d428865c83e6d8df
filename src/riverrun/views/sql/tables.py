"""Tables of views' rows: what differs from database to database is abstract, how they are read is the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from riverrun.errors import Invalid
from riverrun.views.layout import Layout
from riverrun.views.selection import COMPARISONS, Condition, Selection, comparable, value_of
from riverrun.views.sql.catalogue import ViewRow
from riverrun.views.sql.database import Transaction

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_FIRST_ROWS = 8  # of a page that is limited in bytes; then there are four times as many, while they are small
_DIRECTIONS = (" asc nulls first", " desc nulls last")
_OWN = '"riverrun:{}"'  # how kept columns are called beside those that people name: no column may be called so


def table_of(view: ViewRow) -> str:
    """The table of a view's rows."""
    return f'"riverrun:rows:{view.rows}"'


def _index_of(view: ViewRow, number: int) -> str:
    return f'"riverrun:index:{view.rows}:{number}"'


class ViewTables(ABC):
    """One table for the rows of each view, or of one that is being built again. Everything is done in the transaction
    that is given.

    In the SQL here a table of rows is called `t`, and `written` makes the name that a column has in the query.
    `name_quotes` has the characters that begin a quoted name.
    """

    name_quotes: str

    @abstractmethod
    def create(self, db: Transaction, view: ViewRow) -> None:
        """Create the table and its indexes; `Invalid` for names that the database cannot hold."""

    @abstractmethod
    def drop(self, db: Transaction, view: ViewRow) -> None:
        """Drop the table."""

    @abstractmethod
    def publish(self, db: Transaction, view: ViewRow) -> None:
        """Let SQL see the rows under the view's own name and column names, instead of what it saw there."""

    @abstractmethod
    def unpublish(self, db: Transaction, view: ViewRow) -> None:
        """The way back from `publish`."""

    @abstractmethod
    def write(self, db: Transaction, view: ViewRow, changes: pl.DataFrame) -> None:
        """Write changes in the kept layout; no two rows of DELETE, INSERT and NEW have the same key. Those of OLD are for
        the log only."""

    @abstractmethod
    def find(self, db: Transaction, view: ViewRow, keys: pl.DataFrame) -> pl.DataFrame:
        """The kept rows that have one of these keys; in a transaction for writing."""

    @abstractmethod
    def matching(self, db: Transaction, view: ViewRow, rows: pl.DataFrame, where: str) -> list[int]:
        """The numbers of those kept rows for which a checked condition holds, in order; the rows are in no table."""

    @abstractmethod
    def kept(self, layout: Layout, written: str) -> str:
        """SQL for all columns as they are kept."""

    @abstractmethod
    def shown(self, view: ViewRow) -> str:
        """SQL for the columns as people see them, without the hidden ones."""

    @abstractmethod
    def fetched(self, view: ViewRow, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Kept rows from what a query for `kept` columns gave."""

    @abstractmethod
    def sides(self, view: ViewRow, column: int, *, ordered: bool) -> tuple[str, str]:
        """SQL for a column of `t` and for a value, written `?`, to be compared: for being equal, or for what comes first.
        The column is null where the row has no value."""

    @abstractmethod
    def has_key(self, view: ViewRow, key: Sequence[Any]) -> tuple[str, list[Any]]:
        """The condition that a row of `t` has a key, given as kept values, and its parameters."""

    @abstractmethod
    def refusal(self, error: Exception) -> str | None:
        """What the database has against a condition that a caller wrote; None for any other error."""

    def index(self, db: Transaction, view: ViewRow) -> None:
        """Create the indexes that the view declares."""
        columns = dict(zip(view.spec.names, view.layout.columns, strict=False))
        for number, names in enumerate(view.spec.indexes):
            over = ", ".join(columns[name] for name in names)
            db.run(f"create index {_index_of(view, number)} on {table_of(view)} ({over})")

    def unindex(self, db: Transaction, view: ViewRow) -> None:
        """The way back from `index`."""
        for number in range(len(view.spec.indexes)):
            db.run(f"drop index {_index_of(view, number)}")

    def key_order(self, view: ViewRow, written: str) -> list[str]:
        """SQL that sorts rows by key, as the types are sorted, nulls last."""
        return [written.format(name) for name in view.layout.key]

    def compared(self, view: ViewRow, where: str) -> str:
        """A checked condition as this database has to be asked for it."""
        return where

    def count(self, db: Transaction, view: ViewRow) -> int:
        """How many rows there are."""
        row = db.one(f"select count(*) from {table_of(view)}")
        return int(row[0]) if row else 0

    def get(self, db: Transaction, view: ViewRow, key: Sequence[Any]) -> pa.Table:
        """The kept row with a key, given as kept values, or none."""
        condition, parameters = self.has_key(view, key)
        columns = self.kept(view.layout, "t.{}")
        return self.fetched(view, db.all(f"select {columns} from {table_of(view)} t where {condition}", *parameters))

    def scan(self, db: Transaction, view: ViewRow, where: str | None = None, limit: int | None = None) -> pa.Table:
        """Kept rows in key order; `where` has been checked."""
        source, condition, written = f"{table_of(view)} t", "", "t.{}"
        if where is not None:
            written = f"t.{_OWN}"
            both = [*(f"{name} as {_OWN.format(name)}" for name in view.layout.columns), self.shown(view)]
            source = f"(select {', '.join(both)} from {table_of(view)}) t"
            condition = f" where ({self.compared(view, where)}\n)"
        rest = f" order by {', '.join(self.key_order(view, written))}{_page(limit)}"
        with self.asking(view, where):
            rows = db.all(f"select {self.kept(view.layout, written)} from {source}{condition}{rest}")
        return self.fetched(view, rows)

    def page(self, db: Transaction, view: ViewRow, selection: Selection, size: int) -> tuple[pa.Table, bool]:
        """The same up to about so many bytes; and whether there are more rows."""
        import pyarrow as pa

        wanted = (1 << 61) if selection.limit is None else selection.limit
        parts: list[pa.Table] = []
        rows, taken, asked = 0, 0, _FIRST_ROWS
        more = True
        while more and rows < wanted and (not parts or taken < size):
            asked = min(asked, wanted - rows)
            part = self.select(db, view, replace(selection, limit=asked + 1, offset=selection.offset + rows))
            fitting = min(asked, max(_rows_within(part, size - taken), 0 if parts else 1))
            more = part.num_rows > fitting
            parts.append(part.slice(0, fitting))
            rows += parts[-1].num_rows
            taken += parts[-1].nbytes
            if fitting < asked:
                break
            # Rows are of about one size, mostly.
            asked = max(1, min(asked * 4, int((size - taken) * rows / max(taken, 1))))
        return pa.concat_tables(parts) if parts else self.fetched(view, []), more and bool(rows)

    def select(self, db: Transaction, view: ViewRow, selection: Selection) -> pa.Table:
        """The kept rows that a selection means."""
        wheres, parameters = ["true"], []
        for one in selection.conditions:
            condition, values = self._condition(view, one)
            wheres.append(condition)
            parameters += values
        order = [
            self.sides(view, comparable(view.spec, name), ordered=True)[0] + _DIRECTIONS[falling]
            for name, falling in selection.order
        ]
        rows = db.all(
            f"select {self.kept(view.layout, 't.{}')} from {table_of(view)} t where {' and '.join(wheres)}"
            f" order by {', '.join([*order, *self.key_order(view, 't.{}')])}{_page(selection.limit, selection.offset)}",
            *parameters,
        )
        return self.fetched(view, rows)

    def _condition(self, view: ViewRow, one: Condition) -> tuple[str, list[Any]]:
        column, value = comparable(view.spec, one.column), value_of(view.spec, one)
        side, given = self.sides(view, column, ordered=one.operator not in ("eq", "ne"))
        if value is None:
            return f"{side} is {'not ' * (one.operator == 'ne')}null", []
        if one.operator == "has":
            return f"lower({side}) like lower({given}) escape '!'", [value]
        compared = f"{side} {COMPARISONS[one.operator]} {given}"
        return (f"({side} is null or {compared})" if one.operator == "ne" else compared), [value]

    @contextmanager
    def asking(self, view: ViewRow, where: str | None) -> Iterator[None]:
        """What the database has against a caller's condition is the caller's mistake."""
        try:
            yield
        except Exception as error:
            refusal = None if where is None else self.refusal(error)
            if refusal is None:
                raise
            hint = f"Columns are {', '.join(view.spec.visible)}"
            raise Invalid(f"where={where!r} of view {view.spec.name!r}: {refusal}", hint=hint) from None


def _rows_within(table: pa.Table, size: int) -> int:
    """How many of the first rows have at most so many bytes."""
    return bisect_right(range(1, table.num_rows + 1), size, key=lambda rows: int(table.slice(0, rows).nbytes))


def _page(limit: int | None, offset: int = 0) -> str:
    rows = (1 << 62) - 1 if limit is None else limit  # SQLite knows no offset without a limit
    return "" if limit is None and not offset else f" limit {int(rows)} offset {int(offset)}"
