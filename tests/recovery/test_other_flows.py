"""Flows with other operators than the shop's, killed anywhere. The market: three tables joined, with an aggregate and a top
above; what they hold is the join of the tables. The watch: a match, rules and stored searches; nothing is missed, and nothing
is found twice."""

from __future__ import annotations

import random
import signal

import pytest

STEPS = [
    "plan.logged",
    "host.stepped",
    "host.committed",
    "commit.begin",
    "append.written",
    "commit.topics",
    "views.netted",
    "views.applied",
    "views.committed",
    "commit.store",
    "epoch.done",
]
FLOWS = ["a_market", "a_watch"]
OWN = {"a_market": ["plan.done", "views.changed"], "a_watch": []}
FEW = {
    "a_market": ["host.committed:9", "append.written:5", "views.applied", "commit.store"],
    "a_watch": ["host.committed:4", "append.written", "views.applied", "commit.store"],
}
DRIVER = {
    "a_market": ["append.published:4", "commit.topics", "views.changed:2", "commit.store"],
    "a_watch": ["commit.topics", "views.applied", "commit.store"],
}
WORKERS = ["host.stepped:2", "host.committed:3"]  # of one worker


@pytest.fixture
def flowing(request):
    """Run under Spark."""
    made = request.getfixturevalue(request.param)
    made.begin()
    return made


@pytest.fixture
def without_spark(request):
    made = request.getfixturevalue(request.param)
    made.program = "run_without_spark.py"
    made.begin()
    return made


@pytest.mark.parametrize(("without_spark", "places"), FEW.items(), indirect=["without_spark"], ids=FEW)
def test_killed_at_some_steps(without_spark, places):
    without_spark.feed()
    without_spark.complete()
    for place in places:
        without_spark.feed(2)
        run = without_spark.start(failpoints=f"{place}=kill")
        assert run.ends() == -signal.SIGKILL, f"{place}: {run.errors}"
    without_spark.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("without_spark", "step"),
    [(flow, step) for flow in FLOWS for step in (*STEPS, *OWN[flow])],
    indirect=["without_spark"],
)
def test_killed_at_many_passages(without_spark, step):
    without_spark.killed_at_passages(step, stride=3)


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("without_spark", FLOWS, indirect=True)
def test_killed_at_random_times(without_spark):
    without_spark.killed_at_random(random.Random(6), times=20, within=0.4)


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("flowing", "place"), [(flow, place) for flow in FLOWS for place in DRIVER[flow]], indirect=["flowing"]
)
def test_killed_under_spark(flowing, place):
    flowing.feed(2)
    run = flowing.start(failpoints=f"{place}=kill")
    assert run.ends() == -signal.SIGKILL, run.errors
    flowing.feed()
    flowing.drain()


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(3600)
def test_workers_that_outlive_their_driver(a_market):
    a_market.feed()
    for place in WORKERS:
        a_market.outlived(place)
        a_market.feed()
    a_market.drain()
