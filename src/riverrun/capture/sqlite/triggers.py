"""The triggers that write down what happens to a table, as SQL. Pure.

What is written down is what the table has *then*, not what a statement meant to put there: other triggers of the table may
have changed the row, or taken it away, before ours comes. So a change says "this row is so now", a delete "there is no row
with this key now", and the last one said of a key is right, in whichever order triggers run.

`INSERT OR REPLACE` and `UPDATE OR REPLACE` remove rows that stand in the way by any unique column, and tell no trigger of it.
So the rows that stand in the way are noted before, and those that are gone afterwards are deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from riverrun.capture.changes import DELETE, INSERT, UPDATE
from riverrun.capture.sqlite.catalog import OWN, SqliteTable
from riverrun.capture.sqlite.session import quote

# Milliseconds are what SQLite's clock has; a statement has one moment.
_NOW = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000"
SALT_BITS = 16
_SALT = f"random() & {(1 << SALT_BITS) - 1}"


class SourceNames:
    """What a capture calls its tables and triggers in the source. A capture's name has no dots."""

    def __init__(self, capture: str) -> None:
        self.prefix = f"{OWN}{capture}."
        self.state = f"{self.prefix}state"
        self.changes = f"{self.prefix}changes"
        self.layouts = f"{self.prefix}layouts"
        self.replaced = f"{self.prefix}replaced"

    def trigger(self, layout: int, event: str) -> str:
        return f"{self.prefix}{layout}.{event}"


def values(count: int) -> list[str]:
    """The columns of the changes table that hold a row's values."""
    return [f"v{place}" for place in range(count)]


def tables_sql(names: SourceNames) -> list[str]:
    """The capture's own tables. Columns for values have no type, so that a value stays exactly what it is."""
    return [
        f"create table {quote(names.changes)} (n integer primary key autoincrement, layout integer not null,"
        " op integer not null, at integer not null, salt integer not null)",
        f'create table {quote(names.layouts)} (layout integer primary key, "table" text not null, columns text not null)',
        f"create table {quote(names.replaced)} (layout integer not null)",
    ]


def triggers_sql(names: SourceNames, table: SqliteTable, layout: int) -> dict[str, str]:
    """The triggers of a table by their names. The values of its columns are in v0, v1, … in order."""
    # In capitals, as SQLite writes it down: what is there is compared with this.
    return {names.trigger(layout, event): sql for event, sql in _triggers(names, table, layout)}


def _triggers(names: SourceNames, table: SqliteTable, layout: int) -> Iterator[tuple[str, str]]:
    on = quote(table.name)
    gone = _gone(names, table, layout) if table.others else ""
    row = _row(names, table, layout)
    changed = " or ".join(f"(old.{quote(k)} collate binary) is not new.{quote(k)}" for k in table.key)
    delete = _delete(names, table, layout)
    for event, head, body in (
        ("insert", f"after insert on {on}", gone + row(str(INSERT))),
        (
            "update",
            f"after update on {on}",
            gone + delete(f"({changed}) and ") + row(f"case when {changed} then {INSERT} else {UPDATE} end"),
        ),
        ("delete", f"after delete on {on}", delete("")),
    ):
        yield event, f"CREATE TRIGGER {quote(names.trigger(layout, event))} {head} begin {body}end"
    if table.others:
        note = _note(names, table, layout)
        columns = dict.fromkeys(column for one in table.others for column, _ in one.columns)
        of = ", ".join(quote(column) for column in columns)
        for event, head in (
            ("before_insert", f"before insert on {on}"),
            ("before_update", f"before update of {of} on {on}"),
        ):
            yield event, f"CREATE TRIGGER {quote(names.trigger(layout, event))} {head} begin {note}end"


