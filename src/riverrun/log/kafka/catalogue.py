"""The topics of a Kafka cluster that Riverrun knows: making, opening, listing and dropping them.

What a topic is (schema, key, time, format) is in the compacted topic `riverrun.catalog`, for every river of the cluster. A topic
that others made is opened by giving its schema, and then known too. An unknown one is found by asking for it: a client that
just begins to read or write would wait for it to appear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from riverrun.columns import check_name
from riverrun.durations import micros
from riverrun.errors import Conflict, Corrupt, Invalid, NotFound, did_you_mean
from riverrun.log.coordination import Coordination
from riverrun.log.kafka.backend import KafkaBackend
from riverrun.log.kafka.client import kafka
from riverrun.log.kafka.cluster import CATALOG, Cluster
from riverrun.log.kafka.connection import TopicState
from riverrun.log.kafka.entry import CatalogueEntry
from riverrun.log.kafka.markers import MARKERS
from riverrun.log.kafka.readers import KafkaReaders
from riverrun.log.kafka.refusals import refusal
from riverrun.log.spec import UNSET, TopicSpec, Unset
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import Topic
from riverrun.settings import Settings

_LEAST = 1 << 20  # messages of a batch that clients put together go up to a million bytes


class KafkaCatalogue:
    """Topics of one cluster, those whose names begin with the address's prefix. `open_topic` is how they reach each other."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        coordination: Coordination,
        open_topic: Callable[[TopicSpec], Topic] | None = None,
    ) -> None:
        self._cluster = cluster
        self._connection = cluster.connection
        self._settings = settings
        self._coordination = coordination
        self._open_topic = open_topic or self.open

    def names(self) -> list[str]:
        self._cluster.catalog.refresh()
        named = (key.decode() for key in list(self._cluster.catalog.rows))
        return sorted(n.removeprefix(self._cluster.prefix) for n in named if n.startswith(self._cluster.prefix))

    def open(self, spec: TopicSpec) -> Topic:
        """Open the topic, make it if it is not there yet, and let its schema grow if the spec adds columns."""
        _check(spec)
        if spec.format is None:  # the spec of a topic elsewhere, where it means nothing
            spec = replace(spec, format=UNSET)
        topic = self._topic(spec.name)
        self._cluster.catalog.refresh()
        entry = CatalogueEntry.find(self._cluster.catalog, topic, spec.name)
        state = self._connection.state(topic)
        if entry is not None and state is None:
            raise Corrupt(
                f"topic {spec.name} is in the catalogue, but Kafka at {self._connection.brokers} has no topic {topic!r}",
                hint=f"Somebody has deleted it; forget it: riverrun topic drop {spec.name}",
            )
        if entry is None or (state is not None and entry.id != state.id):
            entry = self._known(spec, topic, state)
        spec.check_same(entry.spec)
        if state is not None and state.partitions != entry.spec.partitions:
            raise Conflict(
                f"topic {spec.name} has {state.partitions} partitions at Kafka, and had {entry.spec.partitions} when it was"
                " first opened: rows of a key may be in two of them, and those in new ones would not be read",
                hint=f"Forget it and open it anew (riverrun topic drop {spec.name} forgets what others made), or copy it",
            )
        if not isinstance(spec.schema, Unset) and spec.schema != entry.spec.schema:
            entry = self._grown(topic, spec.name, spec.schema)
        readers = KafkaReaders(self._cluster, self._settings)
        backend = KafkaBackend(self._cluster, entry)
        return Topic(backend, self._coordination, self._settings, self._open_topic, readers)

    def drop(self, name: str) -> None:
        """Delete the topic, and forget it. One that others made is only forgotten."""
        topic = self._topic(name)
        if name not in (known := self.names()):
            raise NotFound(f"there is no topic {name!r}", hint=did_you_mean(name, known))
        try:
            entry = CatalogueEntry.find(self._cluster.catalog, topic, name)
        except Corrupt:
            entry = None
        state = self._connection.state(topic)
        if entry is not None and state is not None and not entry.foreign and entry.id == state.id:
            self._connection.ask(
                lambda: self._connection.admin.delete_topics([topic], request_timeout=self._connection.answer_time),
                f"topic {name} cannot be deleted",
            )
            self._connection.wait_for(lambda: self._connection.state(topic) is None, f"topic {name} is still there")
        self._cluster.catalog.remove(topic.encode())
        self._cluster.catalog.refresh()

    def _known(self, spec: TopicSpec, topic: str, state: TopicState | None) -> CatalogueEntry:
        """Make a topic that is not there, or take in one that is; in any case there is an entry afterwards."""
        if isinstance(spec.schema, Unset):
            if state is not None:
                raise NotFound(
                    f"topic {spec.name} of Kafka at {self._connection.brokers} was made by somebody else, and its columns"
                    " are not known",
                    hint='Give them: river.topic("orders", "user string, at timestamp", …)',
                )
            raise NotFound(f"there is no topic {spec.name!r}", hint=did_you_mean(spec.name, self.names()))
        stored, foreign = replace(spec.resolve(), format=_format(spec)), state is not None
        if state is None:
            foreign = not self._connection.create(topic, stored.partitions, self._config(stored))
            state = self._connection.require(topic, spec.name)
        if foreign:
            stored = replace(stored, **self._settings_of(topic), partitions=state.partitions)
            spec.check_same(stored)
        fresh = CatalogueEntry(state.id, foreign, stored, (stored.schema,))

        def first(value: bytes | None) -> bytes | None:
            if value is not None and CatalogueEntry.read(value, spec.name).id == state.id:
                return None  # somebody else was faster
            return fresh.write()

        written = self._cluster.catalog.update(topic.encode(), first)
        return CatalogueEntry.read(written or b"", spec.name)

    def _grown(self, topic: str, name: str, schema: str) -> CatalogueEntry:
        """The entry with new columns as its next version."""

        def next_version(value: bytes | None) -> bytes | None:
            if value is None:
                raise NotFound(f"there is no topic {name!r}", hint=did_you_mean(name, self.names()))
            entry = CatalogueEntry.read(value, name)
            grown = entry.spec.grow(schema)
            if grown is None:
                return None
            return replace(entry, spec=grown, versions=(*entry.versions, grown.schema)).write()

        known = CatalogueEntry.find(self._cluster.catalog, topic, name)
        if known is not None and known.spec.grow(schema) is None:
            return known
        return CatalogueEntry.read(self._cluster.catalog.update(topic.encode(), next_version) or b"", name)

    def _config(self, spec: StoredSpec) -> dict[str, Any]:
        """How Kafka is to keep a topic."""
        kept = -1 if spec.retention is None else micros(spec.retention) // 1000
        return {
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": ",".join(["compact"] * spec.compact + ["delete"] * (kept >= 0 or not spec.compact)),
            "retention.ms": kept,
            "retention.bytes": -1 if spec.retention_bytes is None else spec.retention_bytes,
            "delete.retention.ms": self._settings.tombstone_grace // 1000,
            # A row may be longer in JSON than in memory.
            "max.message.bytes": max(_LEAST, 2 * self._settings.max_record_bytes + (64 << 10)),
            "compression.type": spec.compression or "producer",
        }

    def _settings_of(self, topic: str) -> dict[str, Any]:
        """How Kafka keeps a topic that others made."""
        client = kafka()
        resource = client.admin.ConfigResource(client.admin.ConfigResource.Type.TOPIC, topic)
        (found,) = self._connection.ask(
            lambda: self._connection.admin.describe_configs([resource], request_timeout=self._connection.answer_time),
            f"the settings of topic {topic} cannot be read",
            topic,
        ).values()
        kept, size = int(found["retention.ms"].value), int(found["retention.bytes"].value)
        policy = found["cleanup.policy"].value
        return {
            "retention": timedelta(milliseconds=kept) if kept >= 0 and "delete" in policy else None,
            "retention_bytes": size if size >= 0 else None,
            "compact": "compact" in policy,
        }

    def _topic(self, name: str) -> str:
        check_name(name)
        topic = self._cluster.prefix + name
        if topic in (CATALOG, MARKERS) or topic.startswith("__"):
            raise Invalid(f"topic {name}: the name is taken, by Riverrun or by Kafka itself", hint="Use another name")
        return topic


def _format(spec: TopicSpec) -> str:
    return "json" if isinstance(spec.format, Unset) or spec.format is None else spec.format


def _check(spec: TopicSpec) -> None:
    """Refuse what topics on Kafka cannot be."""
    subject = f"topic {spec.name}"
    if spec.versions is True:
        raise refusal("versions", subject)
    if not isinstance(spec.archive, Unset) and spec.archive is not None:
        raise refusal("archive", subject)
    if not isinstance(spec.fsync, Unset) and spec.fsync != "batch":
        raise refusal("fsync", subject)
    if spec.compact is True and spec.format == "arrow":
        raise Invalid(
            f'{subject}: format="arrow" puts many rows into one message, and Kafka compacts messages',
            hint='Use format="json" or "avro"',
        )
