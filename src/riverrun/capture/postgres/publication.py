"""The publication that a slot's stream follows: made, extended, and looked at now and then.

PostgreSQL 18 sends nothing for a publication that is missing, and says nothing about it; so somebody has to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg2

from riverrun.capture.changes import TableTrouble
from riverrun.capture.postgres.catalog import PostgresTable, quote
from riverrun.errors import Conflict, Unavailable


@dataclass(frozen=True)
class PublishedTable:
    """A table in a publication: which columns (None: all) and which rows."""

    columns: frozenset[str] | None
    filter: str | None


class Publication:
    """One publication; `own` ones are made and extended here."""

    def __init__(self, name: str, own: bool) -> None:
        self.name = name
        self.own = own

    def tables(self, db: Any) -> dict[str, PublishedTable] | None:
        """What is published, by table; None: there is no such publication."""
        db.execute("select 1 from pg_publication where pubname = %s", (self.name,))
        if db.fetchone() is None:
            return None
        db.execute("select current_setting('server_version_num')::int >= 150000")
        more = "attnames::text[], rowfilter" if db.fetchone()[0] else "null, null"
        db.execute(f"select schemaname, tablename, {more} from pg_publication_tables where pubname = %s", (self.name,))
        return {
            f"{schema}.{table}": PublishedTable(None if names is None else frozenset(names), condition)
            for schema, table, names, condition in db.fetchall()
        }

    def ensure(
        self, db: Any, tables: Sequence[PostgresTable], known: frozenset[str]
    ) -> tuple[list[PostgresTable], list[TableTrouble]]:
        """The tables as they are published, after adding those that are new. One that was captured before and is not
        published any more has lost changes."""
        there = self.tables(db)
        if there is None:
            if known:
                raise Conflict(
                    f"publication {self.name} is gone: what was written since is lost to the capture",
                    hint="Read the tables again: riverrun capture … --resnapshot all",
                )
            self._create(db, tables)
        else:
            new = [table for table in tables if table.captured.id not in there and table.captured.id not in known]
            if new and self.own:
                self._add(db, new)
        there = self.tables(db) or {}
        found, troubles = [], []
        for table in tables:
            published = there.get(table.captured.id)
            if published is None:
                troubles.append(self.lost(table))
            else:
                found.append(_as_published(table, published))
        return found, troubles

    def lost(self, table: PostgresTable) -> TableTrouble:
        """A table that is not published."""
        return TableTrouble(
            table.captured.id,
            f"{table.captured.id} is not in publication {self.name}, so its changes are not sent",
            f"alter publication {quote(self.name)} add table {table.quoted}; then riverrun capture …"
            f" --resnapshot {table.captured.id}",
        )

    def _create(self, db: Any, tables: Sequence[PostgresTable]) -> None:
        names = ", ".join(table.quoted for table in tables)
        sql = f"create publication {quote(self.name)} for table {names} with (publish_via_partition_root = true)"
        if not self.own:
            raise Unavailable(f"there is no publication {self.name}", hint=f"Its owner makes it: {sql}")
        self._execute(db, sql)

    def _add(self, db: Any, tables: Sequence[PostgresTable]) -> None:
        names = ", ".join(table.quoted for table in tables)
        self._execute(db, f"alter publication {quote(self.name)} add table {names}")

    def _execute(self, db: Any, sql: str) -> None:
        try:
            db.execute(sql)
        except psycopg2.errors.InsufficientPrivilege as error:
            raise Unavailable(
                f"this login may not publish the tables ({str(error).strip().splitlines()[0]})",
                hint=f"Let their owner do it: {sql}",
            ) from None


def _as_published(table: PostgresTable, published: PublishedTable) -> PostgresTable:
    if published.columns is None:
        return replace(table, filter=published.filter)
    columns = tuple(column for column in table.captured.columns if column.source in published.columns)
    return replace(
        table,
        captured=replace(table.captured, columns=columns),
        sources=tuple(column.source for column in columns),
        filter=published.filter,
    )
