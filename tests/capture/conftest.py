"""A real PostgreSQL for the tests of captures; each test has a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from captured_shop import Shop
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
