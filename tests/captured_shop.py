"""A database of a real server and a river beside it, for the tests of captures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2
from pymysql.constants import CLIENT

import riverrun as rr
from mariadb_server import MariaServer
from postgres_server import Server
from riverrun.capture.capture import Capture

_numbers = itertools.count(1)


class CapturedRiver:
    """A river, and captures of a database into it."""

    dialect: str
    schema = ""  # what stands before the names of tables in those of topics

    def __init__(self, url: str, name: str, path: Path) -> None:
        self.url = url
        self.name = name
        self.path = path
        self.river = rr.River(str(path / "river"))

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

    def sql(self, text: str, *values: Any) -> list[Any]:
        """One statement with values, or several with semicolons between them; gives what the last one found."""
        raise NotImplementedError

    def told(self) -> list[dict[str, Any]]:
        return self.river.topic(f"{self.name}.transactions").read().to_pylist()


class Shop(CapturedRiver):
    """A database of PostgreSQL."""

    dialect = "postgresql"
    schema = "public."

    def __init__(self, server: Server, path: Path) -> None:
        self.server = server
        self.database = f"shop{next(_numbers)}"
        with _admin(server) as admin:
            admin.execute(f"create database {self.database}")
        # Slots are the server's, not a database's.
        super().__init__(server.url.replace("/postgres?", f"/{self.database}?"), self.database, path)
        self._db: Any = None

    def sql(self, text: str, *values: Any) -> list[Any]:
        if self._db is None or self._db.closed:
            self._db = psycopg2.connect(self.url)
            self._db.autocommit = True
        with self._db.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def disconnect(self) -> None:
        if self._db is not None:
            self._db.close()

    def cut(self) -> None:
        """Cut the connections of those who read the log."""
        self.sql("select pg_terminate_backend(pid) from pg_stat_replication")

    def readers(self) -> int:
        """How many connections read the log."""
        return len(self.sql("select pid from pg_stat_replication"))

    def close(self) -> None:
        self.river.close()
        self.disconnect()
        with suppress(psycopg2.Error), _admin(self.server) as admin:  # the server goes with the session
            mine = "from pg_replication_slots where database = %s and"
            admin.execute(f"select pg_terminate_backend(active_pid) {mine} active", (self.database,))
            admin.execute(f"select pg_drop_replication_slot(slot_name) {mine} not active", (self.database,))


class MariaShop(CapturedRiver):
    """A database of MariaDB."""

    dialect = "mariadb"

    def __init__(self, server: MariaServer, path: Path) -> None:
        self.server = server
        self.database = f"shop{next(_numbers)}"
        self._db: Any = None
        super().__init__(f"{server.url}/{self.database}", self.database, path)
        self.schema = f"{self.database}."
        self.sql(f"create database {self.database}")
        self.sql(f"use {self.database}")

    def sql(self, text: str, *values: Any) -> list[Any]:
        if self._db is None or not self._db.open:
            self._db = self.server.connect(client_flag=CLIENT.MULTI_STATEMENTS)
            if text != f"create database {self.database}":
                self._db.select_db(self.database)
        with self._db.cursor() as cursor:
            cursor.execute(text, values or None)
            found = list(cursor.fetchall())
            while cursor.nextset():
                found = list(cursor.fetchall())
            return found

    def disconnect(self) -> None:
        if self._db is not None and self._db.open:
            self._db.close()

    def cut(self) -> None:
        """Cut the connections of those who read the log."""
        for session in self._sessions():
            self.sql(f"kill {session}")

    def readers(self) -> int:
        """How many connections read the log."""
        return len(self._sessions())

    def _sessions(self) -> list[int]:
        return [row[0] for row in self.sql("show processlist") if row[4] == "Binlog Dump"]

    def close(self) -> None:
        self.river.close()
        self.disconnect()


@contextmanager
def _admin(server: Server) -> Iterator[Any]:
    connection = psycopg2.connect(server.url)
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()
