"""Which store an address means: a path is SQLite, postgresql://… is PostgreSQL."""

from __future__ import annotations

from riverrun.errors import Invalid
from riverrun.views.store import Store


def open_store(address: str) -> Store:
    """The store at an address; a SQLite file is made when it is not there."""
    if address.startswith(("postgresql://", "postgres://")):
        from riverrun.views.postgres import PostgresStore

        return PostgresStore(address)
    if "://" in address:
        raise Invalid(f"not a store for views: {address!r}", hint="Give a path, or postgresql://…")
    from riverrun.views.sqlite import SqliteStore

    return SqliteStore(address)
