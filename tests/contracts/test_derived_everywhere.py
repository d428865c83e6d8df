"""One flow, all stores: killed at any step of a commit or of a rebuild, with stores that are away, lost or older, every store
has what the home store has."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derived_run import PROGRAM, Everywhere
from postgres_server import shared_server
from redis_server import RedisServer, new_redis

COMMIT = [
    "redis.piece",
    "redis.written",
    "search.locked",
    "search.added",
    "search.committed",
    "delta.settled",
    "delta.committed",
    "views.netted",
    "views.applied",
    "views.committed",
    "derived.committed",
    "commit.store",
]
REBUILD = [
    "derived.begun",
    "redis.clearing",
    "redis.clearing.some",
    "redis.renaming",
    "redis.renaming.some",
    "redis.switched",
    "search.staged",
    "search.switched",
    "delta.switched",
    "views.switched",
    "derived.switched",
    "rebuild.switched",
]


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    server = new_redis()
    yield server
    server.remove()


@pytest.fixture
def everywhere(tmp_path: Path, redis_server: RedisServer, request: pytest.FixtureRequest) -> Everywhere:
    with redis_server.client() as client:
        client.flushall()
    import psycopg

    name = f"everywhere_{abs(hash(request.node.nodeid)) % 10**9}"
    with psycopg.connect(shared_server().url, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name}")
        connection.execute(f"create database {name}")
    stores = {
        "redis": f"{redis_server.url}?prefix=shop:",
        "search": "search:",
        "delta": f"delta:{tmp_path}/lake/totals",
        "sqlite": f"sqlite:{tmp_path}/other.db",
        "postgres": shared_server().url.replace("/postgres?", f"/{name}?"),
    }
    return Everywhere(tmp_path / "river", stores)


def test_all_stores_have_what_the_home_store_has(everywhere):
    everywhere.feed()
    everywhere.complete()
    everywhere.check()
    everywhere.feed(30)
    for step in ("redis.written:2", "search.added", "delta.committed:2", "derived.committed:3"):
        everywhere.killed(step)
    everywhere.complete()
    everywhere.check()


def test_a_changed_flow_is_computed_again_in_all_of_them(everywhere):
    everywhere.feed()
    everywhere.complete()
    everywhere.killed("redis.renaming.some", "--changed")
    everywhere.factor = 3
    done = everywhere.complete("--changed")
    assert "rebuilt" in done.stdout
    everywhere.feed(20)
    everywhere.complete("--changed")
    everywhere.check()


def test_a_store_that_was_lost_or_is_older_is_computed_again(everywhere, redis_server, tmp_path):
    everywhere.feed()
    everywhere.complete()
    shutil.copytree(everywhere.path / "search", tmp_path / "older")
    everywhere.feed(20)
    everywhere.complete()
    with redis_server.client() as client:
        client.flushall()
    assert "rebuilt" in everywhere.complete().stdout
    everywhere.check()
    shutil.rmtree(everywhere.path / "search")
    shutil.copytree(tmp_path / "older", everywhere.path / "search")
    assert "rebuilt" in everywhere.complete().stdout
    shutil.rmtree(tmp_path / "lake")
    assert "rebuilt" in everywhere.complete().stdout
    everywhere.check()
    assert "rebuilt" not in everywhere.complete().stdout


def test_epochs_wait_for_a_store_that_is_away(everywhere, redis_server):
    everywhere.feed()
    everywhere.complete()
    everywhere.feed(20)
    command = [sys.executable, str(PROGRAM), str(everywhere.path), "--flow", "everywhere"]
    environment = {**everywhere.environment, "RIVERRUN_FAILPOINTS": "commit.begin=stop"}
    said: list[str] = []
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as run:
        try:
            _until_stopped(run)
            redis_server.stop()
            run.send_signal(signal.SIGCONT)
            reading = threading.Thread(target=lambda: said.extend(run.stderr))
            reading.start()
            _until(lambda: any("does not answer" in line for line in said))
            redis_server.start()
            assert run.wait(60) == 0, said
            reading.join()
        finally:
            run.kill()
    assert "waits, trying again" in "".join(said)
    everywhere.check()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("step", COMMIT)
def test_killed_at_every_passage_of_a_commit(everywhere, step):
    everywhere.feed()
    everywhere.complete()
    for passage in range(1, 5):
        everywhere.feed(25)
        done = everywhere.run(failpoints=f"{step}:{passage}=kill")
        assert done.returncode in (0, -9), done.stderr
    everywhere.complete()
    everywhere.check()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("step", REBUILD)
def test_killed_at_every_step_of_a_rebuild(everywhere, step):
    everywhere.feed()
    everywhere.complete()
    everywhere.killed(step, "--rebuild")
    everywhere.feed(25)
    everywhere.complete()
    everywhere.check()
    everywhere.killed(step, "--changed")
    everywhere.factor = 3
    everywhere.complete("--changed")
    everywhere.check()


def _until_stopped(process: subprocess.Popen[str]) -> None:
    _until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")


def _until(done: object) -> None:
    end = time.monotonic() + 60
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)
