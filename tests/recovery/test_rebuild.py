"""A flow that was changed, killed anywhere while its views are rebuilt: they are those of the old flow or of the new one,
and no row is in a topic twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from riverrun.river import River

STEPS = [
    "rebuild.begun",
    "views.committed:2",  # an epoch of the rebuild
    "rebuild.caught_up",
    "rebuild.fenced",
    "views.switched",  # in the transaction
    "rebuild.switched",
    "rebuild.cleaned",
]
WRITING = ["commit.begin", "append.written:5", "commit.topics", "commit.aside", "views.applied", "commit.store"]


@pytest.fixture
def a_shop(open_shop):
    shop = open_shop()
    shop.program = "run_without_spark.py"
    return shop


def totals(shop) -> dict[str, tuple[int, float]]:
    with River(shop.path) as river:
        return {row["user"]: (row["n"], row["total"]) for row in river.view("totals").rows()}


def wanted(shop, factor: int) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for row in shop.rows:
        n, total = found.get(row["user"], (0, 0.0))
        found[row["user"]] = (n + 1, total + factor * float(row["amount"]))
    return found


def leaves_no_trace(shop) -> None:
    """Nothing of what was given up: one home, no tables of a rebuild."""
    with River(shop.path) as river:
        assert river.store.rebuilds("shop") == []
        assert len(list(Path(river.checkpoints).iterdir())) == 1


@pytest.mark.recovery
@pytest.mark.timeout(900)
def test_killed_while_it_is_rebuilt(a_shop):
    a_shop.feed(3)
    a_shop.complete()
    before = totals(a_shop)
    for place in STEPS:
        switched = STEPS.index(place) >= STEPS.index("rebuild.switched")
        run = a_shop.start("--changed", failpoints=f"{place}=kill")
        assert run.ends() == -signal.SIGKILL, f"{place}: {run.errors}"
        if switched:
            assert totals(a_shop) == wanted(a_shop, 3), place
            a_shop.feed()
            a_shop.complete("--changed")
            a_shop.complete()  # the old flow again, for the next place
        else:
            assert totals(a_shop) == before, place
        before = totals(a_shop)
    a_shop.complete("--changed")
    leaves_no_trace(a_shop)
    a_shop.feed(3)
    a_shop.drain()
    leaves_no_trace(a_shop)


@pytest.mark.parametrize("place", ["commit.aside", pytest.param("append.written:5", marks=pytest.mark.recovery)])
def test_an_epoch_that_only_topics_have_is_not_written_again(a_shop, place):
    """Killed when its topics had an epoch that the store does not, then changed, and would read more at once: sequences
    and rows still fit together."""
    a_shop.feed()
    a_shop.complete()
    a_shop.feed(2)
    run = a_shop.start(failpoints=f"{place}=kill")
    assert run.ends() == -signal.SIGKILL, run.errors
    a_shop.feed(2)
    assert "rebuilt" in a_shop.complete("--changed", "--max-rows", 70).lines
    assert totals(a_shop) == wanted(a_shop, 3)
    a_shop.feed(2)
    a_shop.drain()


@pytest.mark.recovery
@pytest.mark.timeout(1800)
def test_changed_and_killed_again_and_again(a_shop):
    a_shop.feed(2)
    a_shop.complete()
    for i, place in enumerate([*WRITING, *STEPS, *WRITING]):
        a_shop.feed(2)
        run = a_shop.start(*["--changed", "--rebuild"][i % 2 :: 2], failpoints=f"{place}=kill")
        assert run.ends() in (-signal.SIGKILL, 0), run.errors
    a_shop.complete("--changed")
    a_shop.feed(3)
    a_shop.drain()
    leaves_no_trace(a_shop)


@pytest.mark.spark
@pytest.mark.recovery
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", ["views.committed:2", "rebuild.caught_up", "rebuild.fenced", "rebuild.switched"])
def test_killed_on_spark_while_the_old_flow_runs(open_shop, place):
    """That goes on until it is taken over from, also by one that dies right after it."""
    shop = open_shop()
    shop.feed(3)
    old = shop.start("--follow", "--max-rows", 20)
    old.says("epoch 3")
    run = shop.start("--changed", "--max-rows", 20, failpoints=f"{place}=kill")
    assert run.ends() == -signal.SIGKILL, run.errors
    shop.feed()
    if place in ("rebuild.fenced", "rebuild.switched"):
        assert old.ends() == 1
        assert "Fenced" in old.errors
    else:
        old.says("epoch 4")
        old.finish()
        assert old.ends() == 0, old.errors
    run.vanishes()
    old.vanishes()
    shop.complete("--changed", "--max-rows", 20)
    assert totals(shop) == wanted(shop, 3)
    leaves_no_trace(shop)
    shop.feed(2)
    shop.check(shop.complete("--drain", "--max-rows", 20))
