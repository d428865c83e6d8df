"""Producers: a repeated sequence has no effect, an older fence is refused, a name can be taken over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from contracts.conftest import Log
from riverrun.errors import Conflict, Fenced, Invalid
from riverrun.log.frame import NO_SEQUENCE
from riverrun.settings import Settings

AT = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def settings() -> Settings:
    return Settings(max_producers=5)


def row(n: int, user: str = "ada") -> dict[str, Any]:
    return {"user": user, "n": n, "at": AT}


def test_a_repeat_has_no_effect_and_gives_the_first_position(log: Log) -> None:
    topic = log.topic(key="user", partitions=2)
    first = topic.append([row(1), row(2, "bob")], producer="app", sequence=7)
    topic.append([row(3)])
    assert topic.append([row(1), row(2, "bob")], producer="app", sequence=7) == first
    assert sorted(topic.read().column("n").to_pylist()) == [1, 2, 3]


def test_sequences_may_have_gaps_and_an_older_one_is_a_repeat(log: Log) -> None:
    topic = log.topic(partitions=1)
    topic.append([row(1)], producer="app", sequence=0)
    topic.append([row(2)], producer="app", sequence=10)
    topic.append([row(3)], producer="app", sequence=5)
    assert topic.read().column("n").to_pylist() == [1, 2]


def test_a_repeat_is_known_after_reopening(log: Log) -> None:
    first = log.topic().append([row(1)], producer="app", sequence=3)
    again = log.reopened()
    assert again.append([row(1)], producer="app", sequence=3) == first
    assert again.read().num_rows == 1


def test_producers_are_told_apart(log: Log) -> None:
    topic = log.topic()
    for name in ("a", "b", "ü"):
        topic.append([row(1)], producer=name, sequence=1)
    assert topic.read().num_rows == 3


def test_a_producer_without_sequences_repeats_itself(log: Log) -> None:
    topic = log.topic()
    topic.append([row(1)], producer="app")
    topic.append([row(1)], producer="app")
    assert topic.read().num_rows == 2


def test_an_older_fence_is_refused(log: Log) -> None:
    topic = log.topic()
    topic.append([row(1)], producer="run", sequence=1, fence=4)
    topic.append([row(2)], producer="run", sequence=2, fence=5)
    with pytest.raises(Fenced, match=r"'run' with fence 4 was superseded by fence 5"):
        topic.append([row(3)], producer="run", sequence=3, fence=4)
    with pytest.raises(Fenced):
        topic.append([row(3)], producer="run", sequence=3)
    assert topic.read().num_rows == 2


def test_a_fence_can_be_raised_without_rows(log: Log) -> None:
    topic = log.topic()
    topic.append([row(1)], producer="run", sequence=1, fence=1)
    before = topic.latest
    topic.raise_fence("run", 2)
    assert topic.latest == before
    with pytest.raises(Fenced):
        log.reopened().append([row(2)], producer="run", sequence=2, fence=1)
    topic.append([row(2)], producer="run", sequence=2, fence=2)


def test_a_fence_of_one_producer_does_not_concern_another(log: Log) -> None:
    topic = log.topic()
    topic.raise_fence("a", 9)
    topic.append([row(1)], producer="b", sequence=1, fence=1)
    topic.append([row(2)])
    assert topic.read().num_rows == 2


def test_taking_over_a_name(log: Log) -> None:
    topic = log.topic()
    first = topic.backend.take_over("app")
    assert first.sequence == NO_SEQUENCE
    topic.append([row(1)], producer="app", sequence=41, fence=first.fence)
    second = log.reopened().backend.take_over("app")
    assert (second.name, second.sequence) == ("app", 41)
    assert second.fence > first.fence
    with pytest.raises(Fenced):
        topic.append([row(2)], producer="app", sequence=42, fence=first.fence)
    topic.append([row(2)], producer="app", sequence=42, fence=second.fence)
    assert topic.read().num_rows == 2


def test_the_last_sequence_of_a_producer(log: Log) -> None:
    topic = log.topic()
    assert topic.last_sequence("app") is None
    topic.append([row(1)], producer="app", sequence=0)
    assert topic.last_sequence("app") == 0
    topic.append([row(1)], producer="app", sequence=17)
    topic.append([row(1)], producer="app")
    assert log.reopened().last_sequence("app") == 17


@pytest.mark.parametrize("name", ["", 7, "\ud800", "shop-\udcff"])
def test_what_is_not_a_name_is_refused(log: Log, name: Any) -> None:
    topic = log.topic()
    for refused in (
        lambda: topic.append([row(1)], producer=name, sequence=1),
        lambda: topic.raise_fence(name, 1),
        lambda: topic.last_sequence(name),
    ):
        with pytest.raises(Invalid, match="producer must be a name"):
            refused()
    assert topic.latest == topic.earliest


def test_names_of_producers_are_bounded(log: Log, settings: Settings) -> None:
    """Every writer keeps them in memory, for days, and every segment begins with them."""
    topic = log.topic(partitions=1)
    for n in range(settings.max_producers):
        topic.append(row(n), producer=f"device-{n}", sequence=1)
    with pytest.raises(Conflict, match=f"remembers {settings.max_producers} producers, and 'one-more' .*max_producers"):
        topic.append(row(90), producer="one-more", sequence=1)
    topic.append(row(91), producer="device-0", sequence=2)
    topic.raise_fence("shop", 1)  # those with a fence are few, and not kept out by the others
    topic.append(row(92), producer="shop", sequence=1, fence=1)
    assert topic.last_sequence("shop") == 1
    assert 90 not in topic.read().column("n").to_pylist()


@pytest.mark.parametrize(
    "arguments",
    [
        {"sequence": 1},
        {"fence": 1},
        {"producer": "", "sequence": 1},
        {"producer": "a", "sequence": -1},
        {"producer": "a", "sequence": True},
        {"producer": "a", "sequence": 1.0},
        {"producer": "a", "sequence": 1 << 62},
        {"producer": "a", "fence": "1"},
        {"producer": 5, "sequence": 1},
    ],
)
def test_arguments_that_make_no_sense(log: Log, arguments: dict[str, Any]) -> None:
    topic = log.topic()
    with pytest.raises(Invalid):
        topic.append([row(1)], **arguments)
    assert topic.latest == topic.earliest


def test_numbers_from_before_the_first_fence_do_not_count(log: Log) -> None:
    """Whoever used the name before a flow had it makes none of the flow's rows disappear."""
    topic = log.topic(partitions=1)
    topic.append([row(0)], producer="shop", sequence=1 << 60)
    topic.raise_fence("shop", 1)
    for n in (1, 2, 2, 3):
        topic.append([row(n)], producer="shop", sequence=n, fence=1)
    assert topic.read().column("n").to_pylist() == [0, 1, 2, 3]
    assert topic.last_sequence("shop") == log.reopened().last_sequence("shop") == 3
    assert topic.backend.fence("shop") == 1
    assert topic.backend.fence("nobody") == 0


def test_sequences_go_on_over_fences(log: Log) -> None:
    """A run that appended and died is followed by one that appends the same again, under its own fence."""
    topic = log.topic(partitions=1)
    for fence in (1, 2, 5):
        topic.raise_fence("shop", fence)
        topic.append([row(7)], producer="shop", sequence=7, fence=fence)
    assert topic.read().num_rows == 1


def test_the_fence_of_a_repeated_append_counts(log: Log) -> None:
    """Who takes over begins with the last append of the one before; from then on that one is shut out."""
    topic = log.topic(partitions=1)
    topic.append([row(5)], producer="importer", sequence=5, fence=1)
    topic.append([row(5)], producer="importer", sequence=5, fence=2)
    with pytest.raises(Fenced):
        topic.append([row(0)], producer="importer", sequence=6, fence=1)
    topic.append([row(6)], producer="importer", sequence=6, fence=2)
    assert topic.read().column("n").to_pylist() == [5, 6]
    assert log.reopened().backend.fence("importer") == 2
