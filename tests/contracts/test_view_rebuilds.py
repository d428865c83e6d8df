"""Views built again beside the running ones."""

from __future__ import annotations

import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows, weighted
from riverrun.errors import Conflict, Fenced, NotFound, OutOfRange
from riverrun.views import Epoch, View


def test_a_rebuild_is_invisible_until_it_is_switched(store, again):
    flow = ViewFlow(store, revenue(history="1 hour"))
    flow.commit(rows(("a", 1, 1), ("b", 1, 1)), manifest=b"old")
    token = store.begin_rebuild("shop", [revenue(history="1 hour")])
    assert store.rebuilds("shop") == [token]
    mine = {"rebuild": token, "fence": flow.fence}
    store.commit(Epoch("shop", epoch=1, positions={"orders": {0: 4}}, changes=rows(("a", 7, 1)), **mine))
    with pytest.raises(Conflict, match="has not read up to where the running one is"):
        store.switch(token, flow.fence)
    flow.commit(rows(("c", 1, 1), (None, 1, 1)))
    caught_up = {"positions": {"orders": {0: 20}}, "manifest": b"new", "ledger": {"read": 1}}
    store.commit(Epoch("shop", epoch=2, changes=rows(("c", 1, 1), (None, 2, 1)), **mine, **caught_up))
    assert len(contents(store)) == 4
    before, at = View(store, "revenue").cursor, View(store, "revenue").position
    store.switch(token, flow.fence)
    assert {(row["user"], row["n"]) for row in View(again(), "revenue").rows()} == {("a", 7), ("c", 1), (None, 2)}
    last = store.last("shop")
    assert (last.epoch, last.manifest, last.positions) == (2, b"new", at)
    assert {(c.op, (c.after or c.before)["user"]) for c in View(store, "revenue").changes(since=before, timeout=0)} == {
        ("update", "a"),
        ("delete", "b"),
        ("update", None),
    }
    assert store.rebuilds("shop") == []
    with pytest.raises(NotFound, match="no rebuild"):
        store.switch(token, flow.fence)
    with pytest.raises(NotFound, match="no rebuild"):
        store.commit(Epoch("shop", epoch=3, positions={"orders": {0: 30}}, **mine))
    flow.epoch = 2
    flow.commit(rows(("a", 7, -1), ("a", 8, 1)), offset=30)
    assert View(store, "revenue").get("a") == {"user": "a", "n": 8}
    assert View(store, "revenue").sql('select n from revenue where "user" is null') == [{"n": 2}]
    assert {row["user"]: row["n"] for row in View(store, "revenue").as_of({"orders": {0: 10}})} == {"a": 1, "b": 1}


def test_a_rebuild_may_change_columns_and_add_views(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    before = View(store, "revenue")
    cursor = before.cursor
    wide = "user string, n double, m string"
    token = store.begin_rebuild("shop", [revenue(schema=wide), revenue(name="more")])
    changes = {"revenue": weighted(wide, ("a", 0.5, "x", 1)), "more": rows(("b", 1, 1))["revenue"]}
    store.commit(Epoch("shop", flow.fence, 1, {"orders": {0: 10}}, changes, rebuild=token))
    fence = store.take_fence("shop")
    with pytest.raises(Fenced):
        store.switch(token, flow.fence)
    store.switch(token, fence, epoch=40, manifest=b"mine")
    assert (store.last("shop").epoch, store.last("shop").manifest) == (40, b"mine")
    assert contents(store) == [("a", 0.5, "x")]
    assert before.get("a") == {"user": "a", "n": 0.5, "m": "x"}
    assert contents(store, "more") == [("b", 1)]
    assert View(store, "revenue").sql("select * from revenue") == [{"user": "a", "n": 0.5, "m": "x"}]
    with pytest.raises(OutOfRange):
        next(View(store, "revenue").changes(since=cursor, timeout=0))
    assert store.commit(Epoch("shop", fence, 41, {"orders": {0: 20}}))
    with pytest.raises(Fenced):
        flow.commit()


def test_an_abandoned_rebuild_leaves_nothing(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    token = store.begin_rebuild("shop", [revenue()])
    store.commit(Epoch("shop", flow.fence, 1, {"orders": {0: 10}}, rows(("x", 1, 1)), rebuild=token))
    store.abandon(token)
    assert store.rebuilds("shop") == []
    assert contents(store) == [("a", 1)]
    with pytest.raises(NotFound):
        store.abandon(token)
    with pytest.raises(Conflict, match="belongs to flow 'shop'"):
        store.begin_rebuild("other", [revenue(flow="other")])
    assert store.rebuilds("other") == []
