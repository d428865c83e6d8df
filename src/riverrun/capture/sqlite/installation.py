"""What a capture has in its source: a table of changes, the triggers that fill it, and how far it was read.

Triggers of a table name its columns, so that a table with other columns gets new triggers; those and what they write have a
number, the *layout*, whose columns are written down.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from riverrun.capture.changes import UPDATE, CapturedColumn, CapturedTable, TableTrouble
from riverrun.capture.sqlite.catalog import SqliteTable
from riverrun.capture.sqlite.session import quote
from riverrun.capture.sqlite.triggers import (
    SALT_BITS,
    SourceNames,
    mark_sql,
    missing_columns,
    replaced_columns,
    row_sql,
    tables_sql,
    triggers_sql,
    values,
)

MARK = 9  # the op of a change that says only that a table looks different from here on
_TRIGGERS = "select name, tbl_name from sqlite_master where type = 'trigger' and substr(name, 1, ?) = ?"


@dataclass(frozen=True)
class ChangeLayout:
    """Which columns the values of a change are of."""

    number: int
    table: str
    columns: tuple[CapturedColumn, ...]
    key: tuple[str, ...] = ()  # as the topic names it; nothing: it was not written down

    @property
    def captured(self) -> CapturedTable:
        """The table as it was."""
        return CapturedTable((self.table,), self.columns, self.key)

    @property
    def source_key(self) -> list[str]:
        """The key as the source names it."""
        sources = {column.name: column.source for column in self.columns}
        return [sources[name] for name in self.key]


def position_of(number: int, salt: int) -> int:
    """A change's number, and a random one that it has: a number that was given twice (in a copy that was put back) shows."""
    return number << SALT_BITS | salt


def number_of(position: int) -> int:
    """
    >>> number_of(position_of(7, 12345))
    7
    """
    return position >> SALT_BITS


