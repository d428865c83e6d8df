"""The shop's own database, as its application sees it: SQLite, or PostgreSQL where SHOP is an address of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TABLES = (
    "create table products (sku text primary key, title text, kind text, price double precision)",
    "create table sales (sale bigint primary key, sku text, pieces bigint, day text)",
)


class Database:
    """One connection. Statements have `?` for values, and each is a transaction unless it is inside of `transaction`."""

    def __init__(self, address: str) -> None:
        self.is_sqlite = address.startswith("sqlite:")
        if self.is_sqlite:
            import sqlite3

            self._connection: Any = sqlite3.connect(address.removeprefix("sqlite:"), isolation_level=None)
        else:
            import psycopg

            self._connection = psycopg.connect(address, autocommit=True)

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        found = self._connection.execute(sql if self.is_sqlite else sql.replace("?", "%s"), values)
        return found.fetchall() if found.description else []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.run("begin")
        try:
            yield
            self.run("commit")
        except BaseException:
            self.run("rollback")
            raise

    def close(self) -> None:
        self._connection.close()
