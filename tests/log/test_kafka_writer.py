"""Transactions of a writer, on the brokers that the client itself can pretend to have: no server is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="the Kafka client is not installed")

import confluent_kafka

from riverrun.log.kafka.address import KafkaAddress
from riverrun.log.kafka.connection import KafkaConnection
from riverrun.log.kafka.messages import OutgoingMessages
from riverrun.log.kafka.writer import Writer
from riverrun.settings import Settings


@pytest.fixture
def connection() -> Iterator[KafkaConnection]:
    pretended = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = pretended.list_topics(timeout=10).brokers.values()
    made = KafkaConnection(KafkaAddress.parse(f"kafka://{broker.host}:{broker.port}"), Settings())
    yield made
    made.close()


def part(partition: int, first: int, count: int, headers: Any = None) -> OutgoingMessages:
    numbers = [str(number).encode() for number in range(first, first + count)]
    return OutgoingMessages(partition, numbers, numbers, headers)


def consumed(connection: KafkaConnection, topic: str, count: int) -> dict[int, list[Any]]:
    """The messages of each partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": connection.brokers, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(4)])
    found: dict[int, list[Any]] = {}
    for _ in range(count):
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        found.setdefault(message.partition(), []).append(message)
    consumer.close()
    return found


def test_one_report_for_some_messages_says_where_all_of_them_are(connection: KafkaConnection) -> None:
    writer = Writer(connection, "one")
    assert writer.write("t", [part(0, 0, 3), part(0, 3, 4), part(2, 0, 1)]) == {0: 6, 2: 0}
    assert writer.write("t", [part(2, 1, 2)]) == {2: 3}  # the commit before has taken an offset
    found = consumed(connection, "t", 10)
    assert [message.value() for message in found[0]] == [str(n).encode() for n in range(7)]
    assert [message.key() for message in found[2]] == [b"0", b"1", b"2"]
    assert all(message.headers() is None for messages in found.values() for message in messages)


def test_headers_go_with_their_messages(connection: KafkaConnection) -> None:
    writer = Writer(connection, "headers")
    writer.write("t", [part(1, 0, 3, [[("a", b"0")], None, [("a", b"2")]])])
    assert [message.headers() for message in consumed(connection, "t", 3)[1]] == [[("a", b"0")], None, [("a", b"2")]]


def test_what_comes_after_the_others_knows_where_they_are(connection: KafkaConnection) -> None:
    writer = Writer(connection, "marked")
    writer.write(
        "t",
        [part(0, 0, 5), part(3, 0, 2)],
        lambda last: ("marks", OutgoingMessages.one(0, b"k", str(sorted(last.items())).encode())),
    )
    assert consumed(connection, "marks", 1)[0][0].value() == b"[(0, 4), (3, 1)]"


def test_more_messages_than_the_client_holds_wait_for_room(
    connection: KafkaConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = connection.options
    monkeypatch.setattr(connection, "options", lambda **more: options(**{**more, "queue_buffering_max_messages": 50}))
    writer = Writer(connection, "large")
    assert writer.write("t", [part(0, 0, 700), part(1, 0, 300)]) == {0: 699, 1: 299}
    found = consumed(connection, "t", 1000)
    assert [message.value() for message in found[0]] == [str(n).encode() for n in range(700)]


def test_nothing_is_written_if_making_messages_fails(connection: KafkaConnection) -> None:
    def failing() -> Iterator[OutgoingMessages]:
        yield part(0, 0, 10)
        raise ValueError("no more")

    writer = Writer(connection, "failing")
    with pytest.raises(ValueError, match="no more"):
        writer.write("t", failing())
    assert not writer.is_open
    assert writer.write("t", [part(1, 0, 1)])[1] >= 0
