"""Topics in memory: what the contract suite does not say — the holder of several, and that groups work on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from riverrun.errors import Closed, Conflict, NotFound
from riverrun.log.groups import CoordinatedGroups
from riverrun.log.memory import MemoryLog
from riverrun.log.spec import TopicSpec

SCHEMA = "k string, n bigint"


@pytest.fixture
def log() -> Iterator[MemoryLog]:
    opened = MemoryLog()
    yield opened
    opened.close()


def test_topics_are_made_once_and_found_again(log: MemoryLog) -> None:
    made = log.topic("orders", SCHEMA, key="k", partitions=2)
    made.append({"k": "a", "n": 1})
    assert log.topic("orders").read().num_rows == 1
    assert log.topic(TopicSpec("orders", SCHEMA)).partitions == 2
    log.topic("users", SCHEMA)
    assert log.topics() == ["orders", "users"]


def test_a_mismatch_and_a_missing_topic_are_errors(log: MemoryLog) -> None:
    log.topic("orders", SCHEMA, key="k")
    with pytest.raises(Conflict, match="key"):
        log.topic("orders", SCHEMA, key="n")
    with pytest.raises(NotFound, match="Did you mean 'orders'"):
        log.topic("order")


def test_a_dropped_topic_is_gone(log: MemoryLog) -> None:
    topic = log.topic("orders", SCHEMA)
    log.drop_topic("orders")
    with pytest.raises(Closed):
        topic.append({"k": "a"})
    assert log.topic("orders", SCHEMA).latest == log.topic("orders").earliest
    with pytest.raises(NotFound):
        log.drop_topic("users")


def test_logs_know_nothing_of_each_other(log: MemoryLog) -> None:
    log.topic("t", SCHEMA).append({"n": 1})
    other = MemoryLog()
    assert other.topics() == []
    other.close()


def test_a_group_reads_commits_and_goes_on(log: MemoryLog) -> None:
    topic = log.topic("t", SCHEMA, partitions=2)
    for n in range(6):
        topic.append({"n": n})
    with topic.consumer("g", timeout=0) as consumer:
        assert sorted(n for batch in consumer for n in batch.column("n").to_pylist()) == list(range(6))
        consumer.commit()
    topic.append({"n": 6})
    with topic.consumer("g", timeout=0) as consumer:
        assert [n for batch in consumer for n in batch.column("n").to_pylist()] == [6]
    assert CoordinatedGroups(log.coordination, log.topic).lag("g")["rows"] == 1


def test_a_waiting_consumer_is_woken(log: MemoryLog) -> None:
    topic = log.topic("t", SCHEMA)
    with topic.consumer("g", timeout="20 seconds") as consumer, topic.producer(linger="30 ms") as producer:
        producer.send({"n": 1})
        assert next(consumer).column("n").to_pylist() == [1]
