"""What SQLite's schema says of the tables to capture, and what keeps one from being captured."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riverrun.capture.changes import CapturedColumn, CapturedTable, TableTrouble
from riverrun.capture.sqlite.session import quote
from riverrun.capture.sqlite.types import topic_type
from riverrun.capture.topics import column_name, key_type, name_key
from riverrun.errors import did_you_mean

OWN = "riverrun."  # what the names of a capture's own tables and triggers begin with
_TABLES = "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite\\_%' escape '\\'"
_ROWIDS = ("rowid", "_rowid_", "oid")


@dataclass(frozen=True)
class UniqueColumns:
    """Columns of which no two rows have the same values, each with its collation; those of an index may be fewer rows."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SqliteTable:
    """A table as the schema has it, beside what the capture is told."""

    captured: CapturedTable
    key: tuple[str, ...]  # names of the key's columns, in the source
    place: tuple[str, ...]  # what finds a row: the rowid's name, or the columns of the primary key
    others: tuple[UniqueColumns, ...]  # through which REPLACE removes rows of another key
    whole_key: bool  # whether the key is the rowid, and so always a whole number

    @property
    def name(self) -> str:
        return self.captured.parts[0]


def find_tables(
    db: sqlite3.Connection,
    wanted: Sequence[str],
    keys: Mapping[str, Sequence[str]],
    decimal: str | None,
    before: Mapping[str, Sequence[str]],
) -> tuple[list[SqliteTable], list[TableTrouble]]:
    """The tables by their names (SQLite knows no case), and why some cannot be captured. A table without a primary key,
    and for which no key is named, has the key that it had `before`; one that is gone is called as it was then."""
    there = {name.lower(): (name, sql or "") for name, sql in db.execute(_TABLES) if not name.startswith(OWN)}
    found: list[SqliteTable] = []
    troubles: list[TableTrouble] = []
    named = {table.lower(): key for table, key in keys.items()}
    called = {name.lower(): name for name in before}
    for given in wanted:
        if given.lower() not in there:
            names = sorted(name for name, _ in there.values())
            was = given if given in before else called.get(given.lower(), given)
            troubles.append(TableTrouble(was, f"there is no table {given}", did_you_mean(given, names)))
            continue
        name, sql = there[given.lower()]
        outcome = _look(db, name, sql, named.get(given.lower()), before.get(name, ()), decimal)
        (troubles if isinstance(outcome, TableTrouble) else found).append(outcome)  # type: ignore[arg-type]
    return found, troubles


def _look(
    db: sqlite3.Connection,
    name: str,
    sql: str,
    given_key: Sequence[str] | None,
    key_before: Sequence[str],
    decimal: str | None,
) -> SqliteTable | TableTrouble:
    if sql.lower().startswith("create virtual"):
        return TableTrouble(name, f"{name} is a virtual table, which has no triggers", "Capture the table behind it")
    # (place, name, type, not null, default, place in the key, hidden): generated columns are hidden
    columns = [row[1:] for row in db.execute(f"pragma table_xinfo({quote(name)})")]
    plain = [(column, kind) for column, kind, *_, hidden in columns if not hidden]
    primary = [column for column, *_ in sorted((c for c in columns if c[4]), key=lambda c: int(c[4]))]
    uniques = _uniques(db, name)
    if isinstance(uniques, TableTrouble):
        return uniques
    bare = _has_no_rowid(db, name)
    whole = len(primary) == 1 and not bare and not any(kind == "pk" for kind, _ in uniques)
    key = list(given_key) if given_key else primary or list(key_before)
    names = {column.lower(): column for column, _ in plain}
    for one in key:
        if one.lower() not in names:
            hint = did_you_mean(one, sorted(names.values()))
            return TableTrouble(name, f"{name} has no column {one!r}, which is to be part of its key", hint)
    key = [names[one.lower()] for one in key]
    constraints = [unique for _, unique in uniques]
    if whole:
        constraints.append(UniqueColumns(((primary[0], "BINARY"),)))
    if not key or not any({column for column, _ in one.columns} == set(key) for one in constraints):
        shown = ", ".join(quote(column) for column in key) or "…"
        return TableTrouble(
            name,
            f"{name} has no primary key" if not key else f"{name} has no unique index on its key ({', '.join(key)})",
            f"create unique index … on {quote(name)} ({shown}), and name its columns: {name_key(name)}",
        )
    return _table(db, name, plain, key, constraints, primary if bare else None, whole and key == primary, decimal)


