"""Rates are of the last minute, whatever was before, and the same when small frames were merged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from riverrun.log import rates
from riverrun.log.embedded import EmbeddedTopic
from riverrun.settings import Settings


def test_only_the_last_minute_counts(open_topic: Callable[..., EmbeddedTopic], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = open_topic(schema="n bigint")
    topic.append([{"n": n} for n in range(120)])
    assert rates.rows_per_second(topic) == pytest.approx(2)
    later = rates.wall_clock() + rates.WINDOW + 1
    monkeypatch.setattr(rates, "wall_clock", lambda: later)
    assert rates.rows_per_second(topic) == 0


def test_over_several_segments_merged_or_not(open_topic: Callable[..., EmbeddedTopic]) -> None:
    topic = open_topic(schema="n bigint", settings=Settings(segment_bytes=4096))
    for n in range(60):
        topic.append({"n": n})
    assert rates.rows_per_second(topic) == pytest.approx(1)
    topic.upkeep.wait()
    assert topic.describe()["segments"] > 1
    assert rates.rows_per_second(topic) == pytest.approx(1)


def test_old_segments_are_not_opened(open_topic: Callable[..., EmbeddedTopic], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = open_topic(schema="n bigint", settings=Settings(segment_bytes=4096))
    for n in range(60):
        topic.append({"n": n})
    opened: list[int] = []
    find = topic.journal.segments.open
    monkeypatch.setattr(
        topic.journal.segments, "open", lambda entry: (opened.append(entry.first_commit), find(entry))[1]
    )
    later = rates.wall_clock() + rates.WINDOW + 1
    monkeypatch.setattr(rates, "wall_clock", lambda: later)
    assert rates.rows_per_second(topic) == 0
    assert len(opened) == 1
