"""Rates and times of a run, from commits and from Spark's reports."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from riverrun.runtime.status import EpochTimes, TimeSplit
from riverrun.spark import progress as module
from riverrun.spark.progress import RunProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


def outputs(epoch: int, rows: int, **work: int) -> Any:
    counts = {"stream-1": {"topic": {"read": rows}}, "window-1": {"in": {"read": rows}}}
    report = SimpleNamespace(counts=counts, work=work, figures={}, clocks={})
    return SimpleNamespace(control=SimpleNamespace(epoch=epoch), report=report)


def report(epoch: int, **took: int) -> dict[str, Any]:
    return {"batchId": epoch - 1, "durationMs": took}


def test_nothing_yet():
    progress = RunProgress()
    assert (progress.rate(), progress.times(["orders"], 2), progress.nodes([])) == (0.0, None, {})
    assert progress.is_complete


def test_the_rate_is_over_ten_seconds_or_since_the_start(clock):
    progress = RunProgress()
    clock.now += 2
    progress.committed(outputs(1, 1000), 1, 1)
    assert progress.rate() == 500.0
    clock.now += 8
    progress.committed(outputs(2, 1000), 1, 1)
    assert progress.rate() == 200.0
    clock.now += 5
    assert progress.rate() == 100.0  # the first one is too long ago
    clock.now += 100
    assert progress.rate() == 0.0


def test_times_add_up_to_the_epoch(clock):
    progress = RunProgress()
    progress.committed(outputs(7, 10, orders=400_000, **{"window-1": 900_000, "group-1": 1_000_000}), 2.0, 0.5)
    assert not progress.is_complete
    # a trigger without data says nothing about our part; waiting for rows (latestOffset) is not planning
    progress.told([report(6, triggerExecution=9), report(7, triggerExecution=3100, addBatch=2500, latestOffset=350)])
    assert progress.is_complete
    assert progress.times(["orders"], 2) == TimeSplit(plan=0.25, read=0.2, compute=1.8, commit=0.5)
    assert progress.nodes(["orders"]) == {"group-1": 1.0, "window-1": 0.9}


def test_reports_and_epochs_do_not_pile_up(clock):
    progress = RunProgress()
    for epoch in range(1, 3000):
        progress.committed(outputs(epoch, 1), 0.0, 0.0)
        progress.told([report(epoch, triggerExecution=2, addBatch=1)])
    assert len(progress._around) <= 100
    assert len(progress._epochs) <= 1000


def test_the_last_epochs_with_their_times(clock, monkeypatch):
    monkeypatch.setattr(module.time, "time", lambda: 1_767_225_600.0 + clock.now - 100)
    progress = RunProgress()
    progress.committed(outputs(1, 5), 1.0, 0.5)
    clock.now += 2
    progress.committed(outputs(2, 7, orders=200_000), 1.0, 0.25)
    progress.told([report(2, triggerExecution=1300, addBatch=1250)])
    clock.now += 10
    assert progress.recent(["orders"], 2) == [
        EpochTimes(1, datetime(2026, 1, 1, tzinfo=UTC), 5, TimeSplit(plan=0.0, read=0.0, compute=1.0, commit=0.5)),
        EpochTimes(
            2, datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC), 7, TimeSplit(plan=0.05, read=0.1, compute=0.9, commit=0.25)
        ),
    ]
    assert [one.epoch for one in progress.recent(["orders"], 2, count=1)] == [2]
