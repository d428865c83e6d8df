"""A transactional producer: what it is given is in the log whole, or not at all.

A commit whose answer is lost is not repeated and not given up: whether it happened is looked up in the log. `Superseded` is
raised only where nothing was written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice, repeat
from typing import Any

from riverrun.errors import Fenced, RiverrunError, Transient, Unavailable
from riverrun.log.kafka.client import is_superseded, kafka
from riverrun.log.kafka.connection import LEFT_TO_THE_PARENT, KafkaConnection
from riverrun.log.kafka.messages import OutgoingMessages
from riverrun.log.kafka.reader import read_messages

# Whoever dies in a transaction keeps readers from what others write behind it for this long, and up to as long again.
_TRANSACTION_MS = 15_000
# What is given in a loop goes in few large requests. A flush does not wait for it, and every transaction ends with one.
_LINGER_MS = 5
_LARGEST_MESSAGE = 64 << 20  # the topic's own limit is what counts

Place = tuple[str, int]  # topic and partition


class Superseded(Fenced):
    """Somebody else writes under this transactional id now. Nothing of this transaction is in the log."""


class OutcomeUnknown(Unavailable):
    """Whether a transaction was committed cannot be found out: no broker answers."""


class Writer:
    """Writes under one transactional id, one transaction at a time."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self.lock = threading.RLock()
        self._connection = connection
        self._name = name
        self._producer: Any = None
        self._pid = 0

    @property
    def is_open(self) -> bool:
        """Whether nobody else is known to have begun under this id since `open`."""
        if self._producer is not None and self._pid != os.getpid():
            LEFT_TO_THE_PARENT.append(self._producer)
            self._producer = None
        return self._producer is not None

    def open(self) -> None:
        """Take the id: who had it before can commit nothing more, and what it left open is undone."""
        self._connection.check()
        options = self._connection.options(
            transactional_id=self._name,
            transaction_timeout_ms=_TRANSACTION_MS,
            message_max_bytes=_LARGEST_MESSAGE,
            linger_ms=_LINGER_MS,
            queue_buffering_max_messages=200_000,
            queue_buffering_max_kbytes=256 << 10,
        )
        producer = kafka().Producer(options)
        deadline = time.monotonic() + self._connection.patience
        while True:
            try:
                producer.init_transactions(max(0.1, deadline - time.monotonic()))
                break
            except kafka().KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._connection.failed(error, f"writing as {self._name} cannot begin") from None
                time.sleep(0.05)
        self._producer, self._pid = producer, os.getpid()

    def close(self) -> None:
        self._producer = None

    def write(
        self,
        topic: str,
        messages: Iterable[OutgoingMessages],
        then: Callable[[Mapping[int, int]], tuple[str, OutgoingMessages] | None] = lambda _: None,
    ) -> dict[int, int]:
        """One transaction: the messages, and what `then` makes of their last offsets, by partition, which it gives."""
        if not self.is_open:
            self.open()
        producer = self._producer
        last: dict[Place, int] = {}
        try:
            producer.begin_transaction()
            self._produce(topic, messages, last)
            self._flush(topic)
            further = then({partition: offset for (_, partition), offset in last.items()})
            if further is not None:
                self._produce(further[0], [further[1]], last)
        except kafka().KafkaException as error:
            self._undo()
            if is_superseded(error):
                raise Superseded(f"somebody else writes as {self._name} to Kafka now") from None
            raise self._connection.failed(error, f"topic {topic}: nothing was appended", topic) from None
        except BaseException:
            self._undo()
            raise
        self._commit(topic, last)
        return {partition: offset for (where, partition), offset in last.items() if where == topic}

    def _produce(self, topic: str, messages: Iterable[OutgoingMessages], last: dict[Place, int]) -> None:
        """Hand messages to the client. A report on the last ones of a partition says where all of them are."""
        failed: list[Any] = []

        def report(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                last[topic, message.partition()] = message.offset()

        for some in messages:
            self._hand_over(topic, some, report)
        self._failed = failed

    def _hand_over(self, topic: str, some: OutgoingMessages, report: Callable[[Any, Any], None]) -> None:
        """This is what each row costs: the client takes arguments by place in a third of the time it takes them by name."""
        produce, partition, end = self._producer.produce, some.partition, len(some.values) - 1
        for key, value, headers in islice(zip(some.keys, some.values, some.headers or repeat(None), strict=False), end):
            try:
                if headers is None:
                    produce(topic, value, key, partition)
                else:
                    produce(topic, value, key, partition, headers=headers)
            except BufferError:
                self._insist(topic, partial(produce, topic, value, key, partition, headers=headers))
        headers = some.headers[end] if some.headers else None
        final = partial(
            produce, topic, some.values[end], some.keys[end], partition, headers=headers, on_delivery=report
        )
        try:
            final()
        except BufferError:
            self._insist(topic, final)

    def _insist(self, topic: str, produce: Callable[[], None]) -> None:
        """The client holds as much as it may: when some of it has left, it takes this."""
        deadline = time.monotonic() + self._connection.patience
        while True:
            self._producer.poll(0.1)
            try:
                return produce()
            except BufferError:
                if time.monotonic() > deadline:
                    raise Transient(
                        f"topic {topic}: nothing was appended: Kafka at {self._connection.brokers} takes no messages",
                        hint="Is the broker running?",
                    ) from None

    def _flush(self, topic: str) -> None:
        deadline = time.monotonic() + self._connection.patience
        while self._producer.flush(max(0.0, min(1.0, deadline - time.monotonic()))):
            # A client waits for a topic that is not there, in case it will be.
            if not self._connection.said:
                with suppress(Transient):
                    self._connection.require(topic, topic)
            if time.monotonic() >= deadline:
                raise Transient(
                    f"topic {topic}: nothing was appended: Kafka at {self._connection.brokers} has not confirmed the"
                    f" messages within {self._connection.patience:g} s"
                    + (f" ({self._connection.said})" if self._connection.said else ""),
                    hint="Is the broker running?",
                )
        if self._failed:
            raise kafka().KafkaException(self._failed[0])

    def _commit(self, topic: str, last: Mapping[Place, int]) -> None:
        deadline = time.monotonic() + self._connection.patience
        while True:
            try:
                self._producer.commit_transaction(max(0.1, deadline - time.monotonic()))
                return
            except kafka().KafkaException as error:
                found = error.args[0]
                if found.txn_requires_abort():
                    self._undo()
                    raise self._connection.failed(error, f"topic {topic}: nothing was appended", topic) from None
                if found.retriable() and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                self._resolve(topic, last, error)
                return

    def _resolve(self, topic: str, last: Mapping[Place, int], error: BaseException) -> None:
        """Find out whether a commit without an answer has happened; it has if this returns."""
        self._producer = None
        (where, partition), offset = next(iter(last.items()))
        try:
            if not is_superseded(error):
                self.open()  # which waits for what is under way, or undoes it
            stable = self._settled(where, partition, offset)
            found = read_messages(self._connection, where, {partition: offset}, {partition: min(offset + 1, stable)})
            committed = any(message.offset() == offset for chunk in found for message in chunk)
        except RiverrunError as failure:
            self._producer = None
            raise OutcomeUnknown(
                f"topic {topic}: whether the rows were appended is not known, since Kafka at {self._connection.brokers}"
                f" went away while it was told to ({failure.message})",
                hint="Append with producer= and sequence=; then the same append again has no effect if it was done",
            ) from None
        if not committed:
            if is_superseded(error):
                raise Superseded(f"somebody else writes as {self._name} to Kafka now")
            raise self._connection.failed(error, f"topic {topic}: nothing was appended", topic) from None

    def _settled(self, topic: str, partition: int, offset: int) -> int:
        """The stable end, once it has passed an offset whose transaction is over."""
        stable = 0

        def passed() -> bool:
            nonlocal stable
            stable = self._connection.offsets(topic, partition + 1, "stable")[partition]
            return stable > offset

        self._connection.wait_for(passed, f"topic {topic}: offset {offset} is not settled")
        return stable

    def _undo(self) -> None:
        """Leave the transaction, and give the producer up: after a message that failed its count of messages is wrong, and
        the next transaction would fail, too. Where no broker can be told, it undoes what was begun by itself."""
        with suppress(kafka().KafkaException):
            self._producer.abort_transaction(min(2.0, self._connection.patience))
        with suppress(kafka().KafkaException):
            self._producer.purge()
        self._producer = None
