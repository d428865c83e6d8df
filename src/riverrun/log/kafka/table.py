"""A compacted topic as a table: the newest value of every key, brought up to date before it is relied on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from riverrun.log.kafka.connection import KafkaConnection
from riverrun.log.kafka.messages import OutgoingMessages
from riverrun.log.kafka.reader import read_messages
from riverrun.log.kafka.writer import Superseded, Writer
from riverrun.log.partitioner import partition_of

_TRIES = 10
_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "message.timestamp.type": "LogAppendTime"}


class StoredValue(NamedTuple):
    """A value, and when (µs) it was written."""

    value: bytes
    received: int


class CompactedTable:
    """The table of one topic. It is made when it is first written to; until then it is empty."""

    def __init__(self, connection: KafkaConnection, topic: str, partitions: int) -> None:
        self.topic = topic
        self.rows: dict[bytes, StoredValue] = {}
        self._partitions = partitions
        self._connection = connection
        self._next = dict.fromkeys(range(partitions), 0)
        self._lock = threading.RLock()
        self._writer = Writer(connection, f"riverrun.{topic}")
        self._exists = False

    def partition(self, key: bytes) -> int:
        return partition_of(key, self._partitions)

    def make(self) -> None:
        """Make the topic, if it is not there."""
        if not self._exists:
            self._exists = self._connection.state(self.topic) is not None
        if not self._exists:
            self._connection.create(self.topic, self._partitions, _CONFIG)
            self._exists = True

    def refresh(self, only: Iterable[int] | None = None) -> None:
        """Take in everything that was committed before this call, in some partitions or all.

        What was committed may lie behind a transaction of somebody else that is still open: that one is waited for.
        """
        with self._lock:
            if not self._exists and self._connection.state(self.topic) is None:
                return
            self._exists = True
            wanted = list(self._next if only is None else only)
            last = self._connection.offsets(self.topic, self._partitions, "last")
            if all(self._next[p] >= last[p] for p in wanted):
                return

            def is_settled() -> bool:
                stable = self._connection.offsets(self.topic, self._partitions, "stable")
                return all(stable[p] >= last[p] for p in wanted)

            self._connection.wait_for(is_settled, f"{self.topic}: another transaction is still open")
            start, end = {p: self._next[p] for p in wanted}, {p: last[p] for p in wanted}
            for messages in read_messages(self._connection, self.topic, start, end):
                for message in messages:
                    if message.value() is None:
                        self.rows.pop(message.key(), None)
                    else:
                        self.rows[message.key()] = StoredValue(message.value(), message.timestamp()[1] * 1000)
            self._next |= end

    def update(self, key: bytes, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Put what `change` makes of the newest value (None: leave it) in its place. Nobody else comes in between: who
        writes holds the table's transactional id, and reads again after taking it."""
        with self._lock, self._writer.lock:
            self.make()
            for _ in range(_TRIES):
                held = self._writer.is_open
                if not held:
                    self.refresh()
                    change(self._value(key))  # what it refuses, it refuses before anybody is disturbed
                    self._writer.open()
                self.refresh()
                value = change(self._value(key))
                if value is None:
                    return self._value(key)
                try:
                    self._writer.write(self.topic, [OutgoingMessages.one(self.partition(key), key, value)])
                except Superseded:
                    self._writer.close()
                    continue
                return value
            raise self._busy()

    def remove(self, key: bytes) -> None:
        """Forget a key."""
        with self._lock, self._writer.lock:
            self.make()
            for _ in range(_TRIES):
                try:
                    self._writer.write(self.topic, [OutgoingMessages.one(self.partition(key), key, None)])
                except Superseded:
                    self._writer.close()
                    continue
                return
            raise self._busy()

    def _value(self, key: bytes) -> bytes | None:
        found = self.rows.get(key)
        return found.value if found else None

    def _busy(self) -> Exception:
        from riverrun.errors import Busy

        return Busy(f"{self.topic}: other processes write all the time", hint="Try again")
