"""Who reads a log, in groups: how members join, and what is known of them. Each log has its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from riverrun.durations import Duration
from riverrun.settings import Settings

if TYPE_CHECKING:
    from riverrun.log.consumer import Consumer
    from riverrun.log.coordination import Coordination
    from riverrun.log.queue import Queue
    from riverrun.log.topic import OpenTopic, Start, Topic


class Groups(Protocol):
    """The consumer groups of a river as one sees them from outside."""

    def list(self) -> list[dict[str, Any]]:
        """Every group with its kind ("consumer" or "queue"), topics, and number of live members; in order of names."""

    def describe(self, group: str) -> dict[str, Any]:
        """The group, its members with their partitions, and its lag."""

    def lag(self, group: str) -> dict[str, Any]:
        """The lag of the group, in rows and in seconds since the oldest of them was received."""

    def reset(self, group: str, topic: str, to: Start = None, force: bool = False) -> dict[int, int]:
        """Let the group go on at `to`. Refused while members are alive, unless by `force`. Gives the new offsets."""

    def drop(self, group: str) -> None:
        """Forget the group and how far it was. Refused while members are alive."""


class Readers(Protocol):
    """How a log is read in groups."""

    def consumer(
        self, group: str, topics: Callable[[], dict[str, Topic]], start: Start, timeout: float | None
    ) -> Consumer:
        """A member of a group that reads these topics; they are asked for again and again."""

    def queue(self, topic: Topic, open_topic: OpenTopic, group: str, lease: Duration, attempts: int) -> Queue:
        """A group that takes messages one by one."""

    def groups(self, open_topic: Callable[[str], Topic]) -> Groups:
        """All groups."""


class CoordinatedReaders:
    """Groups of the embedded log, and of the one in memory: all of it is in the coordination database."""

    def __init__(self, coordination: Coordination, settings: Settings) -> None:
        self._coordination = coordination
        self._settings = settings

    def consumer(
        self, group: str, topics: Callable[[], dict[str, Topic]], start: Start, timeout: float | None
    ) -> Consumer:
        from riverrun.log.coordinated_consumer import CoordinatedConsumer

        return CoordinatedConsumer(
            self._coordination, group, topics, start=start, timeout=timeout, settings=self._settings
        )

    def queue(self, topic: Topic, open_topic: OpenTopic, group: str, lease: Duration, attempts: int) -> Queue:
        from riverrun.log.queue import Queue

        return Queue(topic, group, self._coordination, open_topic, lease=lease, attempts=attempts)

    def groups(self, open_topic: Callable[[str], Topic]) -> Groups:
        from riverrun.log.groups import CoordinatedGroups

        return CoordinatedGroups(self._coordination, open_topic)
