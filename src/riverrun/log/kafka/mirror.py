"""A copy of a Kafka topic in a river's directory, exactly once: an append is whole or absent, its sequence is the offset of its
last message, and the topic says itself how far the copy is. A mirror that was overtaken by another one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from riverrun.errors import Conflict, Invalid, NotFound
from riverrun.log.frame import NO_SEQUENCE
from riverrun.log.kafka.address import KafkaAddress
from riverrun.log.kafka.backend import KafkaBackend
from riverrun.log.kafka.cluster import Cluster
from riverrun.log.kafka.entry import CatalogueEntry
from riverrun.log.producers import Claim
from riverrun.log.spec import UNSET, TopicSpec, Unset
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import OpenTopic, Topic
from riverrun.log.wake import Bell
from riverrun.settings import Settings


class Mirror:
    """Copies one topic. Nothing is written to Kafka, not even that its columns are known."""

    def __init__(
        self, address: str, spec: TopicSpec, open_topic: OpenTopic, settings: Settings, directory: str
    ) -> None:
        where = KafkaAddress.parse(address)
        if not where.topic:
            raise Invalid("which topic is to be copied is not said", hint="Write kafka://HOST:9092/TOPIC")
        self.rows = 0
        self._cluster = Cluster(where, settings, directory)
        try:
            self.source = KafkaBackend(self._cluster, self._entry(where.topic, spec))
            self.topic: Topic = open_topic(_target(spec, self.source.spec))
            self._claims = [self._begin(partition) for partition in range(self.source.spec.partitions)]
        except BaseException:
            self._cluster.close()
            raise

    @property
    def undecodable(self) -> int:
        """Messages that are no rows, which were passed over since the mirror began."""
        return self.source.undecodable

    def close(self) -> None:
        self._cluster.close()

    def step(self) -> int:
        """Copy what there is now. Gives how many rows."""
        ends, copied = self.source.ends(), 0
        for partition, claim in enumerate(self._claims):
            start = claim.sequence + 1 if claim.sequence != NO_SEQUENCE else self.source.begins()[partition]
            for batch in self.source.batches({partition: start}, {partition: ends[partition]}):
                last = batch.column("_offset")[-1].as_py()
                rows = batch.select(self._columns())
                self.topic.append(rows, producer=claim.name, sequence=last, fence=claim.fence)
                self._claims[partition] = replace(claim, sequence=last)
                copied += batch.num_rows
        self.rows += copied
        return copied

    def wait(self, timeout: float) -> None:
        """Return when there may be more, or the time is up."""
        before = self.source.ends()
        with Bell() as bell:
            self.source.attach(bell)
            bell.wait_until(lambda: self.source.ends() != before, timeout)

    def _columns(self) -> list[str]:
        hidden = ["_deleted"] if self.source.spec.time else ["_deleted", "_time"]
        return [*self.source.schema.names, *hidden]

    def _begin(self, partition: int) -> Claim:
        """Go on behind the last message that is copied, and shut out whoever copied before."""
        claim = self.topic.backend.take_over(f"mirror.{self.source.topic_id}.{partition}")
        first = self.source.begins()[partition]
        if claim.sequence != NO_SEQUENCE and claim.sequence + 1 < first:
            raise Conflict(
                f"topic {self.topic.name} has messages of partition {partition} up to {claim.sequence}, and Kafka keeps only"
                f" those from {first}",
                hint="Rows in between are lost to it; copy into another topic",
            )
        return claim

    def _entry(self, name: str, spec: TopicSpec) -> CatalogueEntry:
        topic = self._cluster.prefix + name
        state = self._cluster.connection.state(topic)
        if state is None:
            raise NotFound(f"Kafka at {self._cluster.connection.brokers} has no topic {topic!r}")
        self._cluster.catalog.refresh()
        found = CatalogueEntry.find(self._cluster.catalog, topic, name)
        if found is not None and found.id == state.id:
            return found
        if isinstance(spec.schema, Unset):
            raise Invalid(f"the columns of topic {topic!r} are not known", hint='Give them: --schema "user string, …"')
        named = replace(spec, name=name, partitions=state.partitions)
        stored = replace(named.resolve(), format="json" if isinstance(spec.format, Unset) else spec.format)
        return CatalogueEntry(state.id, True, stored, (stored.schema,))


def _target(spec: TopicSpec, source: StoredSpec) -> TopicSpec:
    """The copy has the source's columns, key, time and partitions; how long it keeps them is its own matter."""
    given: Mapping[str, Any] = {"key": source.key, "time": source.time, "partitions": source.partitions}
    return TopicSpec(spec.name, source.schema, **given, producers=source.producers or UNSET, null_keys=source.null_keys)
