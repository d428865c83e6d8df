"""The clients of one Kafka cluster, shared by everything that a river opens there."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from riverrun.errors import Closed, NotFound
from riverrun.log.kafka.address import KafkaAddress
from riverrun.log.kafka.client import is_moving, kafka, translated
from riverrun.settings import Settings

log = logging.getLogger("riverrun.log")

# What librdkafka does not tell in errors of its own calls comes here; one line of each kind is enough.
_QUIET = logging.getLogger("riverrun.log.kafka.client")
_QUIET.setLevel(logging.CRITICAL)


# Clients that a fork brought along. They are kept: to end one would wait for threads that are not here.
LEFT_TO_THE_PARENT: list[Any] = []


class TopicState(NamedTuple):
    """A topic as the brokers have it. One that is deleted and made again has another id."""

    id: str
    partitions: int


class KafkaConnection:
    """Made with the river; clients are made when they are first used, and again after a fork."""

    def __init__(self, address: KafkaAddress, settings: Settings) -> None:
        self.address = address
        self.brokers = address.brokers
        self.settings = settings
        self.patience = settings.kafka_timeout / 1e6
        self.answer_time = min(3.0, self.patience)  # that one question may take
        self._options = {
            **address.client_options(),
            "logger": _QUIET,
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 30_000,
        }
        kafka()  # what is not installed is told here
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._admin: Any = None
        self._idle: dict[bool, list[Any]] = {True: [], False: []}
        self._closing: list[Callable[[], Any]] = []
        self._closed = False
        self._said = ""  # the last thing a client could not do

    def check(self) -> None:
        """`Closed` after `close`. In a fork the parent's clients are let alone: their threads are not here."""
        if self._pid != os.getpid():
            LEFT_TO_THE_PARENT.extend([self._admin, *self._idle[True], *self._idle[False]])
            self._start()
        if self._closed:
            raise Closed(f"the connection to Kafka at {self.brokers} is closed")

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def said(self) -> str:
        """Why a broker cannot be reached, as a client has last told."""
        return self._said

    def options(self, **more: Any) -> dict[str, Any]:
        """The settings of a client."""

        def remember(error: Any) -> None:
            self._said = error.str()

        return {**self._options, "error_cb": remember, **{name.replace("_", "."): more[name] for name in more}}

    def at_close(self, act: Callable[[], Callable[[], None] | None]) -> None:
        """Call what this gives, if it is still there, when the connection is closed."""
        with self._lock:
            self._closing.append(act)

    @property
    def admin(self) -> Any:
        """The one administrator's client: a temporary one would be gone before its answers."""
        self.check()
        with self._lock:
            if self._admin is None:
                self._admin = kafka().admin.AdminClient(self.options())
            return self._admin

    def ask(self, call: Callable[[], Mapping[Any, Any]], what: str, topic: str | None = None) -> dict[Any, Any]:
        """The results of a call of the administrator's client; asked again while brokers sort out who answers. One question
        may be lost on a broker that was just started: it is not waited for as long as patience lasts."""
        deadline, pause = time.monotonic() + self.patience, 0.005
        while True:
            try:
                return {key: future.result(timeout=self.answer_time + 5) for key, future in call().items()}
            except kafka().KafkaException as error:
                if not is_moving(error) or time.monotonic() > deadline:
                    raise self.failed(error, what, topic) from None
                self._forget_admin()
            time.sleep(pause)
            pause = min(pause * 2, 0.2)

    def _forget_admin(self) -> None:
        """Take another client for the next question: one that has lost its broker may not find it again."""
        with self._lock:
            self._admin = None

    def failed(self, error: BaseException, what: str, topic: str | None = None) -> Exception:
        """A client's error as ours, with why no broker can be reached, if that is it."""
        made = translated(error, what, self.brokers, topic)
        if self._admin is not None and not self._closed:
            self._admin.poll(0)  # which lets it tell why
        if self._said and "does not answer" in made.message:
            made.message = f"{made.message.rpartition(' (')[0]} ({self._said})"
            made.args = (f"{made.message}. {made.hint}",)
        return made

    def names(self) -> list[str]:
        """All topics of the cluster."""
        try:
            return sorted(self.admin.list_topics(timeout=self.patience).topics)
        except kafka().KafkaException as error:
            raise self.failed(error, "the topics cannot be listed") from None

    def state(self, topic: str) -> TopicState | None:
        """The topic as it is now; None: there is none. Asked for, since a client that writes to an unknown one waits."""
        asked, limit = kafka().TopicCollection([topic]), self.answer_time
        try:
            found = self.ask(
                lambda: self.admin.describe_topics(asked, request_timeout=limit),
                f"topic {topic} cannot be looked at",
                topic,
            )[topic]
        except NotFound:
            return None
        return TopicState(str(found.topic_id), len(found.partitions))

    def create(self, topic: str, partitions: int, config: Mapping[str, Any]) -> bool:
        """Make a topic; False if somebody else has. Returns when it can be used."""
        client = kafka()
        plain = {name: str(value) for name, value in config.items()}
        new = client.admin.NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=plain)
        (future,) = self.admin.create_topics([new], request_timeout=self.patience).values()
        made = True
        try:
            future.result()
        except client.KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise self.failed(error, f"topic {topic} cannot be made") from None
            made = False
        # The broker that is asked next may not have heard of it yet.
        self.wait_for(lambda: self.state(topic) is not None, f"topic {topic} was made, and is not there")
        return made

    def wait_for(self, happened: Callable[[], bool], otherwise: str) -> None:
        """Look until it has happened; `Transient` when patience ends."""
        from riverrun.errors import Transient

        deadline, pause = time.monotonic() + self.patience, 0.001
        while not happened():
            if time.monotonic() > deadline:
                raise Transient(f"{otherwise} after {self.patience:g} s", hint=f"Kafka at {self.brokers} is slow")
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    def offsets(self, topic: str, partitions: int, which: str) -> dict[int, int]:
        """Offsets of every partition: "first", "stable" (readers see what lies before it) or "last" (written so far)."""
        client = kafka()
        level = "READ_UNCOMMITTED" if which == "last" else "READ_COMMITTED"
        spec = client.admin.OffsetSpec.earliest() if which == "first" else client.admin.OffsetSpec.latest()
        found = self.list_offsets(topic, partitions, spec, getattr(client.IsolationLevel, level))
        return {partition: result.offset for partition, result in found.items()}

    def list_offsets(self, topic: str, partitions: int, spec: Any, isolation: Any = None) -> dict[int, Any]:
        """What brokers say of every partition of a topic: offset and timestamp."""
        client, level = kafka(), {} if isolation is None else {"isolation_level": isolation}
        places = {client.TopicPartition(topic, p): spec for p in range(partitions)}
        what, limit = f"the offsets of topic {topic} cannot be read", self.answer_time
        deadline = time.monotonic() + self.patience
        while True:
            found = self.ask(lambda: self.admin.list_offsets(places, request_timeout=limit, **level), what, topic)
            # A partition whose broker did not answer in time has no error, and no offset either.
            if all(result.offset != client.OFFSET_INVALID for result in found.values()):
                return {place.partition: result for place, result in found.items()}
            if time.monotonic() > deadline:
                raise self.failed(client.KafkaException(client.KafkaError(client.KafkaError._TIMED_OUT)), what, topic)
            self._forget_admin()

    @contextmanager
    def reader(self, committed: bool = True) -> Iterator[Any]:
        """A consumer to assign partitions to, kept for the next one who wants it: a new one takes long to begin. Not
        `committed`, it sees messages of transactions that are open, too."""
        self.check()
        idle = self._idle[committed]
        with self._lock:
            consumer = idle.pop() if idle else None
        if consumer is None:
            consumer = kafka().Consumer(
                self.options(
                    group_id="riverrun",  # none is joined
                    enable_auto_commit=False,
                    auto_offset_reset="error",
                    isolation_level="read_committed" if committed else "read_uncommitted",
                    enable_partition_eof=True,
                    check_crcs=True,
                    fetch_wait_max_ms=10,
                    fetch_queue_backoff_ms=10,
                    queued_max_messages_kbytes=32 << 10,
                )
            )
        try:
            yield consumer
        finally:
            try:
                consumer.unassign()
            except kafka().KafkaException:
                consumer.close()
            else:
                with self._lock:
                    keep = not self._closed and len(idle) < 4
                    if keep:
                        idle.append(consumer)
                if not keep:
                    consumer.close()

    def require(self, topic: str, shown: str) -> TopicState:
        """The state of a topic that must be there."""
        state = self.state(topic)
        if state is None:
            raise NotFound(
                f"topic {shown}: Kafka at {self.brokers} has no topic {topic!r} any more",
                hint=f"Somebody has deleted it; forget it with: riverrun topic drop {shown}, and make it again",
            )
        return state

    def close(self) -> None:
        """Let go of all clients; a second close does nothing."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            acts, idle = self._closing, [*self._idle[True], *self._idle[False]]
            self._closing, self._idle = [], {True: [], False: []}
        for found in acts:
            act = found()
            if act is not None:
                act()
        for consumer in idle:
            consumer.close()
        self._admin = None
