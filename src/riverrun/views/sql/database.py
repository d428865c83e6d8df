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
    def place(self) -> str:
        """Where the database is, as people on any machine understand it; without secrets."""

    @property
    def tables(self) -> ViewTables:
        """The tables of views' rows."""

    def writing(self, flow: str, wait: float | None = None) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer of the flow can come between. It is durable when the block ends, and leaves
        nothing when the block raises. What others have locked is waited for `wait` seconds, if that is not what the database
        was opened with."""

    def has_table(self, db: Transaction, table: str) -> bool:
        """Whether there is a table of this name that may be read."""

    def reading(self, timeout: float | None = None) -> AbstractContextManager[Transaction]:
        """A read-only transaction that sees one state of the database, and waits for no writer. A statement that takes
        longer than `timeout` seconds is stopped with `TimedOut`."""

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any], timeout: float | None
    ) -> list[dict[str, Any]]:
        """One read-only statement of a caller's, in the database's own SQL. `TimedOut` after so many seconds."""

    def admit_strangers(self) -> None:
        """Raises where SQL of people who have no login of their own could do more here than read views."""

    def concerns(self) -> list[tuple[str, str]]:
        """What an operator should know about its logins, and what to do about it."""

    def close(self) -> None:
        """Close all connections; what comes then raises `Closed`."""
