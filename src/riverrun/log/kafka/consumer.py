"""A member of one of Kafka's own groups, by the classic protocol: there a member that died is replaced after
`session.timeout.ms`, which is ours to say; in the newer one it is the broker's, 45 seconds.

Rows that were yielded and not committed come again when their partition goes to somebody else, also between live members:
commit before the next `poll`. A commit is all or nothing for the broker's group coordinator.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from riverrun.calls import answering
from riverrun.durations import Duration, seconds
from riverrun.errors import Fenced, OutOfRange, RiverrunError
from riverrun.habits import CONSUMER_METHODS
from riverrun.log.assignment import Slot
from riverrun.log.consumer import Consumer
from riverrun.log.coordinated_consumer import first_offsets
from riverrun.log.feed import row_ends
from riverrun.log.kafka.backend import KafkaBackend
from riverrun.log.kafka.client import kafka
from riverrun.log.kafka.cluster import Cluster
from riverrun.log.kafka.groups import KafkaGroups
from riverrun.log.kafka.messages import Incoming, understand
from riverrun.log.topic import Start, Topic
from riverrun.position import Position
from riverrun.settings import Settings

_SESSION_MS = 6000  # the least that brokers allow
_ROWS = 8 << 10
_REFRESH = 2.0  # seconds between two looks for new topics
_LOST = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID", "_ASSIGNMENT_LOST"}
_PASSING = {"_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_RESOLVE", "_MAX_POLL_EXCEEDED"}


@answering("consumer", CONSUMER_METHODS)
class KafkaConsumer(Consumer):
    """Offsets here are Riverrun's, as positions have them; Kafka's own are theirs without the bits for rows in a batch."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Callable[[], dict[str, Topic]],
        start: Start,
        timeout: float | None,
        settings: Settings,
    ) -> None:
        super().__init__(group, topics(), timeout)
        self._cluster = cluster
        self._connection = cluster.connection
        self._find_topics = topics
        self._reached: dict[Slot, int] = {}  # after everything that was yielded
        self._clean: dict[Slot, int] = {}  # where reading began, or what was committed since
        self._saved: set[Slot] = set()  # whether that is the group's offset
        self._lost: set[Slot] = set()
        self._waiting: deque[tuple[str, pa.RecordBatch]] = deque()
        self._behind: dict[Slot, int] = {}  # what lies behind those: commits, promises, what cannot be decoded
        self._using = threading.RLock()
        self._failure: Exception | None = None
        self._refresh_at = time.monotonic() + _REFRESH
        starts = first_offsets(start, self._topics)
        if starts:
            KafkaGroups(cluster, lambda name: self._topics[name]).begin(self.group, starts)
        self._consumer = kafka().Consumer(
            self._connection.options(
                group_id=self.group,
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="error",
                isolation_level="read_committed",
                enable_partition_eof=True,
                check_crcs=True,
                session_timeout_ms=_SESSION_MS,
                heartbeat_interval_ms=_SESSION_MS // 4,
                max_poll_interval_ms=max(settings.poll_limit // 1000, _SESSION_MS),
                partition_assignment_strategy="cooperative-sticky",
                fetch_wait_max_ms=50,
                fetch_queue_backoff_ms=10,
                queued_max_messages_kbytes=32 << 10,
            )
        )
        self._connection.at_close(weakref.WeakMethod(self.close))
        self._subscribe()

    @property
    def assignment(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name, partition in sorted(self._reached):
            found.setdefault(name, []).append(partition)
        return found

    @property
    def position(self) -> Position:
        found: dict[str, dict[int, int]] = {}
        for (name, partition), offset in self._reached.items():
            found.setdefault(name, {})[partition] = offset
        return Position(found)

    def poll(self, timeout: Duration | None = None) -> pa.RecordBatch | None:
        self._check_usable()
        limit = seconds(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        try:
            while not self._closed:
                if time.monotonic() >= self._refresh_at:
                    self._find()
                batch = self._take(deadline)
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    raise failure
                if batch is not None:
                    return batch
                if deadline is not None and time.monotonic() >= deadline:
                    return None
        except KeyboardInterrupt:
            self.close()
            raise
        except RuntimeError:  # another thread closed it
            if not self._closed:
                raise
        return None

    def commit(self, position: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self._check_usable()
        if position is None:
            offsets = {slot: offset for slot, offset in self._reached.items() if self._is_new(slot)}
            if self._lost:
                lost, self._lost = sorted(self._lost), set()
                raise self._fenced(f"{lost[0][0]}, partition {lost[0][1]}")
        else:
            offsets = {(topic, p): offset for topic, places in position.items() for p, offset in places.items()}
            self._check_position(offsets)
        if not offsets:
            return
        client = kafka()
        places = [
            client.TopicPartition(self._backend(name).topic, p, offset >> self._bits(name))
            for (name, p), offset in offsets.items()
        ]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
        except client.KafkaException as error:
            if error.args[0].name() in _LOST:
                self._lost.clear()  # said once
                raise self._fenced(error.args[0].str()) from None
            raise self._connection.failed(error, f"group {self.group}: the commit failed") from None
        refused = next((place for place in done or () if place.error is not None), None)
        if refused is not None:
            raise self._connection.failed(
                client.KafkaException(refused.error), f"group {self.group}: the commit of {refused.topic} failed"
            )
        self._clean |= {slot: offset for slot, offset in offsets.items() if slot in self._reached}
        self._saved |= self._clean.keys() & offsets.keys()

    def close(self) -> None:
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            with self._using, suppress(RuntimeError, kafka().KafkaException):  # another thread may be polling
                self._consumer.close()

    def _take(self, deadline: float | None) -> pa.RecordBatch | None:
        if not self._waiting:
            wait = 0.1 if deadline is None else max(0.0, min(0.1, deadline - time.monotonic()))
            with self._using:
                if self._closed:
                    return None
                first = self._consumer.poll(wait)
                found = [] if first is None else [first, *self._consumer.consume(_ROWS, 0)]
            self._sort(found)
        while self._waiting:
            name, batch = self._waiting.popleft()
            batch = self._still_ours(name, batch)
            if not self._waiting:
                self._pass_behind()
            if batch.num_rows:
                self.topic = name
                return batch
        return None

    def _pass_behind(self) -> None:
        """Everything that came is yielded: so is what has no rows."""
        for slot, offset in self._behind.items():
            if slot in self._reached:
                self._reached[slot] = max(self._reached[slot], offset << self._bits(slot[0]))
        self._behind.clear()

    def _still_ours(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of partitions that are still this member's, which are now yielded."""
        ends = row_ends(batch)
        lost = [partition for partition in ends if (name, partition) not in self._reached]
        for partition, offset in ends.items():
            if partition not in lost:
                self._reached[name, partition] = max(self._reached[name, partition], offset)
        if lost:
            batch = batch.filter(pa.array(~np.isin(batch.column("_partition").to_numpy(), lost)))
        return batch

    def _sort(self, messages: list[Any]) -> None:
        """Messages as batches, those of a topic together; what is behind the last one counts as read when it is."""
        errors = [message for message in messages if message.error() is not None]
        if errors:
            self._note(errors)
            messages = [message for message in messages if message.error() is None]
        names = [message.topic() for message in messages]
        for topic in dict.fromkeys(names):
            found = messages
            if names.count(topic) < len(names):
                found = [message for message, name in zip(messages, names, strict=True) if name == topic]
            self._decode(self._named(topic), found)
        if not self._waiting:
            self._pass_behind()

    def _note(self, errors: list[Any]) -> None:
        """What came instead of messages: ends of partitions, and what keeps them from being read."""
        client = kafka()
        for message in errors:
            error, name = message.error(), self._named(message.topic())
            if error.code() == client.KafkaError._PARTITION_EOF:
                self._behind[name, message.partition()] = message.offset()
            elif error.name() == "_AUTO_OFFSET_RESET":
                self._failure = OutOfRange(
                    f"topic {name}, partition {message.partition()}: group {self.group} is at an offset that is no longer kept",
                    hint=f"Go on at the earliest row: riverrun group reset {self.group} {name} --to earliest",
                )
            elif error.name() not in _PASSING:
                self._failure = self._connection.failed(client.KafkaException(error), f"group {self.group} cannot read")

    def _decode(self, name: str, messages: list[Any]) -> None:
        """The rows of a topic's messages, which wait to be yielded."""
        backend, incoming = self._backend(name), Incoming.of(messages)
        # Of a partition's offsets the last one stays.
        for partition, offset in dict(zip(incoming.partitions, incoming.offsets, strict=True)).items():
            self._behind[name, partition] = max(self._behind.get((name, partition), 0), offset + 1)
        understood = understand(incoming, backend.values)
        backend.undecodable += len(understood.undecodable)
        if understood.rows.num_rows:
            shown = backend.decoder().show(understood.rows)
            self._waiting.append((name, shown.replace_schema_metadata({b"topic": name.encode()})))

    def _is_new(self, slot: Slot) -> bool:
        return slot not in self._saved or self._reached[slot] != self._clean[slot]

    def _find(self) -> None:
        """Notice new topics, and those that were dropped."""
        self._refresh_at = time.monotonic() + _REFRESH
        topics = self._find_topics()
        if topics.keys() != self._topics.keys():
            self._topics = topics
            self._subscribe()

    def _subscribe(self) -> None:
        names = [self._backend(name).topic for name in self._topics]
        if names:
            self._consumer.subscribe(names, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _assigned(self, consumer: Any, places: list[Any]) -> None:
        """Go on where the group is. A place that is gone is an error, never a jump."""
        client = kafka()
        try:
            found = consumer.committed(places, timeout=self._connection.patience) if places else []
            committed = {(place.topic, place.partition): place.offset for place in found}
            for place in places:
                name, saved = self._named(place.topic), committed[place.topic, place.partition]
                begin = self._backend(name).begins()[place.partition] >> self._bits(name)
                if 0 <= saved < begin:
                    self._failure = OutOfRange(
                        f"topic {name}, partition {place.partition}: group {self.group} is at offset {saved}, which is no"
                        f" longer kept, only from {begin}",
                        hint=f"Go on there if the missing rows do not matter: riverrun group reset {self.group} {name} --to"
                        " earliest",
                    )
                place.offset = begin if saved < 0 else saved
                slot = (name, place.partition)
                self._reached[slot] = place.offset << self._bits(name)
                self._clean[slot] = self._reached[slot]
                (self._saved.add if saved >= 0 else self._saved.discard)(slot)
                self._lost.discard(slot)
            consumer.incremental_assign(places)
        except RiverrunError as error:
            self._failure = error
        except client.KafkaException as error:
            self._failure = self._connection.failed(error, f"group {self.group} cannot be read")

    def _revoked(self, consumer: Any, places: list[Any]) -> None:
        for place in places:
            slot = (self._named(place.topic), place.partition)
            if slot in self._reached and self._reached.pop(slot) != self._clean.pop(slot):
                self._lost.add(slot)
            self._behind.pop(slot, None)
        with suppress(kafka().KafkaException):
            consumer.incremental_unassign(places)

    def _backend(self, name: str) -> KafkaBackend:
        backend = self._topics[name].backend
        assert isinstance(backend, KafkaBackend)
        return backend

    def _bits(self, name: str) -> int:
        return self._backend(name).row_bits

    def _named(self, topic: str | None) -> str:
        return (topic or "").removeprefix(self._cluster.prefix)

    def _fenced(self, what: str) -> Fenced:
        return Fenced(
            f"group {self.group}: partitions went to another member before the commit ({what})",
            hint="Their rows are delivered again; go on with poll",
        )
