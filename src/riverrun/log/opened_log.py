"""Where a river's topics are: in its directory, or on Kafka. Everything above sees the same `Topic`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from riverrun.errors import Invalid
from riverrun.log.coordination import Coordination
from riverrun.log.readers import CoordinatedReaders, Readers
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import OpenTopic, Topic
from riverrun.settings import Settings


class LogCatalogue(Protocol):
    """The topics of a log: making, opening, listing and dropping them."""

    def names(self) -> list[str]: ...
    def open(self, spec: TopicSpec) -> Topic: ...
    def drop(self, name: str) -> None: ...


@dataclass(frozen=True)
class OpenedLog:
    """A log that is open. `address` is where it is, without what is secret in it; None: in the river's directory."""

    catalogue: LogCatalogue
    readers: Readers
    address: str | None = None
    close: Callable[[], None] = lambda: None


def named_variables(address: str | None) -> list[str]:
    """The variables of the environment that the address of a log names."""
    if not address:
        return []
    from riverrun.log.kafka.address import named_variables

    return named_variables(address)


def open_log(
    address: str | None, directory: str, settings: Settings, coordination: Coordination, open_topic: OpenTopic
) -> OpenedLog:
    """The log at an address, by default the one in the river's directory."""
    if not address:
        from riverrun.log.catalogue import Catalogue

        topics = Catalogue(f"{directory}/topics", settings, coordination, open_topic)
        return OpenedLog(topics, CoordinatedReaders(coordination, settings))
    if not address.startswith("kafka://"):
        where = f"{address.partition('://')[0]}://…" if "://" in address else "what is given"
        raise Invalid(
            f"the log cannot be in {where}", hint="Write kafka://HOST:9092, or leave it out: then it is the directory"
        )
    from riverrun.log.kafka.address import KafkaAddress
    from riverrun.log.kafka.catalogue import KafkaCatalogue
    from riverrun.log.kafka.cluster import Cluster
    from riverrun.log.kafka.readers import KafkaReaders

    cluster = Cluster(KafkaAddress.parse(address), settings, directory)
    catalogue = KafkaCatalogue(cluster, settings, coordination, open_topic)
    return OpenedLog(catalogue, KafkaReaders(cluster, settings), cluster.connection.address.public, cluster.close)
