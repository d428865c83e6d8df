"""What an SQL store asks of its database. `sqlite` and `postgres` are the two there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from riverrun.views.sql.tables import ViewTables


class Transaction(Protocol):
    """A transaction. Parameters are written as `?`."""

    def all(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, or of a statement that returns some."""

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        """The first row, if there is one."""

    def run(self, sql: str, *parameters: Any) -> None:
        """A statement without rows."""


class Database(Protocol):
    """A database that is open, with the catalogue's tables in it. Every error it raises is one of Riverrun's."""

    @property
    def tables(self) -> ViewTables:
        """The tables of views' rows."""

    def writing(self, flow: str) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer of the flow can come between. It is durable when the block ends, and leaves
        nothing when the block raises."""

    def reading(self, timeout: float | None = None) -> AbstractContextManager[Transaction]:
        """A read-only transaction that sees one state of the database, and waits for no writer. A statement that takes
        longer than `timeout` seconds is stopped with `TimedOut`."""

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None
    ) -> list[dict[str, Any]]:
        """One read-only statement of a caller's, in the database's own SQL. `TimedOut` after so many seconds."""

    def close(self) -> None:
        """Close all connections; what comes then raises `Closed`."""
