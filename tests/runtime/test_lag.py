"""How far a flow is behind: counted from where it is, as old as the oldest row that waits."""

from __future__ import annotations

import pytest

from riverrun.durations import wall_clock
from riverrun.log.memory import MemoryLog
from riverrun.log.topic import Topic
from riverrun.runtime.lag import measure_lag
from riverrun.runtime.status import Lag

MINUTE = 60_000_000


class Ago:
    """A clock that is as many minutes behind as it is told."""

    minutes = 0

    def __call__(self) -> int:
        return wall_clock() - self.minutes * MINUTE


def topic_with_rows(*ages: int) -> Topic:
    """A topic of one partition that received a row so many minutes ago, each."""
    clock = Ago()
    topic = MemoryLog(clock=clock).topic("orders", "n bigint", partitions=1)
    for clock.minutes in ages:
        topic.append([{"n": 1}])
    return topic


def test_the_age_is_that_of_the_oldest_row_that_waits_however_long_ago_the_last_epoch_was() -> None:
    orders = topic_with_rows(90, 60, 2, 1)
    lag = measure_lag({"orders": orders}, {"orders": {0: 2}})
    assert (lag.rows, lag.topics) == (2, {"orders": 2})
    assert lag.seconds == pytest.approx(120, abs=20)


def test_rows_wait_before_the_first_epoch_too() -> None:
    lag = measure_lag({"orders": topic_with_rows(5, 1), "users": topic_with_rows(7)}, {})
    assert (lag.rows, lag.topics) == (3, {"orders": 2, "users": 1})
    assert lag.seconds == pytest.approx(420, abs=20)


def test_nothing_waits() -> None:
    orders = topic_with_rows(5)
    assert measure_lag({"orders": orders}, {"orders": orders.ends()}) == Lag(0, 0.0, {"orders": 0})


def test_rows_that_retention_removed_do_not_wait() -> None:
    clock = Ago()
    orders = MemoryLog(clock=clock).topic("orders", "n bigint", partitions=1, retention="1 hour")
    for clock.minutes in (180, 120, 1, 0):
        orders.append([{"n": 1}])
    orders.enforce_retention()
    lag = measure_lag({"orders": orders}, {"orders": {0: 1}})
    assert lag.rows == 2
    assert lag.seconds == pytest.approx(60, abs=20)
