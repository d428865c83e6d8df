"""A view store that is away for a while: epochs wait, the status says so, nothing is lost or computed twice."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path

import pytest

from derived_run import Everywhere
from postgres_server import Server
from recovery.conftest import Flowing
from riverrun.river import River

pytestmark = [pytest.mark.spark, pytest.mark.recovery, pytest.mark.timeout(1800)]


def test_sqlite_locked_by_somebody_else(a_shop):
    a_shop.feed()
    run = a_shop.start("--follow")
    run.says("epoch 1")
    other = sqlite3.connect(a_shop.path / "views.db", isolation_level=None)
    other.execute("begin immediate")
    a_shop.feed()
    run.says("state waiting another process writes to the view store")
    time.sleep(1)
    other.execute("rollback")
    other.close()
    run.says("epoch 2")
    run.finish()
    assert run.ends() == 0, run.errors
    assert "failed" not in run.errors
    a_shop.drain()


def test_postgresql_restarted(a_shop):
    server = Server(Path(tempfile.mkdtemp(prefix="rr-pg-")))
    try:
        a_shop.views = server.url
        a_shop.feed()
        run = a_shop.start("--follow", "--max-rows", 20)
        run.says("epoch 1")
        for mode in ("fast", "immediate"):
            server.stop(mode)
            a_shop.feed(3)
            waits = len([line for line in run.lines if line.startswith("state waiting")])
            run.until(lambda: len([x for x in run.lines if x.startswith("state waiting")]) > waits, "waiting")  # noqa: B023
            time.sleep(12)  # longer than the planner's own patience
            assert run.process.poll() is None, run.errors
            server.start()
            seen = run.lines[-1]
            run.until(lambda: run.lines[-1] != seen and run.lines[-1].startswith("state running"), "running")  # noqa: B023
        run.finish()
        assert run.ends() == 0, run.errors
        assert "in a row" not in run.errors
        a_shop.drain()
    finally:
        server.remove()


def test_stopping_while_the_store_is_away(a_shop):
    """SIGTERM and `stop` do not wait for a store; the epoch is repeated by the next run."""
    a_shop.feed()
    run = a_shop.start("--follow")
    run.says("epoch 1")
    other = sqlite3.connect(a_shop.path / "views.db", isolation_level=None)
    other.execute("begin immediate")
    a_shop.feed()
    run.says("state waiting")
    run.finish()
    assert run.ends(30) == 0, run.errors
    other.execute("rollback")
    other.close()
    a_shop.drain()


def test_each_of_the_other_stores_is_away_for_half_a_minute(tmp_path, cache):
    everywhere = Everywhere.in_every_store(tmp_path)
    everywhere.feed()
    environment = {**everywhere.environment, **({} if cache is None else {"XDG_CACHE_HOME": str(cache)})}
    command = ("run_flow.py", tmp_path / "run", everywhere.path, "--flow", "everywhere", "--follow", "--max-rows", 20)
    run = Flowing(*command, environment=environment)

    def at_home() -> tuple[int, int]:
        with River(everywhere.path) as river:
            return sum(row["n"] for row in river.view("totals").rows()), river.view("totals").progress.epoch

    def waits() -> int:
        return len([line for line in run.lines if line.startswith("state waiting")])

    try:
        run.says("epoch 1")
        for name, place in everywhere.places.items():
            run.until(lambda: at_home()[0] == len(everywhere.rows), f"all rows before {name} goes")
            before, waited = at_home(), waits()
            place.leave()
            try:
                since = time.monotonic()
                everywhere.feed(50)  # several epochs
                run.until(lambda: waits() > waited, f"waiting for {name}")  # noqa: B023
                time.sleep(since + 30 - time.monotonic())
                assert run.process.poll() is None, run.errors
                assert at_home() == before, "the home store is last"
            finally:
                place.come_back()
        run.until(lambda: at_home()[0] == len(everywhere.rows), "all rows")
        everywhere.check()
        run.finish()
        assert run.ends() == 0, run.errors
        assert "in a row" not in run.errors
    finally:
        run.kill_all()
    everywhere.check()
