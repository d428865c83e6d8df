"""What MariaDB's catalogue says of the tables to capture, and what keeps one from being captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riverrun.capture.changes import CapturedColumn, CapturedTable, TableTrouble
from riverrun.capture.mariadb.types import ColumnType, topic_type
from riverrun.capture.topics import column_name, key_type, name_key
from riverrun.errors import did_you_mean

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_TABLES = f"""
select t.table_schema, t.table_name, t.table_type, t.engine, coalesce(e.transactions, 'NO'), t.table_rows
from information_schema.tables t left join information_schema.engines e on e.engine = t.engine
where t.table_schema not in {_SYSTEM} and t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED')
"""
_COLUMNS = """
select column_name, data_type, column_type, coalesce(numeric_precision, datetime_precision, character_octet_length, 0),
  coalesce(numeric_scale, 0), is_generated
from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position
"""
_KEY = """
select column_name from information_schema.statistics
where table_schema = %s and table_name = %s and index_name = 'PRIMARY' order by seq_in_index
"""
_CASCADES = """
select constraint_name, delete_rule, update_rule from information_schema.referential_constraints
where constraint_schema = %s and table_name = %s
  and (delete_rule not in ('RESTRICT', 'NO ACTION') or update_rule not in ('RESTRICT', 'NO ACTION'))
