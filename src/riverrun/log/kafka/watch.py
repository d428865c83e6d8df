"""Being told that topics have new rows: one thread and one client of a process wait at the ends of those that are watched."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from riverrun.errors import RiverrunError
from riverrun.log.kafka.client import kafka
from riverrun.log.kafka.connection import KafkaConnection
from riverrun.log.wake import Bell

log = logging.getLogger("riverrun.log")

_WAIT_MS = 100  # the broker answers at once when something comes, and after this long when nothing does


class TopicWatch:
    """Rings bells. The thread ends when no bell is left, and begins again with the next one."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._bells: dict[str, weakref.WeakSet[Bell]] = {}
        self._new: dict[str, Mapping[int, int]] = {}
        self._thread: threading.Thread | None = None

    def add(self, topic: str, ends: Callable[[], Mapping[int, int]], bell: Bell) -> None:
        """Ring for what is appended from now on."""
        with self._lock:
            bells = self._bells.get(topic)
            if bells is None:
                # Where it is now: a client that finds the end itself may pass over what comes until it does.
                self._new[topic] = ends()
                bells = self._bells[topic] = weakref.WeakSet()
            bells.add(bell)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="riverrun-kafka-watch", daemon=True)
                self._thread.start()

    def ring(self, topic: str) -> None:
        """Wake whoever waits for a topic, in this process."""
        with self._lock:
            bells = list(self._bells.get(topic, ()))
        for bell in bells:
            bell.ring()

    def stop(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(5)

    def _run(self) -> None:
        client = kafka()
        consumer = client.Consumer(
            self._connection.options(
                group_id="riverrun",
                enable_auto_commit=False,
                auto_offset_reset="latest",
                isolation_level="read_committed",
                fetch_wait_max_ms=_WAIT_MS,
                fetch_queue_backoff_ms=10,
            )
        )
        watched: dict[str, int] = {}
        try:
            while not self._connection.closed and self._follow(consumer, watched):
                messages = consumer.consume(1000, 0) or [consumer.poll(0.2)]
                for topic in {message.topic() for message in messages if message is not None and not message.error()}:
                    self.ring(topic)
        except (RiverrunError, client.KafkaException) as error:
            log.warning("Kafka at %s is no longer watched: %s", self._connection.brokers, error)
        finally:
            with self._lock:
                self._thread = None
                self._bells.clear()
                self._new.clear()
            with suppress(client.KafkaException):
                consumer.close()

    def _follow(self, consumer: Any, watched: dict[str, int]) -> bool:
        """Take in topics that are new, and let go of those nobody waits for; False when there are none."""
        client = kafka()
        with self._lock:
            new, self._new = self._new, {}
            left = [topic for topic in watched if not self._bells.get(topic)]
            for topic in left:
                self._bells.pop(topic, None)
            if not self._bells:
                self._thread = None
                return False
        if left:
            consumer.incremental_unassign([client.TopicPartition(t, p) for t in left for p in range(watched.pop(t))])
        if new:
            places = [client.TopicPartition(t, p, offset) for t, ends in new.items() for p, offset in ends.items()]
            consumer.incremental_assign(places)
            watched |= {topic: len(ends) for topic, ends in new.items()}
        return True
