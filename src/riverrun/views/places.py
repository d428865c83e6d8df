"""Which store a place means."""

from __future__ import annotations

import os

from riverrun.durations import Duration
from riverrun.errors import Invalid, Unavailable
from riverrun.views.store import Store


def open_store(place: str | os.PathLike[str], *, create: bool = True, changes_kept: Duration = "1 hour") -> Store:
    """The store at a place: "postgresql://…", or a file for SQLite. `create=False` refuses a file that is not there."""
    where = os.fspath(place)
    scheme, found, _ = where.partition("://")
    if not found:
        from riverrun.views.sqlite import SqliteStore

        return SqliteStore(where, create=create, changes_kept=changes_kept)
    if scheme not in ("postgresql", "postgres"):
        raise Invalid(f"there is no view store for {scheme}://", hint="Views are kept in a file or in postgresql://…")
    try:
        from riverrun.views.postgres import PostgresStore
    except ImportError as error:
        raise Unavailable(
            f"views in PostgreSQL need a package that is not installed: {error.name}",
            hint='Install it: pip install "riverrun[postgres]"',
        ) from None
    return PostgresStore(where, changes_kept=changes_kept)
