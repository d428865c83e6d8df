"""How topics on Kafka are read in groups: by Kafka's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from riverrun.durations import Duration
from riverrun.log.kafka.cluster import Cluster
from riverrun.log.kafka.refusals import refusal
from riverrun.settings import Settings

if TYPE_CHECKING:
    from riverrun.log.consumer import Consumer
    from riverrun.log.queue import Queue
    from riverrun.log.readers import Groups
    from riverrun.log.topic import OpenTopic, Start, Topic


class KafkaReaders:
    """Groups of a cluster."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings

    def consumer(
        self, group: str, topics: Callable[[], dict[str, Topic]], start: Start, timeout: float | None
    ) -> Consumer:
        from riverrun.log.kafka.consumer import KafkaConsumer

        return KafkaConsumer(self._cluster, group, topics, start, timeout, self._settings)

    def queue(self, topic: Topic, open_topic: OpenTopic, group: str, lease: Duration, attempts: int) -> Queue:
        raise refusal("queue", f"topic {topic.name}")

    def groups(self, open_topic: Callable[[str], Topic]) -> Groups:
        from riverrun.log.kafka.groups import KafkaGroups

        return KafkaGroups(self._cluster, open_topic)
