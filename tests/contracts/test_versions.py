"""Topics with versions: appends on the condition that nobody was faster, and rows found by their key."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.conftest import Log
from riverrun.errors import Conflict, Fenced, Invalid, NotFound, VersionConflict
from riverrun.log.memory import MemoryLog

pytestmark = pytest.mark.uses("versions")

AT = datetime(2024, 1, 1, tzinfo=UTC)


def row(n: int, user: str = "ada") -> dict[str, Any]:
    return {"user": user, "n": n, "at": AT}


def numbers(rows: pa.Table) -> list[int]:
    return rows.column("n").to_pylist()


def test_an_append_that_expects_what_is_there_is_made_and_counts(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    assert topic.version("ada") == 0
    topic.append(row(1), expect={"ada": 0})
    topic.append([row(2), row(3), row(4, "bob")], expect={"ada": 1, "bob": 0})
    assert (topic.version("ada"), topic.version("bob"), topic.version("cleo")) == (3, 1, 0)


def test_who_expects_something_else_is_told_the_version_and_nothing_is_appended(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    topic.append([row(1), row(2)])
    with pytest.raises(Conflict, match="'ada' is at version 2, not 1; nothing was appended") as refused:
        topic.append([row(3), row(9, "bob")], expect={"bob": 0, "ada": 1})
    assert isinstance(refused.value, VersionConflict)
    assert refused.value.versions == {"ada": 2}
    assert numbers(topic.read()) == [1, 2]
    topic.append(row(3), expect={"ada": 2})
    assert numbers(topic.read(key="ada")) == [1, 2, 3]


def test_keys_that_nothing_is_written_to_may_be_expected_too(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    topic.append(row(1, "limits"))
    with pytest.raises(VersionConflict):
        topic.append(row(1), expect={"ada": 0, "limits": 0})
    topic.append(row(1), expect={"ada": 0, "limits": 1})


def test_a_repeat_is_no_conflict(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    first = topic.append(row(1), producer="app", sequence=1, expect={"ada": 0})
    topic.append(row(2), expect={"ada": 1})
    assert topic.append(row(1), producer="app", sequence=1, expect={"ada": 0}) == first
    topic.raise_fence("app", 7)
    with pytest.raises(Fenced):
        topic.append(row(3), producer="app", sequence=2, fence=6, expect={"ada": 2})
    assert numbers(topic.read(key="ada")) == [1, 2]


def test_tombstones_count(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    topic.append(row(1))
    topic.delete("ada")
    assert topic.version("ada") == 2
    assert topic.read(key="ada").column("_deleted").to_pylist() == [False, True]


def test_a_key_of_several_columns_is_a_tuple(log: Log) -> None:
    topic = log.topic(schema="hall string, seat int, n bigint", key=["hall", "seat"], versions=True)
    topic.append({"hall": "a,b", "seat": 1, "n": 1}, expect={("a,b", 1): 0})
    topic.append({"hall": "a", "seat": 1, "n": 2}, expect={("a", 1): 0, ("a,b", 1): 1})
    assert numbers(topic.read(key=("a,b", 1))) == [1]
    assert topic.version(["a", 1]) == 1


def test_rows_of_a_key_in_a_range_and_some_columns(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    topic.append(row(1))
    between = topic.append([row(2, "bob"), row(2)])
    topic.append(row(3))
    assert topic.read(key="ada", start=between, columns=["n"]).to_pydict() == {"n": [3]}
    assert topic.read(key="ada", end=between).column_names == topic.read().column_names
    assert numbers(topic.read(key="ada", end=between)) == [1, 2]
    assert topic.read(key="nobody").schema == topic.read().schema
    with pytest.raises(NotFound):
        topic.read(key="ada", columns=["m"])


def test_every_key_is_found_and_no_other_after_reopening(log: Log) -> None:
    topic = log.topic(key="user", versions=True, partitions=3)
    for start in range(0, 300, 30):
        topic.append([row(n, f"u{n % 7}") for n in range(start, start + 30)])
    again = log.reopened()
    again.append([row(n, f"u{n % 7}") for n in range(300, 310)])
    for k in range(7):
        assert numbers(again.read(key=f"u{k}")) == list(range(k, 310, 7))
        assert topic.version(f"u{k}") == len(range(k, 310, 7))


def test_of_many_who_append_at_once_each_has_seen_what_it_expects(log: Log) -> None:
    topic = log.topic(key="user", versions=True)
    accepted, conflicts = [], []

    def work(mine: int) -> None:
        for step in range(8):
            while True:
                seen = topic.version("ada")
                try:
                    topic.append(row(seen), expect={"ada": seen})
                except VersionConflict:
                    conflicts.append((mine, step))
                    continue
                accepted.append((mine, step))
                break

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 32
    assert numbers(topic.read(key="ada")) == list(range(32))


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"ada": -1}, "from 0, not -1"),
        ({"ada": True}, "from 0, not True"),
        ({"ada": "1"}, "from 0, not '1'"),
        ({("ada", 1): 1}, "2 values were given"),
        ({1: 1}, "user"),
    ],
)
def test_what_is_no_version_or_no_key_is_refused(log: Log, expect: Any, said: str) -> None:
    topic = log.topic(key="user", versions=True)
    with pytest.raises(Invalid, match=said):
        topic.append(row(1), expect=expect)
    assert topic.read().num_rows == 0


def test_a_topic_without_versions_says_what_it_takes(log: Log) -> None:
    topic = log.topic(key="user")
    for call in (
        lambda: topic.append(row(1), expect={"ada": 0}),
        lambda: topic.version("ada"),
        lambda: topic.read(key="ada"),
    ):
        with pytest.raises(Invalid, match="versions=True"):
            call()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": None}, "needs one"),
        ({"compact": True}, "no compact"),
        ({"retention": "1 day"}, "no retention"),
        ({"retention_bytes": 1 << 30}, "no retention_bytes"),
        ({"versions": "yes"}, "True or False"),
    ],
)
def test_what_would_let_the_count_of_a_key_fall_is_refused(log: Log, options: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        log.topic(**{"key": "user", "versions": True, **options})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text("ab\0é\U0001f600", max_size=12), min_size=1, max_size=30), max_size=8))
def test_any_text_is_a_key(batches: list[list[str]]) -> None:
    topic = MemoryLog().topic("t", "user string, n bigint", key="user", versions=True)
    count = 0
    for batch in batches:
        topic.append([{"user": user, "n": count + i} for i, user in enumerate(batch)])
        count += len(batch)
    flat = [user for batch in batches for user in batch]
    for user in set(flat):
        assert numbers(topic.read(key=user)) == [n for n, one in enumerate(flat) if one == user]