"""


@dataclass(frozen=True)
class MariaTable:
    """A table as the catalogue has it, beside what the capture is told."""

    captured: CapturedTable
    types: Mapping[str, ColumnType]  # by the names of the source
    key: tuple[str, ...]  # names of the key's columns, in the source
    generated: frozenset[str] = frozenset()  # columns that are computed, and left out

    @property
    def quoted(self) -> str:
        return ".".join(quote(part) for part in self.captured.parts)


@dataclass(frozen=True)
class BinlogColumn:
    """A column as the binary log describes it, before rows that have it."""

    name: str | None  # None: binlog_row_metadata was not FULL
    type: ColumnType
    is_key: bool


def quote(name: str) -> str:
    """An identifier as SQL reads it."""
    return "`" + name.replace("`", "``") + "`"


def find_tables(
    db: Any, wanted: Sequence[str], database: str | None, keys: Mapping[str, Sequence[str]], decimal: str | None
) -> tuple[list[MariaTable], list[TableTrouble]]:
    """The tables by their names (`orders` is that of the address's database), and why some cannot be captured."""
    db.execute(_TABLES)
    there = {f"{row[0]}.{row[1]}": row for row in db.fetchall()}
    found: list[MariaTable] = []
    troubles: list[TableTrouble] = []
    for given in wanted:
        name = given if given in there or database is None else f"{database}.{given}"
        if name not in there:
            name = given if "." in given else name
            hint = did_you_mean(name, sorted(there)) if there else "Is it there, and has the login SELECT on it?"
            troubles.append(TableTrouble(name, f"there is no table {name}", hint))
            continue
        outcome = _look(db, there[name], keys.get(given, keys.get(name)), decimal)
        (troubles if isinstance(outcome, TableTrouble) else found).append(outcome)  # type: ignore[arg-type]
    return found, troubles


def _look(
    db: Any, row: Sequence[Any], given_key: Sequence[str] | None, decimal: str | None
) -> MariaTable | TableTrouble:
    schema, name, kind, engine, transactional, estimate = row
    table, quoted = f"{schema}.{name}", f"{quote(schema)}.{quote(name)}"
    if kind != "BASE TABLE":
        return TableTrouble(table, f"{table} is system-versioned, and its log has old rows as if they were new")
    if transactional != "YES":
        return TableTrouble(
            table,
            f"{table} is a table of {engine}, which has no transactions",
            f"alter table {quoted} engine = InnoDB",
        )
    db.execute(_CASCADES, (schema, name))
    cascade = db.fetchone()
    if cascade is not None:
        return TableTrouble(
            table,
            f"the foreign key {cascade[0]} of {table} changes rows by itself (on delete {cascade[1].lower()}, on update"
            f" {cascade[2].lower()}), and MariaDB does not log that",
            "Make it restrict, and let the application delete and update",
        )
    db.execute(_COLUMNS, (schema, name))
    columns = db.fetchall()
    db.execute(_KEY, (schema, name))
    key = list(given_key) if given_key else [one for (one,) in db.fetchall()]
    if not key:
        return TableTrouble(
            table,
            f"{table} has no primary key",
            f"Give it one, or name columns that tell its rows apart: {name_key(table)}",
        )
    for one in key:
        if one not in {column[0] for column in columns}:
            hint = did_you_mean(one, sorted(column[0] for column in columns))
            return TableTrouble(table, f"{table} has no column {one!r}, which is to be part of its key", hint)
    return _table((schema, name), columns, key, None if estimate is None else int(estimate), decimal)


def _table(
    parts: tuple[str, str],
    columns: Sequence[Sequence[Any]],
    key: Sequence[str],
    estimate: int | None,
    decimal: str | None,
) -> MariaTable | TableTrouble:
    table = ".".join(parts)
    made, types, computed = [], {}, set()
    for name, data, full, precision, scale, generated in columns:
        if generated == "ALWAYS" and name not in key:
            computed.add(name)
            continue
        kind = ColumnType(
            "compressed" if "COMPRESSED" in full else data, "unsigned" in full, int(precision or 0), int(scale or 0)
        )
        column = captured_column(table, name, kind, name in key, decimal)
        if isinstance(column, TableTrouble):
            return column
        made.append(column)
        types[name] = kind
    if len({column.name.lower() for column in made}) < len(made):
        return TableTrouble(table, f"{table} has columns that differ only in case", "SQL in flows knows no case")
    captured = CapturedTable(parts, tuple(made), tuple(column_name(name) for name in key), estimate)
    return MariaTable(captured, types, tuple(key), frozenset(computed))


def captured_column(
    table: str, name: str, kind: ColumnType, is_key: bool, decimal: str | None
) -> CapturedColumn | TableTrouble:
    """A column of a topic, or why there can be none."""
    made = topic_type(kind, decimal)
    if made is None:
        return TableTrouble(
            table,
            f"column {name!r} of {table} is of type {kind.name}, which the binary log does not describe",
            "Keep such values as char or binary",
        )
    if is_key and made in ("float", "double"):
        return TableTrouble(
            table, f"column {name!r} is part of the key of {table} and is {made}: such keys are not exact"
        )
    return CapturedColumn(name, column_name(name), key_type(made) if is_key else made)


def evolved(
    table: CapturedTable, columns: Sequence[BinlogColumn], generated: frozenset[str], own_key: bool, decimal: str | None
) -> CapturedTable | TableTrouble:
    """The table after the log has said what its rows look like from here on, or why it cannot go on. `own_key`: the key is
    the table's own, not one that was named."""
    known = {column.source: column for column in table.columns}
    key = {column.source for column in table.columns if column.name in table.key}
    added: list[CapturedColumn] = []
    again = f"Drop its topic (riverrun topic drop) and read it again: riverrun capture … --resnapshot {table.id}"
    if any(column.name is None for column in columns):
        return TableTrouble(
            table.id,
            f"{table.id} was written to while binlog_row_metadata was not FULL: its columns have no names",
            f"Set it globally, and read the table again: --resnapshot {table.id}",
        )
    for column in columns:
        name = str(column.name)
        if name in generated and name not in known:
            continue
        made = captured_column(table.id, name, column.type, name in key, decimal)
        if name not in known:
            if isinstance(made, CapturedColumn):
                added.append(made)
            continue
        if isinstance(made, TableTrouble):
            return made
        if known[name].type != made.type:
            return TableTrouble(
                table.id, f"column {name!r} of {table.id} was {known[name].type} and is {made.type} now", again
            )
    now = {str(column.name) for column in columns if column.is_key}
    if (own_key and now != key) or not key <= {column.name for column in columns}:
        return TableTrouble(
            table.id,
            f"the key of {table.id} was ({', '.join(sorted(key))}) and is ({', '.join(sorted(now))}) now",
            again,
        )
    return CapturedTable(table.parts, (*table.columns, *added), table.key, table.estimate) if added else table