class Installation:
    """A capture's part of a source. Whoever calls has a transaction."""

    def __init__(self, db: sqlite3.Connection, capture: str) -> None:
        self._db = db
        self.names = SourceNames(capture)

    def identity(self) -> str | None:
        """Who this source is, as the capture has named it; None: it is not known here."""
        found = self._state()
        return None if found is None else str(found[0])

    def introduce(self) -> str:
        """Give the source a name, if it has none."""
        known = self.identity()
        if known is not None:
            return known
        name = uuid.uuid4().hex
        self._db.execute(
            f"create table {quote(self.names.state)} (identity text not null, claimed integer not null,"
            " confirmed integer not null)"
        )
        self._db.execute(f"insert into {quote(self.names.state)} values (?, 0, 0)", (name,))
        return name

    def is_claimed(self) -> bool:
        """Whether a capture reads here, or has read."""
        found = self._state()
        return found is not None and bool(found[1])

    def claim(self) -> None:
        self._db.execute(f"update {quote(self.names.state)} set claimed = 1")

    def is_there(self) -> bool:
        """Whether there is a table of changes."""
        return self._state() is not None and self._has(self.names.changes)

    def make_tables(self) -> None:
        """The tables of the capture's own, where they are not there."""
        if not self._has(self.names.changes):
            for statement in tables_sql(self.names):
                self._db.execute(statement)
        self._widen(self.names.layouts, ["key_columns"])

    def confirmed(self) -> int:
        """Up to where changes were taken away."""
        found = self._state()
        return 0 if found is None else int(found[2])

    def end(self) -> int:
        """The position of the last change there is or was."""
        last = self._db.execute(f"select n, salt from {quote(self.names.changes)} order by n desc limit 1").fetchone()
        return self.confirmed() if last is None else position_of(*last)

    def salt_of(self, number: int) -> int | None:
        """The salt of a change that is still there."""
        found = self._db.execute(f"select salt from {quote(self.names.changes)} where n = ?", (number,)).fetchone()
        return None if found is None else int(found[0])

    def remove_changes(self, position: int, limit: int) -> bool:
        """Take away changes up to a position, the first `limit` of them; whether these were all."""
        changes = quote(self.names.changes)
        first: int | None = self._db.execute(f"select min(n) from {changes}").fetchone()[0]
        if first is None or first > number_of(position):
            return True
        last = min(number_of(position), first + limit - 1)
        salt = self.salt_of(last)
        self._db.execute(f"delete from {changes} where n <= ?", (last,))
        done = last == number_of(position)
        noted = position if done or salt is None else position_of(last, salt)
        self._db.execute(f"update {quote(self.names.state)} set confirmed = ?", (noted,))
        return done

    def install(self, table: SqliteTable, refresh_after: int | None = None) -> ChangeLayout:
        """New triggers for a table in place of those it has. What was written down after `refresh_after` by the old ones
        lacks values of columns that are new, so that those rows are written down once more."""
        self._widen(self.names.changes, values(len(table.captured.columns)))
        self._widen(self.names.replaced, replaced_columns(len(table.key)))
        before = [one for one in self.layouts().values() if one.table == table.name]
        self.drop_triggers(table.name)
        columns = json.dumps([[column.source, column.name, column.type] for column in table.captured.columns])
        number = self._db.execute(
            f'insert into {quote(self.names.layouts)} ("table", columns, key_columns) values (?, ?, ?)',
            (table.name, columns, json.dumps(table.captured.key)),
        ).lastrowid
        assert number is not None
        for statement in triggers_sql(self.names, table, number).values():
            self._db.execute(statement)
        if refresh_after is not None:
            self._refresh(table, number, before, refresh_after)
        return ChangeLayout(number, table.name, table.captured.columns, table.captured.key)

    def _refresh(self, table: SqliteTable, number: int, before: Sequence[ChangeLayout], after: int) -> None:
        for layout in before:
            slots = {column.source: f"v{place}" for place, column in enumerate(layout.columns)}
            if not set(table.key) <= set(slots):
                continue
            taken = ", ".join(slots[key] for key in table.key)
            key = ", ".join(f"{quote(table.name)}.{quote(key)}" for key in table.key)
            touched = f"select {taken} from {quote(self.names.changes)} where layout = {layout.number} and n > {after}"
            self._db.execute(row_sql(self.names, table, number, str(UPDATE), f"({key}) in ({touched})").rstrip("; "))
        self._db.execute(mark_sql(self.names, number, MARK))

    def void(self, table: str) -> None:
        """Let the changes of a table that are still there be of no row: what came after them is not known."""
        mine = [number for number, layout in self.layouts().items() if layout.table == table]
        if mine:
            numbers = ", ".join(map(str, mine))
            self._db.execute(f"update {quote(self.names.changes)} set op = {MARK} where layout in ({numbers})")

    def mark(self, layout: int) -> None:
        """Let a change of no row stand where a table began to look different."""
        self._db.execute(mark_sql(self.names, layout, MARK))

    def layouts(self) -> dict[int, ChangeLayout]:
        """Every layout by its number."""
        found = {}
        for number, table, columns, *key in self._db.execute(f"select * from {quote(self.names.layouts)}").fetchall():
            keyed = tuple(json.loads(key[0])) if key and key[0] else ()  # older ones do not say
            made = tuple(CapturedColumn(*column) for column in json.loads(columns))
            found[number] = ChangeLayout(number, table, made, keyed)
        return found

    def last_layouts(self) -> dict[str, ChangeLayout]:
        """The last layout of each table."""
        return {one.table: one for _, one in sorted(self.layouts().items())} if self.is_there() else {}

    def installed(self) -> dict[int, set[str]]:
        """The layouts whose triggers are there, and the tables that these are on now."""
        found: dict[int, set[str]] = {}
        for name, table in self._db.execute(_TRIGGERS, (len(self.names.prefix), self.names.prefix)):
            number = name.removeprefix(self.names.prefix).partition(".")[0]
            found.setdefault(int(number), set()).add(table)
        return found

    def displaced(self) -> set[str]:
        """Tables, as they were called, whose triggers are on a table of another name now."""
        layouts = self.layouts()
        found = {number: on for number, on in self.installed().items() if number in layouts}
        return {layouts[number].table for number, on in found.items() if on != {layouts[number].table}}

    def is_whole(self, table: SqliteTable, layout: int) -> bool:
        """Whether a table's triggers are all there, as they would be made now."""
        wanted = triggers_sql(self.names, table, layout)
        prefix = f"{self.names.prefix}{layout}."
        there = dict(
            self._db.execute(
                "select name, sql from sqlite_master where type = 'trigger' and substr(name, 1, ?) = ?",
                (len(prefix), prefix),
            ).fetchall()
        )
        return there == wanted

    def drop_triggers(self, table: str | None = None) -> None:
        """Those of one table as it was called when they were made, or all."""
        layouts = self.layouts()
        for name, _ in self._db.execute(_TRIGGERS, (len(self.names.prefix), self.names.prefix)).fetchall():
            number = int(name.removeprefix(self.names.prefix).partition(".")[0])
            if table is None or (number in layouts and layouts[number].table == table):
                self._db.execute(f"drop trigger {quote(name)}")

    def forget(self) -> None:
        """Everything but the source's name."""
        if self._has(self.names.changes):
            self.drop_triggers()
            for name in (self.names.changes, self.names.layouts, self.names.replaced):
                self._db.execute(f"drop table {quote(name)}")
        if self._state() is not None:
            self._db.execute(f"update {quote(self.names.state)} set claimed = 0, confirmed = 0")

    def uninstall(self) -> bool:
        """Everything; whether there was something."""
        known = self._has(self.names.state)
        self.forget()
        if known:
            self._db.execute(f"drop table {quote(self.names.state)}")
        return known

    def _widen(self, table: str, wanted: Sequence[str]) -> None:
        there = [row[1] for row in self._db.execute(f"pragma table_info({quote(table)})")]
        for column in missing_columns(there, wanted):
            self._db.execute(f"alter table {quote(table)} add column {column}")

    def _has(self, table: str) -> bool:
        found = self._db.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,)).fetchone()
        return found is not None

    def _state(self) -> tuple[Any, ...] | None:
        if not self._has(self.names.state):
            return None
        found: tuple[Any, ...] | None = self._db.execute(
            f"select identity, claimed, confirmed from {quote(self.names.state)}"
        ).fetchone()
        return found


def brought_up_to_date(
    installation: Installation, table: SqliteTable, known: Collection[str], after: int, told: CapturedTable | None
) -> ChangeLayout | TableTrouble:
    """The triggers of a table as it is now. One that was captured before and has lost its triggers has lost changes;
    `told` is how the capture knows it."""
    last = installation.last_layouts().get(table.name)
    there = installation.installed()
    if table.name not in known:
        if last is not None and there.get(last.number) != {table.name}:
            installation.void(table.name)
        return installation.install(table)
    if last is None or there.get(last.number) != {table.name}:
        installation.drop_triggers(table.name)  # a table that was renamed has them now, and this is another one
        return TableTrouble(
            table.name,
            f"the triggers of {table.name} are gone, and what was written since is not known",
            f"Read it again: riverrun capture … --resnapshot {table.name}",
        )
    if last.columns == table.captured.columns and installation.is_whole(table, last.number):
        if told is not None and told.columns != table.captured.columns:
            installation.mark(last.number)
        return last
    return installation.install(table, number_of(after))
