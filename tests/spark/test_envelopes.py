"""Tables inside messages: with Spark they come to what they come to in the testing kit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.testing import Delete, compare_engines

pytestmark = pytest.mark.spark

UNAVAILABLE = "__debezium_unavailable_value"


def replicas() -> Flow:
    flow = Flow("replicas")
    users = flow.table("users", "id bigint, city string, note string", key="id", form="debezium")
    orders = flow.table("orders", "id bigint, user bigint, amount decimal(8,2)", key="id", form="maxwell")
    flow.view("users", users)
    flow.view("cities", users.select("id", "upper(city) as city").group("city").agg(rows=count()))
    flow.view("spent", orders.join(users, {"user": "id"}).group("city").agg(amount=sum("amount")))
    return flow


def user(op: str, id: int, city: str | None, note: str = "n") -> dict[str, Any]:
    row = {"id": id, "city": city, "note": note}
    sent = {"before": {"id": id}, "after": None} if op == "d" else {"before": None, "after": row}
    payload = {**sent, "op": op, "source": {"ts_ms": 1_767_225_600_000 + id}}
    return {"key": json.dumps({"id": id}), "json": json.dumps(payload)}


def order(kind: str, id: int, user: int, **more: Any) -> dict[str, Any]:
    text = {"type": kind, "ts": 1_767_225_600 + id, "data": {"id": id, "user": user, "amount": 1.25 * id}, **more}
    return {"key": json.dumps({"pk.id": id}), "json": json.dumps(text)}


def test_replicas_come_to_the_same(expressions: str) -> None:
    script: list[Any] = [
        {"users": [user("r", n, ["Oslo", "Rome", None][n % 3]) for n in range(40)]},
        {"orders": [order("insert", n, n % 50) for n in range(60)]},
        {"users": [user("u", n, "Bonn", UNAVAILABLE) for n in range(0, 44, 2)]},
        {"orders": [order("update", 100 + n, n, old={"id": n}) for n in range(5)]},
        {"users": [user("d", 3, None), {"key": '{"id": 3}', "json": None}, {"key": None, "json": "{"}]},
        {"orders": [order("delete", n, n) for n in range(20, 25)]},
        Delete("users", '{"id": 5}'),
    ]
    local, spark = compare_engines(replicas(), script, partitions=2)
    assert [row["id"] for row in local.views["users"]] == [n for n in range(40) if n not in (3, 5)]
    assert local.views["users"][2] == {"id": 2, "city": "Bonn", "note": "n"}
    assert len(local.topics["users.quarantine"]) == 3
    here, there = (sorted(made.ledger, key=lambda entry: (entry["node"], entry["input"])) for made in (local, spark))
    assert here == there
