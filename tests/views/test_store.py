"""Which store a place means."""

from __future__ import annotations

import pytest

from postgres_server import shared_server
from riverrun.errors import Invalid, Unavailable
from riverrun.views import open_store
from riverrun.views.sql.postgres import PostgresDatabase
from riverrun.views.sql.sqlite import SqliteDatabase


def test_a_path_is_sqlite_and_a_url_is_its_database(tmp_path):
    with open_store(tmp_path / "views.db") as file, open_store(shared_server().url) as server:
        assert isinstance(file.database, SqliteDatabase)
        assert isinstance(server.database, PostgresDatabase)
    with pytest.raises(Unavailable):
        open_store(tmp_path / "other.db", create=False)
    with pytest.raises(Invalid, match="no view store for mysql://"):
        open_store("mysql://host/db")
