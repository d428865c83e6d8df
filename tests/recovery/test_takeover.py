"""Only one run of a flow can write: the older one is shut out everywhere, whatever it was doing when it was overtaken."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.recovery, pytest.mark.timeout(1800)]


def shut_out(older, newer) -> None:
    """The older run has ended, and says who overtook it."""
    assert older.ends() == 1
    last = older.errors.strip().splitlines()[-1]
    assert last.startswith("Fenced: run "), older.errors
    assert f"process {newer.pid}" in last
    assert "Python Proxy" not in older.errors


def test_two_runs_at_once(a_shop):
    a_shop.feed()
    older = a_shop.start("--follow")
    older.says("epoch 1")
    newer = a_shop.start("--follow")
    newer.says("started")
    shut_out(older, newer)  # though there was nothing to write
    # and with both at work from the start
    third = a_shop.start("--follow", "--max-rows", 20)
    while newer.process.poll() is None:
        a_shop.feed()
        assert third.process.poll() is None, third.errors
        time.sleep(0.5)
    shut_out(newer, third)
    third.says("epoch")
    third.finish()
    assert third.ends() == 0, third.errors
    a_shop.drain()


def test_runs_that_slept_while_another_took_over(a_shop):
    """Stopped before it writes to topics, between topics and views, inside a worker, and as a whole."""
    a_shop.feed()
    a_shop.complete()
    sleeper = None
    for place in ("commit.begin", "commit.aside", "views.applied", "host.stepped", "everything"):
        armed = "" if place == "everything" else f"{place}=stop"
        a_shop.feed()
        run = a_shop.start("--follow", failpoints=armed)
        if place == "views.applied":
            # it sleeps with the store's lock in hand: whoever comes next waits for it
            run.until(run.stopped, place)
            run.kill_all()
            continue
        if armed:
            run.until(run.stopped, place)
        else:
            run.says("epoch")
            for process in [psutil.Process(run.pid), *run.family()]:
                process.suspend()
        if sleeper is not None:
            _wake(sleeper)
            shut_out(sleeper, run)
        sleeper = run
    a_shop.feed(2)
    newest = a_shop.start("--follow")
    newest.says("epoch")
    assert sleeper is not None
    _wake(sleeper)
    shut_out(sleeper, newest)
    newest.finish()
    assert newest.ends() == 0
    a_shop.drain()


def _wake(run) -> None:
    for process in run.stopped():
        process.send_signal(signal.SIGCONT)
