"""A match, rules and stored searches, killed anywhere: nothing is missed, and nothing is found twice."""

from __future__ import annotations

import random
import signal

import pytest

STEPS = ["plan.logged", "host.stepped", "host.committed", "commit.begin", "append.written", "commit.topics"]
STEPS += ["views.netted", "views.applied", "views.committed", "commit.store", "epoch.done"]
DRIVER = ["commit.topics", "views.applied", "commit.store"]


@pytest.fixture
def without_spark(a_watch):
    a_watch.program = "run_without_spark.py"
    a_watch.complete()  # rules and searches are there before events
    return a_watch


def test_killed_at_some_steps(without_spark):
    without_spark.feed()
    without_spark.complete()
    for place in ("host.committed:4", "append.written", "views.applied", "commit.store"):
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
    without_spark.killed_at_random(random.Random(7), times=20, within=0.4)


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("place", DRIVER)
def test_killed_under_spark(a_watch, place):
    a_watch.complete()
    a_watch.feed(2)
    run = a_watch.start(failpoints=f"{place}=kill")
    assert run.ends() == -signal.SIGKILL, run.errors
    a_watch.feed()
    a_watch.drain()
