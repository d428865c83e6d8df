"""A real PostgreSQL and a real MariaDB for the tests of captures; each test has a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from captured_shop import MariaShop, Shop
from mariadb_server import MariaServer, program
from postgres_server import LOGICAL, Server, logical_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    server = logical_server(18, LOGICAL)
    yield server
    server.remove()


@pytest.fixture
def shop(postgres: Server, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(postgres, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaServer]:
    if program("mariadbd") is None:
        pytest.skip("there is no mariadbd; `make servers` installs it where it may")
    server = MariaServer()
    yield server
    server.remove()


@pytest.fixture
def maria(mariadb: MariaServer, tmp_path: Path) -> Iterator[MariaShop]:
    made = MariaShop(mariadb, tmp_path)
    yield made
    made.close()
