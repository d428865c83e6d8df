"""What PostgreSQL's catalogue says of the tables to capture, and what keeps one from being captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riverrun.capture.changes import CapturedColumn, CapturedTable, TableTrouble
from riverrun.capture.postgres.messages import RelationMessage
from riverrun.capture.postgres.types import topic_type
from riverrun.capture.topics import column_name, key_type, name_key
from riverrun.errors import did_you_mean

_TABLES = """
select c.oid, n.nspname, c.relname, c.relreplident::text, c.reltuples::bigint, c.relispartition
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_toast%%'
"""
_COLUMNS = """
with recursive base as (
  select oid as type, oid, typbasetype, typtypmod, 0 as depth from pg_type where typtype <> 'd'
  union all
  select d.oid, b.oid, b.typbasetype, case when b.depth = 0 then d.typtypmod else b.typtypmod end, b.depth + 1
  from pg_type d join base b on d.typbasetype = b.type where d.typtype = 'd'
)
select a.attname, b.oid, case when b.depth > 0 then b.typtypmod else a.atttypmod end, a.attnotnull, a.attnum
from pg_attribute a join base b on b.type = a.atttypid
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
order by a.attnum
"""
_KEYS = """
select i.indisprimary, i.indisreplident, array_agg(a.attname::text order by k.place), bool_and(a.attnotnull)
from pg_index i cross join lateral unnest(i.indkey) with ordinality k(number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = %s and i.indisunique and i.indpred is null and i.indexprs is null and k.place <= i.indnkeyatts
group by i.indexrelid, i.indisprimary, i.indisreplident
"""
_BASES = "select oid, typbasetype, typtypmod from pg_type where typtype = 'd' and oid = any(%s)"


@dataclass(frozen=True)
class PostgresTable:
    """A table as the catalogue has it, beside what the capture is told."""

    captured: CapturedTable
    oid: int
    sources: tuple[str, ...]  # names of the columns, in the source
    key: tuple[str, ...]  # names of the key's columns, in the source
    filter: str | None = None  # the publication's condition

    @property
    def quoted(self) -> str:
        return ".".join(quote(part) for part in self.captured.parts)


def quote(name: str) -> str:
    """An identifier as SQL reads it."""
    return '"' + name.replace('"', '""') + '"'


def find_tables(
    db: Any, wanted: Sequence[str], keys: Mapping[str, Sequence[str]], decimal: str | None
) -> tuple[list[PostgresTable], list[TableTrouble]]:
    """The tables by their names (`orders` is `public.orders`), and why some cannot be captured."""
    db.execute(_TABLES)
    there = {f"{schema}.{name}": (oid, schema, name, *rest) for oid, schema, name, *rest in db.fetchall()}
    found: list[PostgresTable] = []
    troubles: list[TableTrouble] = []
    for given in wanted:
        name = given if given in there or "." in given else f"public.{given}"
        if name not in there:
            troubles.append(TableTrouble(name, f"there is no table {name}", did_you_mean(name, sorted(there))))
            continue
        outcome = _look(db, there[name], keys.get(given, keys.get(name)), decimal)
        (troubles if isinstance(outcome, TableTrouble) else found).append(outcome)  # type: ignore[arg-type]
    return found, troubles


def _look(
    db: Any, row: tuple[Any, ...], given_key: Sequence[str] | None, decimal: str | None
) -> PostgresTable | TableTrouble:
    oid, schema, name, identity, estimate, is_partition = row
    table = f"{schema}.{name}"
    quoted = f"{quote(schema)}.{quote(name)}"
    if is_partition:
        return TableTrouble(table, f"{table} is a partition of another table", "Capture the partitioned table")
    db.execute(_COLUMNS, (oid,))
    columns = db.fetchall()
    db.execute(_KEYS, (oid,))
    indexes = db.fetchall()
    primary = next((names for is_primary, _, names, _ in indexes if is_primary), None)
    named = next((names for _, is_identity, names, _ in indexes if is_identity), None)
    key = list(given_key) if given_key else primary or (named if identity == "i" else None)
    if not key:
        return TableTrouble(
            table,
            f"{table} has no primary key",
            f"Give it one, or name columns that tell its rows apart: {name_key(table)}, after"
            f" alter table {quoted} replica identity full",
        )
    there = {column[0] for column in columns}
    for one in key:
        if one not in there:
            hint = did_you_mean(one, sorted(there))
            return TableTrouble(table, f"{table} has no column {one!r}, which is to be part of its key", hint)
    identified = {"d": primary, "i": named, "f": sorted(there)}.get(identity) or []
    if not identified:
        return TableTrouble(
            table,
            f"{table} has no replica identity: once it is published, every update and delete of it fails",
            f"First: alter table {quoted} replica identity full"
            if primary is None
            else f"First: alter table {quoted} replica identity default",
        )
    if not set(key) <= set(identified):
        return TableTrouble(
            table,
            f"{table}: its replica identity ({', '.join(identified)}) does not have all of the key ({', '.join(key)}), so"
            " deletes could not be told",
            f"First: alter table {quoted} replica identity full",
        )
    return _table(oid, (schema, name), columns, key, max(int(estimate), 0) if estimate >= 0 else None, decimal)


def _table(
    oid: int,
    parts: tuple[str, str],
    columns: Sequence[tuple[Any, ...]],
    key: Sequence[str],
    estimate: int | None,
    decimal: str | None,
) -> PostgresTable | TableTrouble:
    made = tuple(_column(name, kind, modifier, name in key, decimal) for name, kind, modifier, *_ in columns)
    if len({column.name.lower() for column in made}) < len(made):
        return TableTrouble(
            ".".join(parts), f"{'.'.join(parts)} has columns that differ only in case", "SQL in flows knows no case"
        )
    captured = CapturedTable(parts, made, tuple(column_name(name) for name in key), estimate)
    return PostgresTable(captured, oid, tuple(column.source for column in made), tuple(key))


def _column(name: str, kind: int, modifier: int, is_key: bool, decimal: str | None) -> CapturedColumn:
    made = topic_type(kind, modifier, decimal)
    return CapturedColumn(name, column_name(name), key_type(made) if is_key else made)


def evolved(
    table: CapturedTable, relation: RelationMessage, bases: Mapping[int, tuple[int, int]], decimal: str | None
) -> CapturedTable | TableTrouble:
    """The table after the stream has said what its rows look like from here on, or why it cannot go on.

    `bases` has, for domains, the type they are of and its modifier.
    """
    known = {column.source: column for column in table.columns}
    key = {column.source for column in table.columns if column.name in table.key}
    added = []
    for column in relation.columns:
        kind, modifier = bases.get(column.type, (column.type, column.modifier))
        made = _column(column.name, kind, modifier, column.name in key, decimal)
        if column.name not in known:
            added.append(made)
        elif known[column.name].type != made.type:
            return TableTrouble(
                table.id,
                f"column {column.name!r} of {table.id} was {known[column.name].type} and is {made.type} now",
                _begin_again(table),
            )
    if relation.identity == "n":
        return TableTrouble(table.id, f"{table.id} has no replica identity any more", _begin_again(table))
    identified = {column.name for column in relation.columns if column.key}
    if relation.identity != "f" and not key <= identified:
        return TableTrouble(
            table.id,
            f"the key of {table.id} was ({', '.join(sorted(key))}) and is ({', '.join(sorted(identified))}) now",
            _begin_again(table),
        )
    if relation.identity == "d" and identified != key:
        return TableTrouble(
            table.id,
            f"the key of {table.id} was ({', '.join(sorted(key))}) and is ({', '.join(sorted(identified))}) now",
            _begin_again(table),
        )
    if not added:
        return table
    return CapturedTable(table.parts, (*table.columns, *added), table.key, table.estimate)


def _begin_again(table: CapturedTable) -> str:
    return f"Drop its topic (riverrun topic drop) and read it again: riverrun capture … --resnapshot {table.id}"


def base_types(db: Any, oids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Of domains among these types, what they are of and its modifier."""
    found: dict[int, tuple[int, int]] = {}
    asked = list(oids)
    modifiers = dict.fromkeys(asked, -1)
    of = {oid: oid for oid in asked}
    while asked:
        db.execute(_BASES, (asked,))
        rows = db.fetchall()
        asked = []
        for oid, base, modifier in rows:
            for start, end in list(of.items()):
                if end == oid:
                    of[start] = base
                    modifiers[start] = modifier if modifier >= 0 else modifiers[start]
                    found[start] = (base, modifiers[start])
            asked.append(base)
    return found
