"""Ids: the same declaration has the same id, whatever else is declared before, after or beside it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.flow import Flow, Stream, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.windows import correct, hopping, session, sliding, tumbling

ORDERS = "order_id string, user string, amount double, at timestamp"

# Each takes (flow, orders, users) and declares one thing.
DECLARATIONS: list[Any] = [
    lambda o, u: o.where("amount > 1"),
    lambda o, u: o.where("amount > 2"),
    lambda o, u: o.select("user", "amount"),
    lambda o, u: o.select("user", "amount + 1 as amount"),
    lambda o, u: o.with_columns(x="1"),
    lambda o, u: o.drop("at"),
    lambda o, u: o.union(o.where("amount > 1")),
    lambda o, u: o.dedupe("user"),
    lambda o, u: o.window(tumbling("1 minute"), by="user").agg(n=rr.count()),
    lambda o, u: o.window(tumbling("1 hour"), by="user").agg(n=rr.count()),
    lambda o, u: o.window(tumbling("1 hour"), by="order_id").agg(n=rr.count()),
    lambda o, u: o.window(tumbling("1 hour"), by="user", emit="update").agg(n=rr.count()),
    lambda o, u: o.where("amount > 1").window(tumbling("1 hour"), by="user").agg(n=rr.count()),
    lambda o, u: o.where("amount > 2").window(tumbling("1 hour"), by="user").agg(n=rr.count()),
    lambda o, u: o.window(hopping("1 hour", "1 minute")).agg(n=rr.count()),
    lambda o, u: o.window(sliding("1 hour")).agg(n=rr.count()),
    lambda o, u: o.window(session("1 hour")).agg(n=rr.count()),
    lambda o, u: o.group("user").agg(n=rr.count()),
    lambda o, u: u.group("city").agg(n=rr.count()),
    lambda o, u: o.latest("user"),
    lambda o, u: o.top(3, "amount desc"),
    lambda o, u: o.top(3, "amount"),
    lambda o, u: o.join(o, "user", "1 hour"),
    lambda o, u: o.join(o, "user", "1 hour", how="left"),
    lambda o, u: o.join(u, "user"),
    lambda o, u: o.as_of(u, "user"),
    lambda o, u: u.join(u, "user"),
    lambda o, u: u.changes(),
    lambda o, u: o.window(tumbling("1 day")).agg(n=rr.count()).versus("7 days"),
]


def ids(order: list[int]) -> dict[int, str]:
    flow = Flow("shop")
    orders = flow.stream("orders", ORDERS, time="at")
    users = flow.table("users", "user string, city string", key="user", time="_received")
    return {number: DECLARATIONS[number](orders, users).node.id for number in order}


def test_ids_are_different() -> None:
    assert len(set(ids(list(range(len(DECLARATIONS)))).values())) == len(DECLARATIONS)


@given(st.lists(st.sampled_from(range(len(DECLARATIONS))), unique=True, min_size=1))
@settings(max_examples=50, deadline=None)
def test_ids_do_not_depend_on_what_else_is_declared_nor_on_the_order(order: list[int]) -> None:
    everything = ids(list(range(len(DECLARATIONS))))
    assert ids(order) == {number: everything[number] for number in order}


def test_golden_ids() -> None:
    """State is kept under these: a change of theirs loses it."""
    found = ids([0, 8, 17, 24])
    assert found == {
        0: "where-47976d3d3e",
        8: "window-751164ec66",
        17: "group-e0ebcc0682",
        24: "lookup-97f47355a6",
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda o: o.group("user").agg(n=rr.sum("amount")), lambda o: o.group("user").agg(n=rr.sum("amount * 2"))),
        (lambda o: o.dedupe("user", "1 hour"), lambda o: o.dedupe("user", "2 hours")),
        (
            lambda o: o.window(tumbling("1 s")).agg(n=rr.count()),
            lambda o: o.window(tumbling("1 s"), late=correct("1 s")).agg(n=rr.count()),
        ),
        (lambda o: o.top(3, "amount"), lambda o: o.top(4, "amount", ties=True)),
        (lambda o: o.join(o, "user", "1 hour"), lambda o: o.join(o, "user", "2 hours")),
        (lambda o: o.latest("user"), lambda o: o.with_columns(x="1").latest("user")),
        (lambda o: o.latest("user"), lambda o: o.select("user", "amount").latest("user")),
    ],
)
def test_a_changed_node_keeps_its_id(before: Any, after: Any) -> None:
    found = [change(Flow("shop").stream("orders", ORDERS, time="at")).node.id for change in (before, after)]
    assert found[0] == found[1]


def test_equal_declarations_are_one_node(orders: Stream, users: Table) -> None:
    assert orders.where("amount>1").node is orders.where("AMOUNT  > 1").node
    first, second = (orders.window(tumbling("60 s"), by="user").agg(n=rr.count()) for _ in range(2))
    assert first.node is second.node
    assert orders.join(users, "user").node is orders.join(users, ["user"]).node


def test_nodes_that_differ_only_in_details_are_numbered(flow: Flow, orders: Stream) -> None:
    one, two = orders.dedupe("user", "1 hour"), orders.dedupe("user", "2 hours")
    assert two.node.id == f"{one.node.id}~2"
    assert flow.stream("orders", lateness="1 s", time="at").node.id == "stream-orders~2"


def test_functions_are_the_same_only_if_they_are_one(orders: Stream) -> None:
    def by(factor: int) -> Any:
        return lambda frame: frame.select(factor)

    double = by(2)
    assert orders.transform(double).node is orders.transform(double).node
    assert orders.transform(double).node is not orders.transform(by(3)).node
