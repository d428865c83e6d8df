"""Reading ranges of partitions: messages as they lie in Kafka, a bounded number at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from riverrun.errors import Transient
from riverrun.log.kafka.client import kafka
from riverrun.log.kafka.connection import KafkaConnection

_MESSAGES = 16 << 10
_BYTES = 8 << 20
_FETCHED = 4096


def read_messages(
    connection: KafkaConnection, topic: str, start: Mapping[int, int], end: Mapping[int, int]
) -> Iterator[list[Any]]:
    """The messages from `start` to before `end`, which no partition's stable end lies before. Those of a partition are in
    order; where they are few, partitions follow one another.

    Offsets have gaps (each commit takes one, aborted messages theirs), so a partition is done when the client is behind
    its end, or at the end of what can be read: never by its last message.
    """
    client = kafka()
    left = {p: end[p] for p in start if start[p] < end.get(p, start[p])}
    if not left:
        return
    with connection.reader() as consumer:
        consumer.assign([client.TopicPartition(topic, p, start[p]) for p in left])
        gathered: list[Any] = []
        size = 0
        deadline = time.monotonic() + connection.patience
        while left:
            came = _next(connection, consumer)
            if came:
                deadline = time.monotonic() + connection.patience
            elif time.monotonic() > deadline:
                raise _silence(connection, topic)
            done = _ended(connection, topic, [message for message in came if message.error() is not None], left)
            came = [message for message in came if message.error() is None]
            partitions = [message.partition() for message in came]
            offsets = [message.offset() for message in came]
            reached = dict(zip(partitions, offsets, strict=True))  # the last one of each
            if any(p not in left or offset >= left[p] for p, offset in reached.items()):
                places = zip(came, partitions, offsets, strict=True)
                came = [message for message, p, offset in places if p in left and offset < left[p]]
            gathered += came
            size += sum(map(len, came))
            done += [p for p, offset in reached.items() if p in left and offset >= left[p] - 1]
            gone = [p for p in dict.fromkeys(done) if left.pop(p, None) is not None]
            if gone and left:
                consumer.incremental_unassign([client.TopicPartition(topic, p) for p in gone])
            if len(gathered) >= _MESSAGES or size >= _BYTES:
                yield sorted(gathered, key=_partition)
                gathered, size = [], 0
                deadline = time.monotonic() + connection.patience
        if gathered:
            yield sorted(gathered, key=_partition)


def first_message(
    connection: KafkaConnection, topic: str, partition: int, offset: int, committed: bool = True
) -> Any | None:
    """The first message at or behind an offset, also of an open transaction where not only `committed` ones count; None where
    there is none. `Transient` where nobody answers: that is not the same."""
    client = kafka()
    with connection.reader(committed) as consumer:
        consumer.assign([client.TopicPartition(topic, partition, offset)])
        deadline = time.monotonic() + connection.patience
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            connection.check()
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message
            if error.name() in ("_PARTITION_EOF", "_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                return None
            _check(connection, topic, error)
    raise _silence(connection, topic)


def _ended(connection: KafkaConnection, topic: str, errors: list[Any], left: Mapping[int, int]) -> list[int]:
    """The partitions whose stable end is behind what is wanted of them. Raises what keeps them from being read."""
    done = []
    for message in errors:
        if message.error().code() == kafka().KafkaError._PARTITION_EOF:
            if message.offset() >= left.get(message.partition(), 0):
                done.append(message.partition())
        else:
            _check(connection, topic, message.error())
    return done


def _check(connection: KafkaConnection, topic: str, error: Any) -> None:
    """Raise what keeps a topic from being read; a broker that is away may come back."""
    if error.name() not in ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_RESOLVE"):
        raise connection.failed(kafka().KafkaException(error), f"topic {topic} cannot be read", topic)


def _silence(connection: KafkaConnection, topic: str) -> Transient:
    return Transient(
        f"topic {topic}: Kafka at {connection.brokers} has sent nothing for {connection.patience:g} s"
        + (f" ({connection.said})" if connection.said else ""),
        hint="Is the broker running?",
    )


def _partition(message: Any) -> int:
    return int(message.partition())


def _next(connection: KafkaConnection, consumer: Any) -> list[Any]:
    """What has come, waiting a moment where nothing has. `consume` alone would wait for as many as it is asked for."""
    first = consumer.poll(0.1)
    connection.check()
    return [] if first is None else [first, *consumer.consume(_FETCHED, 0)]
