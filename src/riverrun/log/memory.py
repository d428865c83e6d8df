"""Topics in memory, for tests: the same promises as the embedded log, kept by one process and gone with it.

>>> log = MemoryLog()
>>> clicks = log.topic("clicks", "user string, n bigint", key="user", partitions=1)
>>> str(clicks.append([{"user": "ada", "n": 1}, {"user": "bob", "n": 2}]))
'clicks@0:2'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from riverrun.durations import wall_clock
from riverrun.errors import NotFound, did_you_mean
from riverrun.log.coordination import Coordination
from riverrun.log.memory_backend import MemoryBackend, StoredRows
from riverrun.log.spec import UNSET, TopicSpec, Unset
from riverrun.log.topic import Topic
from riverrun.settings import Settings


class MemoryLog:
    """Several topics in memory, with the groups that read them. `clock` says when rows are received, in µs."""

    def __init__(self, settings: Settings | None = None, clock: Callable[[], int] = wall_clock) -> None:
        self.settings = settings or Settings()
        self.coordination = Coordination(":memory:", create=True)
        self._clock = clock
        self._stored: dict[str, StoredRows] = {}
        self._topics: dict[str, Topic] = {}

    def topic(self, name: str | TopicSpec, schema: str | None = None, **options: Any) -> Topic:
        """Create or open a topic, as `River.topic` does."""
        if isinstance(name, TopicSpec):
            return self._open(name)
        return self._open(TopicSpec(name, UNSET if schema is None else schema, **options))

    def _open(self, spec: TopicSpec) -> Topic:
        stored = self._stored.get(spec.name)
        if stored is None:
            if isinstance(spec.schema, Unset):
                raise NotFound(f"there is no topic {spec.name!r}", hint=did_you_mean(spec.name, self._topics))
            stored = self._stored[spec.name] = StoredRows(spec.resolve(), self._clock)
        else:
            spec.check_same(stored.spec)
            grown = not isinstance(spec.schema, Unset) and stored.grow(spec.schema)
            if not grown and self._topics[spec.name].backend.is_open:
                return self._topics[spec.name]
        backend = MemoryBackend(stored, self.settings)
        self._topics[spec.name] = Topic(backend, self.coordination, self.settings, self._open)
        return self._topics[spec.name]

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def drop_topic(self, name: str) -> None:
        if name not in self._topics:
            raise NotFound(f"there is no topic {name!r}", hint=did_you_mean(name, self._topics))
        del self._stored[name]
        self._topics.pop(name).close()

    def close(self) -> None:
        for topic in self._topics.values():
            topic.close()
        self.coordination.close()
