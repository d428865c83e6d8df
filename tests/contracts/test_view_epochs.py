"""Epochs that come again, fences, and what is kept of a flow."""

from __future__ import annotations

import threading

import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows
from riverrun.errors import Conflict, Fenced, NotFound
from riverrun.views import Epoch, Store


def test_a_committed_epoch_has_no_effect_when_it_comes_again(store, again):
    flow = ViewFlow(store, revenue())
    assert flow.commit(rows(("a", 1, 1)), manifest=b"one")
    assert not flow.commit(rows(("a", 2, 1)), epoch=1, manifest=b"other")
    assert flow.commit(rows(("a", 1, -1), ("a", 3, 1)), epoch=2, manifest=b"two")
    assert not flow.commit(rows(("a", 9, 1)), epoch=1)
    assert contents(again()) == [("a", 3)]
    last = again().last("shop")
    assert (last.epoch, last.fence, last.positions, last.manifest) == (2, 1, {"orders": {0: 20}}, b"two")


def test_the_same_epoch_with_other_positions_is_refused(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)), offset=10)
    with pytest.raises(Conflict, match="epoch 1 of flow 'shop' was committed with other input positions"):
        flow.commit(rows(("a", 1, 1)), epoch=1, offset=11)


def test_an_epoch_that_does_not_follow_is_refused(store):
    flow = ViewFlow(store, revenue())
    with pytest.raises(Conflict, match="epoch 2 of flow 'shop' does not follow epoch 0"):
        flow.commit(rows(("a", 1, 1)), epoch=2)


def test_an_older_fence_is_refused_and_told_who_took_over(store, again):
    old = ViewFlow(store, revenue())
    old.commit(rows(("a", 1, 1)))
    other = again()
    assert other.take_fence("shop", run="the new one") == 2
    for epoch in (1, 2):
        with pytest.raises(Fenced, match=r"run 1 of flow 'shop'.*run 2 has taken over \(the new one\)"):
            old.commit(rows(("a", 2, 1)), epoch=epoch)
    with pytest.raises(Fenced):
        store.raise_fence("shop", 1)
    assert contents(store) == [("a", 1)]


def test_a_token_of_another_store_can_be_taken_over(store):
    store.declare(revenue())
    store.raise_fence("shop", 7)
    store.raise_fence("shop", 7)
    with pytest.raises(Fenced):
        store.commit(Epoch("shop", 6, 1, {"orders": {0: 1}}))
    assert store.commit(Epoch("shop", 8, 1, {"orders": {0: 1}}))
    assert store.last("shop").fence == 8
    assert store.take_fence("shop") == 9


def test_flows_do_not_disturb_each_other(store):
    shop, other = ViewFlow(store, revenue()), ViewFlow(store, revenue(name="x", flow="other"), name="other")
    shop.commit(rows(("a", 1, 1)))
    other.commit({"x": rows(("b", 1, 1))["revenue"]})
    with pytest.raises(NotFound, match="flow 'other' has declared no view 'revenue'"):
        other.commit(rows(("c", 1, 1)))
    assert contents(store) == [("a", 1)]


def test_ledger_and_times_are_kept_and_commit_times_never_go_back(store):
    flow = ViewFlow(store, revenue())
    flow.commit(committed=5000, received=4000, ledger={"read": 3})
    flow.commit(committed=4000, received=4500, ledger=[{"node": "x"}])
    last = store.last("shop")
    assert (last.committed, last.received, last.ledger) == (5000, 4500, [{"node": "x"}])


def test_two_runs_race_and_only_the_newer_one_wins(store, again):
    store.declare(revenue())
    stores = [again() for _ in range(4)]
    outcome: list[tuple[int, str]] = []

    def run(mine: Store) -> None:
        fence = mine.take_fence("shop")
        try:
            for epoch in range(1, 6):
                mine.commit(Epoch("shop", fence, epoch, {"orders": {0: epoch}}, rows((str(fence), epoch, 1))))
            outcome.append((fence, "done"))
        except Fenced:
            outcome.append((fence, "fenced"))

    threads = [threading.Thread(target=run, args=(one,)) for one in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(fence for fence, _ in outcome) == [1, 2, 3, 4]
    assert (4, "done") in outcome
    assert store.last("shop").epoch == 5
    assert store.last("shop").fence == 4
