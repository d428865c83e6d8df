"""Which databases can be captured: the class behind each kind of address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riverrun.capture.changes import CaptureSource
from riverrun.errors import Invalid, Unavailable, how_to_install

KINDS = ("postgresql", "postgres", "mariadb", "mysql")


def check_address(address: object) -> str:
    """An address that can be captured. What it says is not shown: a password may be in it."""
    if not isinstance(address, str) or address.partition(":")[0] not in KINDS:
        raise Invalid(
            "not an address of a database that can be captured",
            hint="Write postgresql://login@host/database or mariadb://login@host/database",
        )
    return address


def open_database(
    address: str,
    name: str,
    keys: Mapping[str, Sequence[str]] | None = None,
    publication: str | None = None,
    decimal: str | None = None,
) -> CaptureSource:
    """Connect to a source."""
    try:
        if address.startswith("postgres"):
            from riverrun.capture.postgres.source import PostgresSource

            return PostgresSource(address, name, keys, publication, decimal)
        from riverrun.capture.mariadb.source import MariaSource
    except ImportError as error:
        raise Unavailable(
            f"a package that captures need is not installed ({error.name})",
            hint=f"Install it: {how_to_install('capture')}",
        ) from None
    if publication is not None:
        raise Invalid("publications are PostgreSQL's; MariaDB has none", hint="Leave `publication` out")
    return MariaSource(address, name, keys, decimal)
