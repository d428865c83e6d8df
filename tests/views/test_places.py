"""Which store a place means."""

from __future__ import annotations

import pytest

from postgres_server import shared_server
from riverrun.errors import Invalid, Unavailable
from riverrun.views import open_store
from riverrun.views.postgres import PostgresStore
from riverrun.views.sqlite import SqliteStore


def test_a_path_is_sqlite_and_a_url_is_its_database(tmp_path):
    with open_store(tmp_path / "views.db") as file, open_store(shared_server().url) as server:
        assert isinstance(file, SqliteStore)
        assert isinstance(server, PostgresStore)
    with pytest.raises(Unavailable):
        open_store(tmp_path / "other.db", create=False)
    with pytest.raises(Invalid, match="no view store for mysql://"):
        open_store("mysql://host/db")
