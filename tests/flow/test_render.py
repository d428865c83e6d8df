"""The picture of a flow, and the same as data."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from riverrun.flow import Flow, Stream, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.windows import tumbling


@pytest.fixture
def drawn(flow: Flow, orders: Stream, users: Table) -> Flow:
    big = orders.where('amount > 10 and user <> "x"')
    windows = big.window(tumbling("1 minute"), by="user").agg(n=rr.count(), total=rr.sum("amount"))
    flow.view("revenue", windows)
    flow.topic("enriched", orders.join(users, "user"), key="order_id")
    flow.alert("many", windows.where("n > 100"), to="mailto://a", message="{user}: {n}")
    return flow


def test_mermaid(drawn: Flow) -> None:
    assert drawn.render() == (
        "flowchart LR\n"
        '  n0[("orders")]\n'
        '  n1[("users")]\n'
        '  n2("where amount #gt; 10 and user #lt;#gt; #quot;x#quot;")\n'
        '  n3["tumbling 1 min by user: n = count(), total = sum(amount)"]\n'
        '  n4["inner join on user with the table"]\n'
        '  n5("where n #gt; 100")\n'
        '  e0[["view revenue"]]\n'
        '  e1[["topic enriched"]]\n'
        '  e2[["alert many"]]\n'
        "  n0 --> n2\n"
        "  n2 --> n3\n"
        "  n0 --> n4\n"
        "  n1 --> n4\n"
        "  n3 --> n5\n"
        "  n3 --> e0\n"
        "  n4 --> e1\n"
        "  n5 --> e2\n"
    )


def test_json(drawn: Flow) -> None:
    shown = drawn.to_json()
    assert json.loads(json.dumps(shown)) == shown == drawn.render("json")
    window = next(node for node in shown["nodes"] if node["kind"] == "window")
    place = window.pop("file"), window.pop("line")
    assert place[0].endswith("test_render.py") and place[1] > 0
    assert window == {
        "id": window["id"],
        "name": None,
        "kind": "window",
        "word": "window",
        "label": "tumbling 1 min by user: n = count(), total = sum(amount)",
        "table": True,
        "stateful": True,
        "retracts": False,
        "schema": {
            "user": "string",
            "window_start": "timestamp",
            "window_end": "timestamp",
            "n": "bigint",
            "total": "double",
        },
        "key": ["user", "window_start", "window_end"],
        "time": "window_end",
        "delay": 0,
    }
    assert {"from": window["id"], "to": "view-revenue"} in shown["edges"]
    ends = [{name: end[name] for name in ("id", "kind", "name", "node")} for end in shown["ends"]]
    assert ends[0] == {"id": "view-revenue", "kind": "view", "name": "revenue", "node": window["id"]}
    assert [end.get("key") for end in shown["ends"]] == [["user", "window_start", "window_end"], ["order_id"], None]
    assert len(shown["edges"]) == 8


def test_every_kind_has_a_label(flow: Flow, orders: Stream, users: Table) -> None:
    made = {
        "drop at": orders.drop("at"),
        "select user, amount + 1 as more": orders.select("user", "amount + 1 as more"),
        "with 1 as x": orders.with_columns(x="1"),
        "union": orders.union(orders),
        "transform len": orders.transform(len),
        "clock at, at by user": orders.clock("at", "at", "user"),
        "dedupe user": orders.dedupe("user"),
        "latest by user": orders.latest("user"),
        "group by user: n = count()": orders.group("user").agg(n=rr.count()),
        "all: n = count()": orders.group().agg(n=rr.count()),
        "top 2 by amount desc, at per user": orders.top(2, "amount desc, at", per="user"),
        "left join on user within -5 s … 2 s": orders.join(orders, "user", ("-5 s", "2 s"), how="left"),
        "inner as_of on user": orders.as_of(users, "user"),
        "full join on user = city": users.join(users, {"user": "city"}, how="full"),
        "versus 7 d before": orders.window(tumbling("1 d")).agg(n=rr.count()).versus("7 d"),
        "changes": users.changes(),
    }
    assert {label: rows.node.label for label, rows in made.items()} == {label: label for label in made}


def test_other_forms_are_refused(flow: Flow, refusal: Callable[..., str]) -> None:
    assert refusal(lambda: flow.render("svg")) == "form cannot be 'svg'. There are: mermaid, json"
