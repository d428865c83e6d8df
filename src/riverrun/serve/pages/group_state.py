"""How consumer groups and queues are, for the pages: what the coordination knows, and the dead letters of queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from riverrun.errors import NotFound
from riverrun.serve.pages.dead_letters import count_dead
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html
from riverrun.serve.pages.readers import show_lag

_FRESH = 2.0  # seconds


@dataclass(frozen=True)
class TopicPart:
    """One partition of a topic that a group reads, and who has it."""

    topic: str
    partition: int
    said: dict[str, Any]
    holder: int | None  # the process


@dataclass(frozen=True)
class GroupState:
    """A group at a moment. `said` is what `Groups.describe` says; `dead` counts dead letters by their topic."""

    name: str
    said: dict[str, Any]
    dead: dict[str, int]

    @property
    def is_queue(self) -> bool:
        return bool(self.said["kind"] == "queue")

    @property
    def topics(self) -> list[str]:
        return list(self.said["topics"])

    @property
    def members(self) -> int:
        """Processes that work for it: the members of a group; of a queue, its workers, with messages or without."""
        return len({one["identity"] for one in self.said["workers"]}) if self.is_queue else len(self.said["members"])

    @property
    def in_flight(self) -> int:
        """Messages that a worker has now."""
        return sum(one["messages"] for one in self.said["workers"])

    @property
    def unfinished(self) -> int:
        """Messages that were handed out and are not done: in flight, or about to come again."""
        return sum(part.said.get("unfinished", 0) for part in self.partitions())

    @property
    def lost(self) -> int:
        """Rows that retention removed before they were read."""
        return sum(part.said["lost"] for part in self.partitions())

    @property
    def lag(self) -> Html:
        """In rows and in time, with a word."""
        return show_lag(self.said["rows"], self.said["seconds"])

    def partitions(self) -> Iterator[TopicPart]:
        """Every partition of every topic."""
        holders = {
            (topic, partition): member["process"]
            for member in self.said["members"]
            for topic, partitions in member["partitions"].items()
            for partition in partitions
        }
        for topic, lag in self.said["topics"].items():
            for partition, said in lag["partitions"].items():
                yield TopicPart(topic, partition, said, holders.get((topic, partition)))


def find_groups(history: History) -> list[GroupState]:
    """All of them, by name."""
    return history.remember("groups", _FRESH, lambda: list(_look_at_all(history)))


def look_at_group(history: History, name: str) -> GroupState:
    """One of them; `NotFound` names the nearest."""
    said = history.backend.river.groups.describe(name)
    topics = [f"{topic}.dead.{name}" for topic in said["topics"]] if said["kind"] == "queue" else []
    counts = {topic: count_dead(history, topic) for topic in topics}
    return GroupState(name, said, {topic: count for topic, count in counts.items() if count is not None})


def _look_at_all(history: History) -> Iterator[GroupState]:
    for one in history.backend.river.groups.list():
        try:
            yield look_at_group(history, one["group"])
        except NotFound:
            continue  # dropped meanwhile
