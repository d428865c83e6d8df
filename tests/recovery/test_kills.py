"""A flow killed anywhere, and started again: views and topics are those of a run that nobody disturbed."""

from __future__ import annotations

import random
import signal
import time

import pytest

pytestmark = pytest.mark.spark

TOPICS = [
    "append.written",  # of the new run's fence
    "commit.begin",
    "append.written:4",  # of the epoch's own rows
    "append.published:5",
    "commit.topics",
    "commit.aside",
]
VIEWS = [
    "views.netted",
    "views.begun",
    "views.changed:1",
    "views.changed:3",
    "views.applied",
    "views.committed",
    "commit.store",
    "epoch.done",
]
PLANNING = ["plan.begin", "plan.done"]
ELSEWHERE = [*PLANNING, "plan.logged", "host.stepped", "host.committed"]


@pytest.mark.recovery
def test_killed_when_the_topic_has_the_epoch_and_the_views_do_not(a_shop):
    a_shop.feed()
    killed = a_shop.start(failpoints="commit.topics=kill")
    assert killed.ends() == -signal.SIGKILL
    a_shop.drain()


@pytest.mark.recovery
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("places", [TOPICS, VIEWS, ELSEWHERE], ids=["topics", "views", "elsewhere"])
def test_killed_at_every_step(a_shop, places):
    """One kill at each step, one after the other. A planner or worker stops at its step; its driver is killed, and then
    it goes on: nothing that outlives a driver may do harm."""
    a_shop.feed()
    run = a_shop.complete()
    for place in places:
        if place in PLANNING:
            run.vanishes()  # else it may have the plan made before the next run comes to it
        a_shop.feed()
        if place in ELSEWHERE:
            run = a_shop.outlived(place)
        else:
            run = a_shop.start(failpoints=f"{place}=kill")
            assert run.ends() == -signal.SIGKILL, f"{place}: {run.errors}"
    a_shop.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_killed_while_the_end_of_the_input_takes_effect(a_shop):
    a_shop.feed()
    a_shop.complete()
    for place in ("plan.done", "commit.topics", "commit.store"):
        run = a_shop.start("--drain", failpoints=f"{place}={'stop' if place in ELSEWHERE else 'kill'}")
        if place in ELSEWHERE:
            run.until(run.stopped, place)
            run.kill()
        else:
            assert run.ends() == -signal.SIGKILL, run.errors
    a_shop.drain()  # once more, though it was drained: there is nothing new to take in
    a_shop.feed()
    refused = a_shop.start()
    assert refused.ends() == 1
    assert "Conflict: flow shop was drained" in refused.errors


@pytest.mark.recovery
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_times(a_shop, seed):
    rng = random.Random(seed)
    a_shop.feed()
    a_shop.complete()
    for _ in range(6):
        a_shop.feed(3)
        run = a_shop.start("--max-rows", 20)
        if rng.random() < 0.8:
            run.says("started")
        time.sleep(rng.uniform(0, 6))
        run.kill()
    a_shop.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_workers_and_planner_killed_under_a_run(a_shop):
    """Each new process of theirs dies again after some steps; the run goes on by itself."""
    a_shop.feed()
    a_shop.complete()
    a_shop.feed(8)
    run = a_shop.start(
        "--drain", "--max-rows", 20, failpoints="host.stepped:8=kill,host.committed:17=kill,plan.logged:4=kill"
    )
    assert run.ends(600) == 0, run.errors
    assert "trying again in 0.5 s: Python worker exited unexpectedly" in run.errors
    a_shop.check(run)


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_killed_jvm(a_shop):
    a_shop.feed()
    run = a_shop.start("--follow")
    run.says("epoch 1")
    next(process for process in run.family() if process.name() == "java").kill()
    assert run.ends() == 1
    [told] = run.errors.strip().splitlines()
    assert told.startswith("JvmEnded: flow shop: Spark's JVM has ended")
    a_shop.feed()
    a_shop.drain()
