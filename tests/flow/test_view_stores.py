"""`flow.view(…, to=…)`: checked where it is written, and part of what the flow is."""

from __future__ import annotations

import pytest

from riverrun import testing
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.fingerprint import view_fingerprints
from riverrun.flow.stream import Stream

SECRET = "hunter2-s3cr3t"


@pytest.fixture
def flow() -> Flow:
    return Flow("shop")


@pytest.fixture
def orders(flow: Flow) -> Stream:
    return flow.stream("orders", "user string, amount double, day date", key="user")


def test_an_address_is_checked_where_it_is_written(flow: Flow, orders: Stream) -> None:
    with pytest.raises(
        Invalid, match=r"test_view_stores.py:\d+: view 'v': there is no store for mysql:. A view goes to redis"
    ):
        flow.view("v", orders, to="mysql://host/db")
    with pytest.raises(Invalid, match="is in Redis, which knows no history="):
        flow.view("v", orders, to="redis://host/0", history="1 day")
    with pytest.raises(Invalid, match="is in a search index, which knows no index="):
        flow.view("v", orders, to="search:", index="user")
    with pytest.raises(Invalid, match="partition_by is for Delta tables"):
        flow.view("v", orders, to="search:", partition_by="day")
    with pytest.raises(Invalid, match="partition_by is for Delta tables"):
        flow.view("v", orders, partition_by="day")
    with pytest.raises(LookupError, match="nope"):
        flow.view("v", orders, to="delta:/lake/x", partition_by="nope")
    flow.view("v", orders, to="delta:/lake/x", partition_by="day")
    with pytest.raises(Invalid, match="view 'v' is in the same Delta table"):
        flow.view("w", orders, to="delta:/lake/x")
    flow.view("x", orders, to="sqlite:/lake/x.db", history="1 day", index="user")


def test_where_a_view_is_makes_it_another_one(orders: Stream) -> None:
    flow = Flow("other")
    rows = flow.stream("orders", "user string, day date")
    views = [
        flow.view("a", rows),
        flow.view("b", rows, to="search:"),
        flow.view("c", rows, to="delta:/lake/y"),
        flow.view("d", rows, to="delta:/lake/z", partition_by="day"),
    ]
    assert len(set(view_fingerprints(views).values())) == 4


def test_a_password_is_not_told(flow: Flow, orders: Stream) -> None:
    end = flow.view("v", orders, to=f"redis://ada:{SECRET}@cache/0")
    assert SECRET not in repr(end) + repr(flow.views) + repr(flow.to_json()) + str(flow.render())
    with pytest.raises(Invalid) as caught:
        flow.view("w", orders, to=f"redis://ada:{SECRET}@cache/0?password={SECRET}")
    assert SECRET not in str(caught.value)


def test_tests_of_flows_keep_all_views_in_memory(flow: Flow, orders: Stream) -> None:
    flow.view("hot", orders.group("user").agg(n=count()), to="redis://nowhere.invalid/0")
    flow.view("words", orders, to="search:")
    result = testing.run_flow(flow, {"orders": [{"user": "ada", "amount": 1.0, "day": None}] * 2})
    assert result.views["hot"] == [{"user": "ada", "n": 2}]
    assert len(result.views["words"]) == 2
    assert flow.views["hot"].to is not None
