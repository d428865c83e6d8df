"""Dead letters are counted until they are sent again, and sent again once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from riverrun.errors import NotFound
from riverrun.log.redelivery import DeadLetterTopic, Resent
from riverrun.log.topic import Topic
from riverrun.river import River


@pytest.fixture
def river(tmp_path: Path) -> Iterator[River]:
    with River(tmp_path / "river") as river:
        yield river


@pytest.fixture
def topic(river: River) -> Topic:
    return river.topic("mails", "k string, n bigint", key="k", partitions=2, fsync="os")


def fail(topic: Topic, group: str = "send") -> list[int]:
    """Every message of the topic's queue becomes a dead letter; which ones it were."""
    failed = []
    with topic.queue(group, attempts=1) as queue:
        while message := queue.receive(timeout=0):
            failed.append(message.row["n"])
            message.nack("no such address")
    return sorted(failed)


def test_dead_letters_are_listed_and_counted_after_everybody_has_gone(
    river: River, topic: Topic, tmp_path: Path
) -> None:
    topic.append([{"k": f"k{n}", "n": n} for n in range(5)])
    assert river.dead_letters.topics() == []
    assert fail(topic) == [0, 1, 2, 3, 4]
    river.topic("shop.dead", "n bigint")  # somebody's own
    with River(tmp_path / "river") as another:
        (found,) = another.dead_letters.topics()
        assert found == DeadLetterTopic("mails.dead.send", "queue", "mails", "send", rows=5, waiting=5)
        assert another.dead_letters.waiting("mails.dead.send") == 5
        assert another.dead_letters.waiting("other.dead.send") == 0


def test_a_queue_gets_its_dead_letters_again_once_and_no_other_group_does(river: River, topic: Topic) -> None:
    topic.append([{"k": f"k{n}", "n": n} for n in range(5)])
    fail(topic)
    with topic.queue("audit") as audit:
        while message := audit.receive(timeout=0):
            message.ack()
        assert river.dead_letters.send_again("mails.dead.send") == Resent("mails.dead.send", 5)
        assert river.dead_letters.send_again("mails.dead.send") == Resent("mails.dead.send", 0)
        assert audit.receive(timeout=0) is None
    with topic.queue("send", attempts=2) as queue:
        messages = list(iter(lambda: queue.receive(timeout=0), None))
        assert sorted((m.row["n"], m.attempt) for m in messages) == [(n, 1) for n in range(5)]
        for message in messages[1:]:
            message.ack()
        messages[0].nack()
        again = queue.receive(timeout=0)
        assert again is not None
        again.nack("still not")
    assert river.dead_letters.topics()[0].waiting == 1
    assert river.dead_letters.topics()[0].rows == 6
    assert river.lag("send")["rows"] == 0


def test_what_retention_removed_or_a_reset_brings_anyway_is_not_handed_out_twice(river: River, topic: Topic) -> None:
    topic.append([{"k": f"k{n}", "n": n} for n in range(4)])
    fail(topic)
    river.groups.reset("send", "mails", "earliest")
    river.dead_letters.send_again("mails.dead.send")
    with topic.queue("send") as queue:
        messages = list(iter(lambda: queue.receive(timeout=0), None))
        assert sorted(message.row["n"] for message in messages) == [0, 1, 2, 3]
        for message in messages:
            message.ack()
        assert queue.receive(timeout=0) is None


def test_topics_that_are_none_and_groups_that_are_gone_are_refused(river: River, topic: Topic) -> None:
    topic.append({"k": "a", "n": 1})
    fail(topic)
    with pytest.raises(NotFound, match=r"no topic of dead letters 'mails'. There are: mails.dead.send"):
        river.dead_letters.send_again("mails")
    river.groups.drop("send")
    with pytest.raises(NotFound, match="there is no group send any more that takes topic mails as a queue"):
        river.dead_letters.send_again("mails.dead.send")


def test_letters_that_somebody_wrote_by_hand_hold_nobody_up(river: River, topic: Topic) -> None:
    topic.append({"k": "a", "n": 1})
    assert fail(topic) == [1]
    dead = river.topic("mails.dead.send")
    for position in (None, "nonsense", "other@0:7", "mails@9:0"):
        dead.append({"k": "a", "n": 7, "dead_position": position})
    assert river.dead_letters.send_again("mails.dead.send") == Resent("mails.dead.send", rows=1, gone=1)
    with topic.queue("send") as queue:
        message = queue.receive(timeout=5)
        assert message is not None and message.row["n"] == 1


def test_counting_dead_letters_keeps_no_topic_open(tmp_path: Path, river: River, topic: Topic) -> None:
    topic.append({"k": "a", "n": 1})
    fail(topic)
    with River(tmp_path / "river") as another:
        assert len(another.dead_letters.topics()) == 1
        assert another._topics == {}