def _table(
    db: sqlite3.Connection,
    name: str,
    plain: Sequence[tuple[str, str]],
    key: Sequence[str],
    constraints: Sequence[UniqueColumns],
    primary: Sequence[str] | None,
    whole: bool,
    decimal: str | None,
) -> SqliteTable | TableTrouble:
    made = tuple(_column(column, kind, column in key, decimal) for column, kind in plain)
    if len({column.name.lower() for column in made}) < len(made):
        return TableTrouble(name, f"{name} has columns whose names are the same in a topic", "Rename one of them")
    taken = {column.lower() for column, _ in plain}
    rowid = next((one for one in _ROWIDS if one not in taken), None)
    if primary is None and rowid is None:
        return TableTrouble(name, f"{name} has columns named rowid, _rowid_ and oid", "Rename one of them")
    place = tuple(primary) if primary is not None else (str(rowid),)
    others = tuple(one for one in constraints if set(one.columns) != {(column, "BINARY") for column in key})
    captured = CapturedTable((name,), made, tuple(column_name(column) for column in key), _estimate(db, name, rowid))
    return SqliteTable(captured, tuple(key), place, others, whole)


def _column(name: str, declared: str, is_key: bool, decimal: str | None) -> CapturedColumn:
    made = topic_type(declared, decimal)
    return CapturedColumn(name, column_name(name), key_type(made) if is_key else made)


def key_condition(table: SqliteTable) -> str | None:
    """SQL that leaves out rows whose key cannot be one; None where there are none."""
    types = {column.source: column.type for column in table.captured.columns}
    return None if table.whole_key else " and ".join(_is_key(column, types[column]) for column in table.key)


def _is_key(column: str, kind: str) -> str:
    return f"{quote(column)} is not null" if _is_any(kind) else f"typeof({quote(column)}) = 'integer'"


def _is_any(kind: str) -> bool:
    return kind not in ("bigint", "boolean")


def find_odd_key(db: sqlite3.Connection, table: SqliteTable) -> TableTrouble | None:
    """Whether the table has a row whose key cannot be one."""
    if table.whole_key:
        return None
    types = {column.source: column.type for column in table.captured.columns}
    odd = " or ".join(
        f"{quote(column)} is null" if _is_any(types[column]) else f"typeof({quote(column)}) <> 'integer'"
        for column in table.key
    )
    found = db.execute(f"select 1 from {quote(table.name)} where {odd} limit 1").fetchone()
    return None if found is None else odd_key(table.name, table.key)


def odd_key(table: str, key: Sequence[str]) -> TableTrouble:
    """A row whose key is null, or of another type than it was declared with: SQLite allows both."""
    return TableTrouble(
        table,
        f"{table} has a row whose key ({', '.join(key)}) is null or not of the type it was declared with",
        f"Mend it, then read the table again: riverrun capture … --resnapshot {table}",
    )


def _uniques(db: sqlite3.Connection, name: str) -> list[tuple[str, UniqueColumns]] | TableTrouble:
    found = []
    for _, index, unique, origin, _ in db.execute(f"pragma index_list({quote(name)})").fetchall():
        if not unique:
            continue
        columns = [
            (cid, column, collation)
            for _, cid, column, _, collation, is_key in db.execute(f"pragma index_xinfo({quote(index)})")
            if is_key
        ]
        if any(cid == -2 for cid, *_ in columns):
            return TableTrouble(
                name,
                f"{name} has a unique index on an expression ({index}): rows that INSERT OR REPLACE removes through it"
                " could not be told",
                "Put the expression into a generated column and make the index on that",
            )
        found.append((origin, UniqueColumns(tuple((column, collation) for _, column, collation in columns))))
    return found


def _has_no_rowid(db: sqlite3.Connection, name: str) -> bool:
    """WITHOUT ROWID: then the index of its primary key is the table itself, and has every column."""
    for _, index, _, origin, _ in db.execute(f"pragma index_list({quote(name)})").fetchall():
        if origin == "pk":
            in_schema = db.execute("select 1 from sqlite_master where type = 'index' and name = ?", (index,)).fetchone()
            return in_schema is None
    return False


def _estimate(db: sqlite3.Connection, name: str, rowid: str | None) -> int | None:
    try:
        low, high = db.execute(
            f"select (select min({rowid}) from {quote(name)}), (select max({rowid}) from {quote(name)})"
        ).fetchone()
    except sqlite3.OperationalError:  # WITHOUT ROWID
        return None
    return 0 if low is None else int(high - low + 1)
