"""A database of a real PostgreSQL and a river beside it, for the tests of captures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2

import riverrun as rr
from postgres_server import Server
from riverrun.capture.capture import Capture

_numbers = itertools.count(1)


class Shop:
    """A database, a river beside it, and captures of the one into the other."""

    def __init__(self, server: Server, path: Path) -> None:
        self.server = server
        self.path = path
        self.database = f"shop{next(_numbers)}"
        with _admin(server) as admin:
            admin.execute(f"create database {self.database}")
        self.url = server.url.replace("/postgres?", f"/{self.database}?")
        self.name = self.database  # slots are the server's, not a database's
        self._db: Any = None
        self.river = rr.River(str(path / "river"))

    def sql(self, text: str, *values: Any) -> list[Any]:
        if self._db is None or self._db.closed:
            self._db = psycopg2.connect(self.url)
            self._db.autocommit = True
        with self._db.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def capture(self, *tables: str, **options: Any) -> Capture:
        return self.river.capture(options.pop("url", self.url), list(tables), self.name, **options)

    def once(self, *tables: str, **options: Any) -> dict[str, Any]:
        """Capture up to now; gives the status."""
        capture = self.capture(*tables, **options)
        capture.run(once=True)
        return capture.status()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The topic of a table, in log order."""
        found = self.river.topic(f"{self.name}.{table}").read().to_pylist()
        return sorted(found, key=lambda row: (row["_received"], row["_partition"], row["_offset"]))

    def replica(self, table: str, key: str = "id") -> dict[Any, dict[str, Any]]:
        """What the topic of a table leaves, by key, without the columns that are Riverrun's own."""
        kept: dict[Any, dict[str, Any]] = {}
        for row in sorted(self.rows(table), key=lambda row: (row["_partition"], row["_offset"])):
            kept.pop(row[key], None)
            if not row["_deleted"]:
                kept[row[key]] = {name: value for name, value in row.items() if not name.startswith("_")}
        return kept

    def told(self) -> list[dict[str, Any]]:
        return self.river.topic(f"{self.name}.transactions").read().to_pylist()

    def close(self) -> None:
        self.river.close()
        if self._db is not None:
            self._db.close()
        with suppress(psycopg2.Error), _admin(self.server) as admin:  # the server goes with the session
            mine = "from pg_replication_slots where database = %s and"
            admin.execute(f"select pg_terminate_backend(active_pid) {mine} active", (self.database,))
            admin.execute(f"select pg_drop_replication_slot(slot_name) {mine} not active", (self.database,))


@contextmanager
def _admin(server: Server) -> Iterator[Any]:
    connection = psycopg2.connect(server.url)
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()
