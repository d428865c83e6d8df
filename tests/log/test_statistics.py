"""Rates are of the last minute, whatever was before, and the same when small frames were merged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from riverrun.log import statistics
from riverrun.log.topic import Topic
from riverrun.settings import Settings


def test_only_the_last_minute_counts(open_topic: Callable[..., Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = open_topic(schema="n bigint")
    topic.append([{"n": n} for n in range(120)])
    assert statistics.rows_per_second(topic.backend.journal) == pytest.approx(2)
    later = statistics.wall_clock() + statistics.RATE_WINDOW + 1
    monkeypatch.setattr(statistics, "wall_clock", lambda: later)
    assert statistics.rows_per_second(topic.backend.journal) == 0


def test_over_several_segments_merged_or_not(open_topic: Callable[..., Topic]) -> None:
    topic = open_topic(schema="n bigint", settings=Settings(segment_bytes=4096))
    for n in range(60):
        topic.append({"n": n})
    assert statistics.rows_per_second(topic.backend.journal) == pytest.approx(1)
    topic.backend.upkeep.wait()
    assert topic.describe()["segments"] > 1
    assert statistics.rows_per_second(topic.backend.journal) == pytest.approx(1)


def test_old_segments_are_not_opened(open_topic: Callable[..., Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = open_topic(schema="n bigint", settings=Settings(segment_bytes=4096))
    for n in range(60):
        topic.append({"n": n})
    opened: list[int] = []
    find = topic.backend.journal.segments.open
    monkeypatch.setattr(
        topic.backend.journal.segments, "open", lambda entry: (opened.append(entry.first_commit), find(entry))[1]
    )
    later = statistics.wall_clock() + statistics.RATE_WINDOW + 1
    monkeypatch.setattr(statistics, "wall_clock", lambda: later)
    assert statistics.rows_per_second(topic.backend.journal) == 0
    assert len(opened) == 1
