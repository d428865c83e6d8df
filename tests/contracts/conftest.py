"""Every backend of the log passes the same tests. A new one is added to BACKENDS; nothing else changes.

A test may rely on what `riverrun.log.topic_backend` promises and no more. In particular there is no order between partitions,
and none of them expects a topic to know how many bytes it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from riverrun.log.catalogue import Catalogue
from riverrun.log.coordination import Coordination
from riverrun.log.memory import MemoryLog
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings

SCHEMA = "user string, n bigint, at timestamp"


class Log(Protocol):
    """What a test asks of a backend: open topics, and open them again as another process would."""

    def topic(self, name: str = "t", schema: str | None = SCHEMA, **options: Any) -> Topic: ...
    def reopened(self, name: str = "t") -> Topic: ...
    def close(self) -> None: ...


class Embedded:
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
    def __init__(self, path: Path, settings: Settings) -> None:
        self._log = MemoryLog(settings)

    def topic(self, name: str = "t", schema: str | None = SCHEMA, **options: Any) -> Topic:
        return self._log.topic(name, schema, **options)

    def reopened(self, name: str = "t") -> Topic:
        return self._log.topic(name)

    def close(self) -> None:
        self._log.close()


BACKENDS: dict[str, Callable[[Path, Settings], Log]] = {
    "embedded": lambda path, settings: Embedded(path, settings, fsync="os"),
    "embedded-durable-lz4": lambda path, settings: Embedded(path, settings, fsync="batch", compression="lz4"),
    "memory": Memory,
}


@pytest.fixture
def settings() -> Settings:
    """A test module overrides this for limits of its own."""
    return Settings()


@pytest.fixture(params=BACKENDS)
def log(request: pytest.FixtureRequest, tmp_path: Path, settings: Settings) -> Iterator[Log]:
    opened = BACKENDS[request.param](tmp_path, settings)
    yield opened
    opened.close()
