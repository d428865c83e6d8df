"""Compaction and retention on demand. A log whose server does this when it likes refuses it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contracts.conftest import Log
from riverrun.errors import Invalid, OutOfRange
from riverrun.log.topic import Topic
from riverrun.settings import Settings

pytestmark = pytest.mark.uses("compact", "enforce_retention")

AT = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["1 day", 0], ids=["grace", "no-grace"])
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings.load(environ={}, segment_bytes=2000, tombstone_grace=request.param)


def row(user: str, n: int) -> dict[str, Any]:
    return {"user": user, "n": n, "at": AT + timedelta(minutes=n)}


def shown(topic: Topic) -> list[tuple[int, int, str, int | None, bool]]:
    table = topic.read(columns=["_partition", "_offset", "user", "n", "_deleted"])
    return sorted(tuple(found.values()) for found in table.to_pylist())


def newest(rows: list[tuple[int, int, str, int | None, bool]], tombstones: bool) -> list[tuple[Any, ...]]:
    last = {found[2]: found for found in rows}
    return sorted(found for found in last.values() if tombstones or not found[4])


@pytest.fixture
def changelog(log: Log) -> Topic:
    topic = log.topic(key="user", time="at", partitions=3)
    for n in range(60):
        topic.append([row(f"u{(n + i) % 9}", n) for i in range(3)])
        if n % 7 == 0:
            topic.delete(f"u{n % 9}")
    return topic


def test_the_newest_row_of_every_key_stays_at_its_offset(log: Log, changelog: Topic, settings: Settings) -> None:
    before, ends = shown(changelog), (changelog.earliest, changelog.latest)
    result = changelog.compact()
    kept = newest(before, tombstones=settings.tombstone_grace > 0)
    assert shown(changelog) == shown(log.reopened()) == kept
    assert (changelog.earliest, changelog.latest) == ends
    assert (result["kept"], result["removed"]) == (len(kept), len(before) - len(kept))


def test_rows_appended_later_go_on_as_if_nothing_had_happened(changelog: Topic, settings: Settings) -> None:
    history = shown(changelog)
    changelog.compact()
    changelog.append([row("u1", 100), row("new", 101)])
    changelog.delete("u2")
    added = [found for found in shown(changelog) if found not in history]
    assert len(added) == 3
    assert changelog.compact()["removed"] >= 2
    assert shown(changelog) == newest([*history, *added], tombstones=settings.tombstone_grace > 0)


def test_reading_from_every_offset_after_compaction(changelog: Topic) -> None:
    changelog.compact()
    everything = shown(changelog)
    for partition, end in changelog.ends().items():
        for offset in range(end + 1):
            batches = changelog.batches({partition: offset}, {partition: end}, ["_offset"])
            found = [o for batch in batches for o in batch.column("_offset").to_pylist()]
            assert found == [r[1] for r in everything if r[0] == partition and r[1] >= offset]


def test_times_and_receive_times_stay(changelog: Topic) -> None:
    def times() -> dict[tuple[int, int], tuple[Any, Any]]:
        table = changelog.read(columns=["_partition", "_offset", "_time", "_received"]).to_pylist()
        return {(r["_partition"], r["_offset"]): (r["_time"], r["_received"]) for r in table}

    before = times()
    changelog.compact()
    after = times()
    assert after == {place: before[place] for place in after}
    moment = AT + timedelta(minutes=57)
    found = changelog.read(start=changelog.offsets_at(moment)).column("n").to_pylist()
    assert {57, 58, 59} <= set(found)


def test_repeats_are_still_known_after_compaction(log: Log, changelog: Topic) -> None:
    first = changelog.append(row("u1", 70), producer="app", sequence=5)
    changelog.append(row("u1", 71))
    changelog.compact()
    assert log.reopened().append(row("u1", 70), producer="app", sequence=5) == first
    assert log.reopened().last_sequence("app") == 5


def test_promises_are_not_forgotten(changelog: Topic) -> None:
    changelog.advance(1, AT + timedelta(days=3))
    changelog.compact()
    ends = changelog.ends()
    promised = [s.maxima.get("1", 0) for s in changelog.summaries(changelog.begins(), ends) if s.partition == 1]
    assert max(promised) == int((AT + timedelta(days=3)).timestamp() * 1_000_000)


def test_a_topic_without_a_key_cannot_be_compacted(log: Log) -> None:
    with pytest.raises(Invalid, match="no key"):
        log.topic("keyless").compact()


def test_a_part_of_a_key_may_be_null(log: Log) -> None:
    topic = log.topic("pairs", "a int, b int, n int", key=["a", "b"], compact=True)
    topic.append([{"a": 1, "b": None, "n": 1}, {"a": None, "b": 1, "n": 2}, {"a": 1, "n": 3}, {"a": 2, "b": 2, "n": 4}])
    topic.delete([None, 1])
    topic.compact()
    found = sorted(topic.read().to_pylist(), key=lambda r: (r["_key"], r["_offset"]))
    assert [(r["_key"], r["n"]) for r in found if not r["_deleted"]] == [("[1,null]", 3), ("[2,2]", 4)]


def eventually(condition: Callable[[], bool]) -> None:
    import time

    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_too_old_goes_and_is_refused_by_name(log: Log) -> None:
    topic = log.topic(key="user", partitions=1, retention="10 ms")
    end = topic.append([row("u", n) for n in range(5)])

    def is_gone() -> bool:
        topic.enforce_retention()
        return topic.earliest == end

    eventually(is_gone)
    assert topic.read().num_rows == 0
    assert topic.latest == end
    with pytest.raises(OutOfRange, match="offset 0 is no longer kept, only 5 to 5"):
        topic.read("t@0:0")
    assert topic.append(row("u", 5))["t"][0] == 6
    assert log.reopened().ends()[0] == 6


def test_what_is_too_much_goes_the_oldest_first(log: Log) -> None:
    topic = log.topic(key="user", partitions=2, retention=None, retention_bytes=10_000)
    for n in range(150):
        topic.append([row(f"u{n % 5}", n)])
    topic.enforce_retention()
    kept = sorted(found[3] for found in shown(topic))
    assert 0 < len(kept) < 150
    assert kept == list(range(150 - len(kept), 150))
    assert sum(topic.begins().values()) == 150 - len(kept)


def test_what_is_kept_for_ever_stays(log: Log) -> None:
    topic = log.topic(key="user", retention=None)
    topic.append(row("u", 1))
    topic.enforce_retention()
    assert topic.read().num_rows == 1


def test_null_is_a_key_where_it_may_be_one(log: Log, settings: Settings) -> None:
    topic = log.topic(key="user", partitions=3, null_keys=True)
    for n in range(60):
        topic.append([{**row(f"u{n % 50}", n), "user": None if i % 2 else f"u{n % 50}"} for i in range(4)])
    topic.compact()
    assert {found["user"]: found["n"] for found in topic.read().to_pylist()} == {
        None: 59,
        **{f"u{n}": n + 50 if n < 10 else n for n in range(50)},
    }
    assert len({found["_partition"] for found in topic.read().to_pylist() if found["_key"] is None}) == 1
    topic.delete(None)
    topic.compact()
    left = [found["_deleted"] for found in topic.read().to_pylist() if found["user"] is None]
    assert left == ([True] if settings.tombstone_grace else [])
