"""How far a view is, and waiting for it to get there."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from contracts.view_flow import ViewFlow, revenue, rows
from riverrun.errors import Fenced, Invalid, OutOfRange, TimedOut
from riverrun.views import Epoch, View


def test_position_and_waiting_for_one(store, again):
    flow = ViewFlow(store, revenue())
    view = View(again(), "revenue")
    assert view.position == {}
    flow.commit(rows(("a", 1, 1)), positions={"orders": {0: 5, 1: 3}, "users": {0: 9}})
    assert view.position == {"orders": {0: 5, 1: 3}}
    assert view.rows(at_least={"orders": {0: 5}}, timeout=0) == [{"user": "a", "n": 1}]
    assert view.rows(at_least="orders@0:5,1:3,2:0") == [{"user": "a", "n": 1}]
    with pytest.raises(TimedOut, match=r"has processed orders@0:5,1:3 and not yet orders@1:4"):
        view.rows(at_least="orders@1:4", timeout=0.02)
    with pytest.raises(Invalid, match="does not read topic 'users'; it reads orders"):
        view.rows(at_least="users@0:1")
    with pytest.raises(Invalid, match="not a position"):
        view.rows(at_least="orders:5")


def test_a_reader_waits_until_its_write_is_there(store, again):
    flow = ViewFlow(store, revenue())
    reader = View(again(), "revenue")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(reader.get("a", at_least="orders@0:20")))
    thread.start()
    flow.commit(rows(("a", 1, 1)))
    flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
    thread.join(10)
    assert found == [{"user": "a", "n": 2}]


def test_a_view_that_its_flow_left_stays_where_it_is(store, again):
    flow = ViewFlow(store, revenue(), revenue(name="left", history="1 hour"))
    table = rows(("a", 1, 1))["revenue"]
    flow.commit({"revenue": table, "left": table})
    flow.commit()
    store.keep_only("shop", flow.fence, ["revenue"])
    flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
    left, kept = View(again(), "left"), View(again(), "revenue")
    assert (left.position, left.cursor) == ({"orders": {0: 20}}, "2")
    assert (kept.position, kept.cursor) == ({"orders": {0: 30}}, "3")
    assert left.rows(at_least="orders@0:20", timeout=0) == [{"user": "a", "n": 1}]
    for read in (left.rows, left.arrow, lambda **how: left.get("a", **how)):
        with pytest.raises(OutOfRange, match="flow 'shop' no longer keeps up view 'left': it stays at orders@0:20"):
            read(at_least="orders@0:21", timeout=10)
    with pytest.raises(OutOfRange, match="no longer keeps up"):
        left.has_processed("orders@0:30")
    assert left.as_of("orders@0:20").rows() == left.as_of(datetime(2100, 1, 1, tzinfo=UTC)).rows() == left.rows()
    with pytest.raises(OutOfRange, match="versions committed from"):
        left.as_of("orders@0:21")
    assert list(left.changes(since=left.cursor, timeout=0)) == []


def test_a_view_that_comes_back_is_kept_up_again(store):
    flow = ViewFlow(store, revenue(), revenue(name="left", history="1 hour"))
    flow.commit({"left": rows(("a", 1, 1))["revenue"]})
    left = View(store, "left")
    old = left.cursor
    store.keep_only("shop", flow.fence, ["revenue"])
    store.keep_only("shop", flow.fence, ["revenue", "left"])
    flow.commit()
    assert left.position == {"orders": {0: 20}}
    store.keep_only("shop", flow.fence, ["revenue"])
    flow.commit()
    token = store.begin_rebuild("shop", [revenue(name="left", history="1 hour")])
    built = {"left": rows(("a", 7, 1))["revenue"]}
    store.commit(Epoch("shop", flow.fence, 1, {"orders": {0: 30}}, built, rebuild=token))
    store.switch(token, flow.fence)
    assert left.rows(at_least="orders@0:30", timeout=0) == [{"user": "a", "n": 7}]
    assert View(store, "revenue").progress.kept_up is False  # the rebuild was of a flow without it
    for gone in (lambda: next(left.changes(since=old, timeout=0)), lambda: left.as_of("orders@0:20")):
        with pytest.raises(OutOfRange):
            gone()
    with pytest.raises(Fenced):
        store.keep_only("shop", store.take_fence("shop") - 1, [])
