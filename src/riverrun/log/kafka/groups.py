"""The consumer groups of a Kafka cluster, as its brokers know them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from riverrun.columns import check_name
from riverrun.errors import Busy, NotFound, RiverrunError, did_you_mean
from riverrun.log.assignment import Slot
from riverrun.log.groups import total_lag
from riverrun.log.kafka.backend import KafkaBackend
from riverrun.log.kafka.client import kafka
from riverrun.log.kafka.cluster import Cluster
from riverrun.log.kafka.entry import CatalogueEntry
from riverrun.log.topic import Start, Topic


class KafkaGroups:
    """All groups of a cluster that read topics of this river; those that never committed and have no members are none."""

    def __init__(self, cluster: Cluster, open_topic: Callable[[str], Topic]) -> None:
        self._cluster = cluster
        self._connection = cluster.connection
        self._open = open_topic

    def list(self) -> list[dict[str, Any]]:
        found = []
        for name in self._names():
            topics = self._committed(name)
            if topics:
                members = len(self._described(name).members)
                found.append({"group": name, "kind": "consumer", "topics": sorted(topics), "members": members})
        return found

    def describe(self, group: str) -> dict[str, Any]:
        lag, described = self.lag(group), self._described(group)
        members = []
        for member in described.members:
            owned: dict[str, list[int]] = {}
            for place in member.assignment.topic_partitions:
                owned.setdefault(place.topic.removeprefix(self._cluster.prefix), []).append(place.partition)
            members.append(
                {
                    "member": member.member_id,
                    "process": None,
                    "seconds": None,
                    "topics": sorted(owned),
                    "partitions": owned,
                    "host": member.host,
                }
            )
        return {**lag, "kind": "consumer", "generation": None, "members": members, "workers": []}

    def lag(self, group: str) -> dict[str, Any]:
        """Rows are counted by offsets, so commits of transactions count with them; where nothing but those is left it is 0."""
        self._check_known(group)
        topics = {}
        for name, committed in sorted(self._committed(group).items()):
            try:
                topics[name] = _topic_lag(self._open(name), committed)
            except NotFound:
                continue  # dropped meanwhile
        return {"group": group, **total_lag(topics.values()), "topics": topics}

    def reset(self, group: str, topic: str, to: Start = None, force: bool = False) -> dict[int, int]:
        """With `force` members are not moved: Kafka refuses it while there are any."""
        check_name(group, "group")
        opened = self._open(topic)
        offsets = opened.offsets(to)
        opened.check_range(offsets)
        self._check_unused(group)
        self._put(group, {(topic, partition): offset for partition, offset in offsets.items()})
        return offsets

    def drop(self, group: str) -> None:
        self._check_known(group)
        self._check_unused(group)
        self._ask("delete_consumer_groups", [group], f"group {group} cannot be dropped")

    def begin(self, group: str, starts: Mapping[Slot, int]) -> None:
        """Let a group that nobody is in begin there; one that has members goes on where it is."""
        if group not in self._names() or not self._described(group).members:
            self._put(group, starts)

    def _put(self, group: str, offsets: Mapping[Slot, int]) -> None:
        client = kafka()
        places = [
            client.TopicPartition(backend.topic, p, offset >> backend.row_bits)
            for (name, p), offset in offsets.items()
            if isinstance(backend := self._open(name).backend, KafkaBackend)
        ]
        moved = client.ConsumerGroupTopicPartitions(group, places)
        self._ask("alter_consumer_group_offsets", [moved], f"group {group} cannot be moved")

    def _committed(self, group: str) -> dict[str, dict[int, int]]:
        """Kafka's offsets by topic of this river."""
        asked = kafka().ConsumerGroupTopicPartitions(group)
        what = f"the offsets of group {group} cannot be read"
        (found,) = self._ask("list_consumer_group_offsets", [asked], what).values()
        self._cluster.catalog.refresh()
        topics: dict[str, dict[int, int]] = {}
        for place in found.topic_partitions:
            name = place.topic.removeprefix(self._cluster.prefix)
            known = place.topic.startswith(self._cluster.prefix) and self._entry(place.topic, name) is not None
            if known and place.offset >= 0:
                topics.setdefault(name, {})[place.partition] = place.offset
        return topics

    def _entry(self, topic: str, name: str) -> CatalogueEntry | None:
        try:
            return CatalogueEntry.find(self._cluster.catalog, topic, name)
        except RiverrunError:
            return None

    def _names(self) -> Sequence[str]:
        limit = self._connection.answer_time
        found = self._connection.ask(
            lambda: {"all": self._connection.admin.list_consumer_groups(request_timeout=limit)},
            "groups cannot be listed",
        )["all"]
        if found.errors and not found.valid:
            raise self._connection.failed(found.errors[0], "groups cannot be listed")
        return sorted(one.group_id for one in found.valid)

    def _described(self, group: str) -> Any:
        return self._ask("describe_consumer_groups", [group], f"group {group} cannot be looked at")[group]

    def _ask(self, call: str, asked: Sequence[Any], what: str) -> dict[Any, Any]:
        limit = self._connection.answer_time
        return self._connection.ask(lambda: getattr(self._connection.admin, call)(asked, request_timeout=limit), what)

    def _check_known(self, group: str) -> None:
        known = self._names()
        if group not in known:
            raise NotFound(f"there is no group {group!r}", hint=did_you_mean(group, known))

    def _check_unused(self, group: str) -> None:
        if group in self._names() and (members := self._described(group).members):
            hosts = ", ".join(sorted({member.host for member in members}))
            raise Busy(f"group {group} is in use by {len(members)} members on {hosts}", hint="Stop its consumers first")


def _topic_lag(topic: Topic, committed: Mapping[int, int]) -> dict[str, Any]:
    backend = topic.backend
    assert isinstance(backend, KafkaBackend)
    bits = backend.row_bits
    earliest, latest = topic.begins(), topic.ends()
    partitions: dict[int, dict[str, Any]] = {}
    for p in range(topic.partitions):
        saved = committed[p] << bits if p in committed else None
        low = max(earliest[p], earliest[p] if saved is None else saved)
        # Behind the last row there may be its commit, which nobody has to read.
        first = topic.first_received(p, low, latest[p]) if latest[p] > low else None
        partitions[p] = {
            "committed": saved,
            "latest": latest[p],
            "rows": 0 if first is None else (latest[p] - low) >> bits,
            "seconds": 0.0 if first is None else max(0.0, time.time() - first / 1e6),
            "lost": 0 if saved is None else max(0, earliest[p] - saved) >> bits,
        }
    return {**total_lag(partitions.values()), "partitions": partitions}
