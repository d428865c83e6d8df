"""Every backend of the log passes the same tests, and so does every view store. A new one is added to BACKENDS or to
STORES; nothing else changes.

A test may rely on what `riverrun.log.topic_backend` or `riverrun.views.store` promises and no more. In particular there is no
order between partitions, and none of the tests expects a topic to know how many bytes it takes.
"""

from __future__ import annotations

import atexit
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest

from kafka_server import shared_kafka
from postgres_server import shared_server
from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.memory import MemoryLog
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings
from riverrun.views import Store
from riverrun.views.sql.postgres import PostgresDatabase
from riverrun.views.sql.sqlite import SqliteDatabase
from riverrun.views.sql.sqlstore import SqlStore

SCHEMA = "user string, n bigint, at timestamp"


@dataclass(frozen=True)
class Ways:
    """In what a log is otherwise than the embedded one. All there is of this is said here; tests ask for it."""

    gaps: bool = False  # a commit takes an offset, too: a position is last row + 1, and the end lies behind it
    piecemeal: bool = False  # a batch becomes visible one partition after the other, in each of them whole
    refused: frozenset[str] = frozenset()  # calls that are answered with an error that says what to use instead


KAFKAS_WAYS = Ways(
    gaps=True, piecemeal=True, refused=frozenset({"offsets_at", "queue", "versions", "compact", "enforce_retention"})
)


class Log(Protocol):
    """What a test asks of a backend: open topics, and open them again as another process would."""

    ways: Ways

    def topic(self, name: str = "t", schema: str | None = SCHEMA, **options: Any) -> Topic: ...
    def reopened(self, name: str = "t") -> Topic: ...
    def close(self) -> None: ...


class Embedded:
    ways = Ways()

    def __init__(self, path: Path, settings: Settings, **defaults: Any) -> None:
        self._coordination = Coordination(f"{path}/coordination.db", create=True)
        self._catalogue = Catalogue(f"{path}/topics", settings, self._coordination)
        self._defaults = defaults
        self._opened: list[Topic] = []

    def topic(self, name: str = "t", schema: str | None = SCHEMA, **options: Any) -> Topic:
        spec = TopicSpec(name) if schema is None else TopicSpec(name, schema, **{**self._defaults, **options})
        topic = self._catalogue.open(spec)
        self._opened.append(topic)
        return topic

    def reopened(self, name: str = "t") -> Topic:
        return self.topic(name, None)

    def close(self) -> None:
        for topic in self._opened:
            topic.close()
        self._coordination.close()


class Memory:
    ways = Ways()

    def __init__(self, path: Path, settings: Settings) -> None:
        self._log = MemoryLog(settings)

    def topic(self, name: str = "t", schema: str | None = SCHEMA, **options: Any) -> Topic:
        return self._log.topic(name, schema, **options)

    def reopened(self, name: str = "t") -> Topic:
        return self._log.topic(name)

    def close(self) -> None:
        self._log.close()


_prefixes = (f"contract-{number}." for number in itertools.count())


class OnKafka:
    """Topics of a real broker. Each test has names of its own there; they are opened again by another connection."""

    ways = KAFKAS_WAYS

    def __init__(self, path: Path, settings: Settings) -> None:
        from riverrun.log.kafka.catalogue import KafkaCatalogue

        self._coordination = Coordination(f"{path}/coordination.db", create=True)
        prefix = next(_prefixes)
        self._first, self._second = (
            KafkaCatalogue(_named(_connected(settings, number), prefix, path), settings, self._coordination)
            for number in range(2)
        )

    def topic(self, name: str = "t", schema: str | None = SCHEMA, **options: Any) -> Topic:
        return self._first.open(TopicSpec(name) if schema is None else TopicSpec(name, schema, **options))

    def reopened(self, name: str = "t") -> Topic:
        return self._second.open(TopicSpec(name))

    def close(self) -> None:
        for name in self._first.names():
            self._first.drop(name)
        self._coordination.close()


@cache
def _connected(settings: Settings, number: int) -> Any:
    """Kept for all tests: a transactional producer takes half a second to begin."""
    from riverrun.log.kafka.address import KafkaAddress
    from riverrun.log.kafka.cluster import Cluster

    made = Cluster(KafkaAddress.parse(shared_kafka().url), settings, "")
    atexit.register(made.close)
    return made


def _named(cluster: Any, prefix: str, path: Path) -> Any:
    """The same cluster, for topics whose names begin with the prefix."""
    other = copy.copy(cluster)
    other.prefix, other.directory = prefix, str(path)
    return other


BACKENDS: dict[str, Callable[[Path, Settings], Log]] = {
    "embedded": lambda path, settings: Embedded(path, settings, fsync="os"),
    "embedded-durable-lz4": lambda path, settings: Embedded(path, settings, fsync="batch", compression="lz4"),
    "memory": Memory,
    "kafka": OnKafka,
}


@pytest.fixture
def settings() -> Settings:
    """A test module overrides this for limits of its own."""
    return Settings()


@pytest.fixture(params=BACKENDS)
def log(request: pytest.FixtureRequest, tmp_path: Path, settings: Settings) -> Iterator[Log]:
    opened = BACKENDS[request.param](tmp_path, settings)
    used = {call for mark in request.node.iter_markers("uses") for call in mark.args}
    if refused := used & opened.ways.refused:
        opened.close()
        pytest.skip(f"{request.param} refuses {', '.join(sorted(refused))}, by name")
    yield opened
    opened.close()


@dataclass(frozen=True)
class ViewStores:
    """Opens one view store, as often as a test likes. `mark` is how its SQL writes a parameter."""

    open: Callable[..., Store]
    mark: str


_schemas = (f'Odd "schema" {number}' for number in itertools.count())


def _sqlite(directory: Path) -> ViewStores:
    return ViewStores(lambda **options: SqlStore(SqliteDatabase(directory / "views.db"), **options), "?")


def _postgres(directory: Path) -> ViewStores:
    schema = next(_schemas)
    return ViewStores(lambda **options: SqlStore(PostgresDatabase(shared_server().url, schema=schema), **options), "%s")


STORES: dict[str, Callable[[Path], ViewStores]] = {"sqlite": _sqlite, "postgres": _postgres}


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> ViewStores:
    return STORES[request.param](tmp_path)


@pytest.fixture
def again(stores: ViewStores, request: pytest.FixtureRequest) -> Callable[..., Store]:
    """Opens the store of the test once more."""

    def opened(**options: Any) -> Store:
        store = stores.open(**options)
        request.addfinalizer(store.close)
        return store

    return opened


@pytest.fixture
def store(again: Callable[..., Store]) -> Store:
    return again()


@pytest.fixture
def short(again: Callable[..., Store]) -> Store:
    """A store that keeps changes for a minute."""
    return again(changes_kept="1 minute")


@pytest.fixture
def mark(stores: ViewStores) -> str:
    return stores.mark
