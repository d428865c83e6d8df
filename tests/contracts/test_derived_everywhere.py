"""One flow, all stores: killed at any step of a commit or of a rebuild, with stores that are away, lost or older, every store
has what the home store has."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from contracts.derived_flow import bucket_place
from derived_run import STORES, Everywhere

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


@pytest.fixture
def everywhere(tmp_path: Path) -> Everywhere:
    return Everywhere.in_every_store(tmp_path)


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


def test_a_store_that_was_lost_or_is_older_is_computed_again(everywhere, tmp_path):
    everywhere.feed()
    everywhere.complete()
    nothing = {}
    older = everywhere.places["search"].save()
    everywhere.feed(20)
    everywhere.complete()
    everywhere.places["redis"].restore(nothing)
    assert "rebuilt" in everywhere.complete().stdout
    everywhere.check()
    everywhere.places["search"].restore(older)
    assert "rebuilt" in everywhere.complete().stdout
    shutil.rmtree(tmp_path / "lake")
    assert "rebuilt" in everywhere.complete().stdout
    everywhere.check()
    assert "rebuilt" not in everywhere.complete().stdout


def test_epochs_wait_for_stores_that_are_away(everywhere):
    """All of them are away when an epoch is to be written. Each comes back when the run says that it waits for it."""
    everywhere.feed()
    everywhere.complete()
    everywhere.feed(20)
    away = dict(everywhere.places)
    said: list[str] = []
    with everywhere.started("commit.begin=stop") as run:
        reading = threading.Thread(target=lambda: said.extend(run.stderr))
        reading.start()
        _until_stopped(run)
        for place in away.values():
            place.leave()
        try:
            run.send_signal(signal.SIGCONT)
            while away:
                _until(lambda: _waits_for(said) in away or run.poll() is not None)
                away.pop(_waits_for(said)).come_back()
        finally:
            for place in away.values():
                place.come_back()
        assert run.wait(60) == 0, said
        reading.join()
    everywhere.check()


def test_a_lake_in_a_bucket(tmp_path):
    place = bucket_place(tmp_path)
    everywhere = Everywhere(tmp_path / "river", {"delta": place.address})
    everywhere.feed()
    everywhere.killed("delta.committed:3")
    everywhere.complete()
    everywhere.check()
    older = place.save()
    everywhere.feed(20)
    everywhere.complete()
    place.restore(older)
    assert "rebuilt" in everywhere.complete().stdout
    everywhere.check()
    assert [path for path in place.save() if "~" in path] == []


@pytest.mark.recovery
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STORES)
def test_an_older_copy_of_any_store_is_found(everywhere, name):
    everywhere.feed()
    everywhere.complete()
    copy = everywhere.places[name].save()
    everywhere.feed(20)
    everywhere.complete()
    everywhere.places[name].restore(copy)
    everywhere.feed(20)
    assert "rebuilt" in everywhere.complete().stdout
    everywhere.check()
    assert "rebuilt" not in everywhere.complete().stdout


@pytest.mark.recovery
@pytest.mark.timeout(600)
def test_runs_that_were_thought_dead_write_to_no_store(everywhere):
    """Each stops before another store, with an epoch that the others have, is overtaken, and wakes up later."""
    everywhere.feed()
    everywhere.complete()
    everywhere.feed(20)
    addresses = len(everywhere.places) + 1  # Delta has a table for each view
    # Also between what a store was asked and what it is told: the script, the commit must look again.
    steps = ["redis.piece", "delta.settled", *(f"derived.committed:{count}" for count in range(1, addresses + 1))]
    with ExitStack() as stack:
        zombies = []
        for step in steps:
            zombies.append(stack.enter_context(everywhere.started(f"{step}=stop")))
            _until_stopped(zombies[-1])
        everywhere.complete()
        everywhere.feed(20)
        everywhere.complete()
        everywhere.check()
        for zombie, step in zip(zombies, steps, strict=True):
            zombie.send_signal(signal.SIGCONT)
            _, said = zombie.communicate(timeout=60)
            assert zombie.returncode == 1 and "Fenced: " in said, (step, said)
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


def _waits_for(said: list[str]) -> str | None:
    """Which store the newest line of a run is about."""
    words = {"redis": "redis://", "search": "search index", "delta": "Delta table", "sqlite": "other.db is not there"}
    words["postgres"] = "is away"
    line = said[-1] if said and "trying again" in said[-1] else ""
    return next((name for name, word in words.items() if word in line), None)


def _until_stopped(process: subprocess.Popen[str]) -> None:
    _until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")


def _until(done: object) -> None:
    end = time.monotonic() + 60
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)
