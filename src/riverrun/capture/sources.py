"""Which databases can be captured: the class behind each kind of address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riverrun.capture.changes import CaptureSource
from riverrun.capture.sqlite.source import SqliteSource
from riverrun.errors import Invalid, did_you_mean, not_installed

KINDS = ("postgresql", "postgres", "mariadb", "mysql", "sqlite")
SQLITE = "sqlite:"


def check_address(address: object) -> str:
    """An address that can be captured. What it says is not shown: a password may be in it."""
    if not isinstance(address, str) or address.partition(":")[0] not in KINDS:
        raise Invalid(
            "not an address of a database that can be captured",
            hint="Write postgresql://login@host/database, mariadb://login@host/database or sqlite:PATH",
        )
    return address


def check_keys(address: str, tables: Sequence[str], keys: Mapping[str, Sequence[str]]) -> None:
    """Each key is of a table that is captured, as it is named there or with its schema; SQLite knows no case."""
    fold = str.lower if address.startswith(SQLITE) else str
    named = {fold(table) for table in tables}
    for table in keys:
        if fold(table) not in named and fold(table).partition(".")[2] not in named:
            raise Invalid(f"there is a key of {table}, which is not captured", hint=did_you_mean(table, tables))


def open_database(
    address: str,
    name: str,
    keys: Mapping[str, Sequence[str]] | None = None,
    publication: str | None = None,
    decimal: str | None = None,
) -> CaptureSource:
    """Connect to a source."""
    if address.startswith(SQLITE):
        return open_sqlite(address, name, keys, publication, decimal)
    try:
        if address.startswith("postgres"):
            from riverrun.capture.postgres.source import PostgresSource

            return PostgresSource(address, name, keys, publication, decimal)
        from riverrun.capture.mariadb.source import MariaSource
    except ImportError as error:
        raise not_installed("a capture", error, "capture") from None
    if publication is not None:
        raise Invalid("publications are PostgreSQL's; MariaDB has none", hint="Leave `publication` out")
    return MariaSource(address, name, keys, decimal)


def open_sqlite(
    address: str,
    name: str,
    keys: Mapping[str, Sequence[str]] | None = None,
    publication: str | None = None,
    decimal: str | None = None,
) -> SqliteSource:
    """Open a file; what it needs is there already."""
    if not address.startswith(SQLITE):
        raise Invalid("only SQLite has triggers to install", hint="Write sqlite:PATH; other databases need none")
    if publication is not None:
        raise Invalid("a publication is PostgreSQL's; SQLite has none", hint="Leave it out")
    return SqliteSource(address, name, keys, decimal)
