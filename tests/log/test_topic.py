"""What people see of a topic: what the documentation names, and nothing of what a log has to supply."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import riverrun as rr
from riverrun.log.memory import MemoryLog
from riverrun.log.segment import Segment, list_segments
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic_backend import TopicBackend
from riverrun.settings import Settings

BASE = datetime(2026, 1, 1, tzinfo=UTC)

WHAT_IT_IS = {"name", "spec", "schema", "partitions", "times", "settings", "describe"}
WRITING = {"append", "checked", "advance", "delete", "producer", "last_sequence", "raise_fence"}
READING = {"read", "read_offsets", "batches", "summaries", "version", "consumer", "queue", "wait", "attach"}
POSITIONS = {"first_received", "earliest", "latest", "begins", "ends", "offsets", "offsets_at", "check_range"}
KEEPING = {"compact", "enforce_retention", "close"}


@pytest.fixture
def topic() -> rr.Topic:
    return MemoryLog().topic("orders", "user string, n bigint", key="user", partitions=2)


def test_people_see_what_is_for_them(topic: rr.Topic) -> None:
    shown = {name for name in dir(topic) if not name.startswith("_")}
    assert shown == WHAT_IT_IS | WRITING | READING | POSITIONS | KEEPING | {"backend"}


def test_what_a_log_supplies_is_behind_one_name(topic: rr.Topic) -> None:
    for name in ("take_over", "promise", "spill_directory", "ring", "repair", "newest_schema"):
        assert hasattr(TopicBackend, name)
        assert not hasattr(topic, name)


def test_every_abstract_method_of_a_backend_states_its_contract() -> None:
    for name in TopicBackend.__abstractmethods__:
        assert getattr(TopicBackend, name).__doc__, name


def test_the_spec_of_a_topic_leaves_nothing_out(topic: rr.Topic) -> None:
    assert isinstance(topic.spec, StoredSpec)
    assert (topic.spec.key, topic.spec.partitions, topic.spec.fsync) == (("user",), 2, "batch")


def test_what_is_checked_is_what_would_be_appended(topic: rr.Topic) -> None:
    checked = topic.checked([{"user": "ada", "n": 1}])
    topic.append([{"user": "ada", "n": 1}])
    assert topic.read().select(["user", "n"]).to_batches()[0].equals(checked)
    with pytest.raises(rr.Invalid, match="row 0"):
        topic.checked([{"user": "ada", "n": "many"}])
    assert sum(topic.ends().values()) == 1


def test_only_a_topic_with_a_key_can_be_compacted() -> None:
    with pytest.raises(rr.Invalid, match="no row replaces another"):
        MemoryLog().topic("t", "n bigint").compact()


def test_closing_a_topic_closes_its_producers_even_if_they_fail(tmp_path: Path) -> None:
    with rr.River(tmp_path / "river") as river:
        topic = river.topic("orders", "n bigint")
        topic.producer(linger="1 hour").send({"n": 1})

        def refuse(*_: object) -> dict[int, int]:
            raise rr.Unavailable("the disk is gone")

        topic.backend.append = refuse  # type: ignore[method-assign]
        with pytest.raises(rr.Unavailable, match="the disk is gone; 1 rows that were sent are not in the topic"):
            topic.close()
        assert not topic.backend.is_open


def test_segments_roll_by_what_was_appended_after_their_head(open_topic: Any) -> None:
    """A segment begins with all that is known of producers. Where that alone is larger than a segment should be, an append
    does not begin another one for it."""
    topic = open_topic(settings=Settings(segment_bytes=16 << 10))
    for number in range(600):
        topic.append(
            [{"k": "a", "at": BASE}], producer=f"a producer with a name that is rather long {number}", sequence=1
        )
    directory = topic.backend.journal.directory
    rolled = list_segments(directory)
    assert Segment(directory, rolled[-1]).data_begin > 16 << 10
    for _ in range(10):
        topic.append([{"k": "b", "at": BASE}])
    assert len(list_segments(directory)) <= len(rolled) + 1
