"""The same without Spark: cheap enough to kill at every passage of every step, and at many random times."""

from __future__ import annotations

import random
import signal
import time

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
    """The first, second, third … time it comes there, until a run comes through."""
    a_shop.feed()
    a_shop.complete()
    for passage in range(1, 100):
        a_shop.feed(1 + passage % 2)
        run = a_shop.start(failpoints=f"{step}:{passage}=kill")
        if run.ends() == 0:
            break
        assert run.process.returncode == -signal.SIGKILL, run.errors
    assert passage > 1, f"never came to {step}"
    a_shop.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_killed_at_random_times(a_shop):
    rng = random.Random(5)
    a_shop.feed()
    a_shop.complete()
    for _ in range(60):
        a_shop.feed(rng.randrange(1, 5))
        run = a_shop.start()
        while not run.lines and run.process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        run.kill()
    a_shop.drain()
