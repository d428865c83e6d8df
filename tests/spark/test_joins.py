"""Every kind of join in one flow: with Spark it comes to what the testing kit comes to."""

from __future__ import annotations

from typing import Any

import pytest

from oracles.orders import at
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, max, sum
from riverrun.flow.windows import correct, tumbling
from riverrun.testing import Delete, compare_engines

pytestmark = pytest.mark.spark


def joins() -> Flow:
    flow = Flow("joins")
    orders = flow.stream(
        "orders", "n int, user string, item string, at timestamp", time="at", lateness="20 seconds", idle=None
    )
    payments = flow.stream(
        "payments", "m bigint, user string, at timestamp", time="at", lateness="20 seconds", idle=None
    )
    users = flow.table("users", "user string, city string", key="user")
    items = flow.table("items", "item string, kind string, weight int", key="item")
    prices = flow.table("prices", "item string, price int, since timestamp", key="item", time="since")

    for how in ("inner", "left", "right", "full"):
        flow.view(how, orders.join(payments, "user", within=("-2 seconds", "5 seconds"), how=how))
    paid = orders.join(payments.select("user as payer", "m"), {"user": "payer"}, within="3 seconds", how="left")
    flow.view("minutes", paid.window(tumbling("10 seconds"), by="item").agg(rows=count(), paid=count("m")))
    flow.view("again", orders.join(orders, ["user", "item"], within=("0 s", "20 s"), suffix="_2").where("n < n_2"))

    flow.view("cities", orders.join(users, "user", how="left").group("city").agg(rows=count()))
    priced = orders.as_of(prices, "item", how="left", late=correct("1 hour"))
    flow.view("priced", priced, key="n")
    flow.topic("priced-log", priced, key="n")
    flow.view("paid", priced.group("user").agg(paid=sum("price * 2"), last=max("since")))

    newest = orders.latest("user")
    three = newest.join(items, "item", how="left").join(users, "user", how="full")
    flow.view("three", three)
    flow.view("kinds", three.group("kind").agg(rows=count(), weight=sum("weight")))
    flow.view("best", three.top(1, "weight desc, user", per="city", rank="place", ties=True))
    flow.view("tables", users.union(items.select("item as user", "kind as city")).join(users, "city", suffix="_too"))
    flow.topic("three-log", three.where("n is not null"), key=["user", "item"])
    flow.view("ops", three.changes().group("_op").agg(rows=count()))
    return flow


def test_all_joins_come_to_the_same(expressions: str) -> None:
    orders = [
        {"n": i, "user": "abcd"[i % 4], "item": ["tea", "rye", "gin"][i % 3], "at": at(i * 1.5)} for i in range(40)
    ]
    payments = [{"m": i, "user": "abe"[i % 3], "at": at(i * 4 + 1)} for i in range(16)]
    rates = [{"item": "tea", "price": 3, "since": at(0)}, {"item": "rye", "price": 5, "since": at(10)}]
    script: list[Any] = [  # one append in each step, so that both see the same epochs
        {"users": [{"user": u, "city": c} for u, c in zip("abc", ["Oslo", "Rome", None], strict=True)]},
        {"items": [{"item": "tea", "kind": "hot", "weight": 1}, {"item": "rye", "kind": "dry", "weight": 2}]},
        {"prices": rates},
        {"payments": payments[:8]},
        {"orders": orders[:20]},
        {"items": [{"item": "tea", "kind": "dry", "weight": 4}, {"item": "gin", "kind": "hot", "weight": 4}]},
        {"prices": [{"item": "tea", "price": 4, "since": at(12)}]},
        Delete("users", "b"),
        {"orders": orders[20:]},
        {"payments": payments[8:]},
        {"users": [{"user": "a", "city": "Rome"}, {"user": "d", "city": "Oslo"}]},
    ]
    local, spark = compare_engines(joins(), script, partitions=2)
    assert all(len(rows) for rows in local.views.values())
    assert {row["price"] for row in local.views["priced"]} == {None, 3, 4, 5}
    assert {row["_op"] for row in local.views["ops"]} == {"insert", "update", "delete"}
    here, there = (sorted(made.ledger, key=lambda entry: (entry["node"], entry["input"])) for made in (local, spark))
    assert here == there