def row_sql(names: SourceNames, table: SqliteTable, layout: int, op: str, where: str) -> str:
    """Write down what rows of a table are now."""
    columns = [column.source for column in table.captured.columns]
    taken = ", ".join(f"{quote(table.name)}.{quote(column)}" for column in columns)
    into = ", ".join(values(len(columns)))
    return (
        f"insert into {quote(names.changes)} (layout, op, at, salt, {into}) select {layout}, {op}, {_NOW}, {_SALT}, {taken}"
        f" from {quote(table.name)} where {where}; "
    )


def mark_sql(names: SourceNames, layout: int, op: int) -> str:
    """A change of no row."""
    return f"insert into {quote(names.changes)} (layout, op, at, salt) values ({layout}, {op}, {_NOW}, {_SALT})"


def _row(names: SourceNames, table: SqliteTable, layout: int) -> Callable[[str], str]:
    where = " and ".join(f"{quote(table.name)}.{_place(one)} is new.{_place(one)}" for one in table.place)
    return lambda op: row_sql(names, table, layout, op, where)


def _place(name: str) -> str:
    return name if name in ("rowid", "_rowid_", "oid") else quote(name)


def _delete(names: SourceNames, table: SqliteTable, layout: int) -> Callable[[str], str]:
    sources = [column.source for column in table.captured.columns]
    into = ", ".join(f"v{sources.index(key)}" for key in table.key)
    old = ", ".join(f"old.{quote(key)}" for key in table.key)
    there = _there(table, {key: f"old.{quote(key)}" for key in table.key})
    return lambda condition: (
        f"insert into {quote(names.changes)} (layout, op, at, salt, {into})"
        f" select {layout}, {DELETE}, {_NOW}, {_SALT}, {old} where {condition}not {there}; "
    )


def _there(table: SqliteTable, key: dict[str, str]) -> str:
    """Whether the table has a row of exactly this key. The first comparison is what an index can do."""
    name = quote(table.name)
    equal = " and ".join(
        f"{name}.{quote(one)} = {value} and ({name}.{quote(one)} collate binary) = {value}"
        for one, value in key.items()
    )
    return f"exists (select 1 from {name} where {equal})"


def replaced_columns(count: int) -> list[str]:
    """The columns of the replaced table that hold a key."""
    return [f"k{place}" for place in range(count)]


def _note(names: SourceNames, table: SqliteTable, layout: int) -> str:
    """Before a row comes: those that stand in its way."""
    name, noted = quote(table.name), quote(names.replaced)
    into = replaced_columns(len(table.key))
    taken = [f"{name}.{quote(key)}" for key in table.key]
    known = " and ".join(f"{noted}.{k} is {value}" for k, value in zip(into, taken, strict=True))
    statements = ""
    for unique in table.others:
        same = " and ".join(f"{name}.{quote(c)} = new.{quote(c)} collate {quote(how)}" for c, how in unique.columns)
        statements += (
            f"insert into {noted} (layout, {', '.join(into)}) select {layout}, {', '.join(taken)} from {name}"
            f" where {same} and not exists (select 1 from {noted} where {noted}.layout = {layout} and {known}); "
        )
    return statements


def _gone(names: SourceNames, table: SqliteTable, layout: int) -> str:
    """After it has come: those that are there no longer were replaced by it."""
    noted = quote(names.replaced)
    sources = [column.source for column in table.captured.columns]
    into = ", ".join(f"v{sources.index(key)}" for key in table.key)
    columns = [f"{noted}.{k}" for k in replaced_columns(len(table.key))]
    there = _there(table, dict(zip(table.key, columns, strict=True)))
    return (
        f"insert into {quote(names.changes)} (layout, op, at, salt, {into})"
        f" select {layout}, {DELETE}, {_NOW}, {_SALT}, {', '.join(columns)} from {noted}"
        f" where {noted}.layout = {layout} and not {there}; delete from {noted} where layout = {layout}; "
    )


def missing_columns(there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Columns that a table of the capture's own does not have yet."""
    return [column for column in wanted if column not in there]
