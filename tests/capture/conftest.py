"""Real databases for the tests of captures; each test has one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captured_file import FileShop
from captured_shop import MariaShop, Shop
from mariadb_server import MariaServer, program
from postgres_server import LOGICAL, Server, logical_server


def maria_server(*settings: str) -> MariaServer:
    """Whoever starts it removes it."""
    if program("mariadbd") is None:
        pytest.skip("there is no mariadbd; `make servers` installs it where it may")
    return MariaServer(*settings)


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
    server = maria_server()
    yield server
    server.remove()


@pytest.fixture
def maria(mariadb: MariaServer, tmp_path: Path) -> Iterator[MariaShop]:
    made = MariaShop(mariadb, tmp_path)
    yield made
    made.close()


@pytest.fixture
def file_shop(tmp_path: Path) -> Iterator[FileShop]:
    made = FileShop(tmp_path)
    yield made
    made.close()


@pytest.fixture
def any_shop(request: pytest.FixtureRequest) -> Shop | MariaShop | FileShop:
    """By the dialect that a test is parametrized with."""
    names = {"postgresql": "shop", "mariadb": "maria", "sqlite": "file_shop"}
    found: Shop | MariaShop | FileShop = request.getfixturevalue(names[request.param])
    return found


@pytest.fixture
def own_shop(tmp_path: Path) -> Iterator[Callable[..., Shop | MariaShop]]:
    """own_shop("mariadb") has a server that the test may stop; own_shop("postgresql", "-c …") one with these settings, by
    default of another version than the server that most tests share."""
    made: list[Shop | MariaShop] = []

    def start(dialect: str, *settings: str, major: int = 16) -> Shop | MariaShop:
        path = tmp_path / str(len(made))
        path.mkdir()
        if dialect == "mariadb":
            made.append(MariaShop(maria_server(*settings), path))
        else:
            made.append(Shop(logical_server(major, " ".join((LOGICAL, *settings))), path))
        return made[-1]

    yield start
    for shop in made:
        shop.close()
        shop.server.remove()
