"""The same without Spark: cheap enough to kill at every passage of every step, and at many random times."""

from __future__ import annotations

import random
import signal

import pytest

STEPS = [
    "plan.begin",
    "plan.done",
    "plan.logged",
    "host.stepped",
    "host.committed",
    "commit.begin",
    "append.begin",
    "append.written",
    "append.published",
    "commit.topics",
    "commit.aside",
    "views.netted",
    "views.begun",
    "views.changed",
    "views.applied",
    "views.committed",
    "commit.store",
    "epoch.done",
    "epoch.finished",
]


@pytest.fixture
def a_shop(open_shop):
    shop = open_shop()
    shop.program = "run_without_spark.py"
    return shop


def test_killed_at_some_steps(a_shop):
    a_shop.feed()
    a_shop.complete()
    for place in ("host.committed:3", "append.written:5", "commit.aside", "views.applied:2", "epoch.done"):
        a_shop.feed(2)
        run = a_shop.start(failpoints=f"{place}=kill")
        assert run.ends() == -signal.SIGKILL, f"{place}: {run.errors}"
    a_shop.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_passage(a_shop, step):
    a_shop.killed_at_passages(step)


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_killed_at_random_times(a_shop):
    a_shop.killed_at_random(random.Random(5), times=60, within=0.3)


def test_a_power_cut_under_a_running_flow(a_shop):
    """What nobody has synced is there by name only: the newest marks, a plan of which nothing took effect, metadata."""
    a_shop.feed(3)
    run = a_shop.start(failpoints="plan.logged:3=kill")
    assert run.ends() == -signal.SIGKILL, run.errors
    checkpoint = a_shop.path / "flows/shop/checkpoint"
    for name in ("metadata", "commits/0", "commits/1", "offsets/2"):
        (checkpoint / name).write_bytes(b"")
    a_shop.feed()
    a_shop.drain()
