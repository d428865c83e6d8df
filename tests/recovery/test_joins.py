"""Three tables joined, with an aggregate and a top above, killed anywhere: what they hold is the join of the tables."""

from __future__ import annotations

import random
import signal

import pytest

STEPS = [
    "plan.done",
    "plan.logged",
    "host.stepped",
    "host.committed",
    "commit.begin",
    "append.written",
    "commit.topics",
    "views.netted",
    "views.changed",
    "views.applied",
    "views.committed",
    "commit.store",
    "epoch.done",
]
DRIVER = ["append.published:4", "commit.topics", "views.changed:2", "commit.store"]
WORKERS = ["host.stepped:2", "host.committed:3"]  # of one worker


@pytest.fixture
def without_spark(a_market):
    a_market.program = "run_without_spark.py"
    return a_market


def test_killed_at_some_steps(without_spark):
    without_spark.feed()
    without_spark.complete()
    for place in ("host.committed:9", "append.written:5", "views.applied", "commit.store"):
        without_spark.feed(2)
        run = without_spark.start(failpoints=f"{place}=kill")
        assert run.ends() == -signal.SIGKILL, f"{place}: {run.errors}"
    without_spark.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_many_passages(without_spark, step):
    without_spark.killed_at_passages(step, stride=3)


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_killed_at_random_times(without_spark):
    without_spark.killed_at_random(random.Random(6), times=20, within=0.4)


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", DRIVER)
def test_killed_under_spark(a_market, place):
    a_market.feed(2)
    run = a_market.start(failpoints=f"{place}=kill")
    assert run.ends() == -signal.SIGKILL, run.errors
    a_market.feed()
    a_market.drain()


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(3600)
def test_workers_that_outlive_their_driver(a_market):
    a_market.feed()
    for place in WORKERS:
        a_market.outlived(place)
        a_market.feed()
    a_market.drain()
