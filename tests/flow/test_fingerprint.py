"""Fingerprints change if and only if what a stateful node computes changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from riverrun.flow import Flow, Table
from riverrun.flow import aggregates as rr
from riverrun.flow.fingerprint import fingerprints
from riverrun.flow.windows import correct, tumbling

ORDERS = "order_id string, user string, amount double, at timestamp"


def shop(
    schema: str = ORDERS,
    users: str = "user string, city string",
    where: str = "amount > 10",
    total: str = "amount * 2",
    window: Callable[[Any], Table] = lambda rows: rows.window(tumbling("1 minute"), by="user").agg(n=rr.sum("total")),
    before: Callable[[Flow], Any] = lambda flow: None,
    extra: dict[str, str] | None = None,
    **source: Any,
) -> dict[str, str]:
    """The fingerprints of a flow, by the name of the view the node feeds."""
    flow = Flow("shop")
    before(flow)
    orders = flow.stream("orders", schema, **{"time": "at", "lateness": "1 s", **source})
    big = orders.where(where).with_columns(total=total, **(extra or {}))
    flow.view("windows", window(big))
    flow.view("looked-up", orders.select("user", "amount").join(flow.table("users", users, key="user"), "user"))
    prints = fingerprints(flow.nodes)
    assert set(prints) == {node.id for node in flow.nodes if node.stateful}
    return {name: prints[end.node.id] for name, end in flow.views.items()}


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"where": "AMOUNT  >  10 -- big ones"},
        {"extra": {"unused": "order_id"}},
        {"schema": ORDERS + ", more string"},
        {"schema": "at timestamp, amount double, user string, order_id string"},
        {"key": "user"},
        {"before": lambda flow: flow.view("first", flow.stream("other", "a int").group("a").agg(n=rr.count()))},
        {"window": lambda rows: rows.window(tumbling(60), by=["USER"]).agg(n=rr.sum("total"))},
    ],
)
def test_kept(same: dict[str, Any]) -> None:
    found, kept = shop(), shop(**same)
    assert found == {name: kept[name] for name in found}


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        ({"where": "amount > 11"}, {"windows"}),
        ({"total": "amount * 3"}, {"windows"}),
        ({"lateness": "2 s"}, {"windows", "looked-up"}),
        ({"idle": "2 s"}, {"windows", "looked-up"}),
        ({"time": "_received"}, {"windows", "looked-up"}),
        ({"schema": ORDERS.replace("amount double", "amount float")}, {"windows", "looked-up"}),
        ({"schema": ORDERS.replace("order_id string", "order_id bigint")}, set()),
        ({"users": "user string, city string, age int"}, {"looked-up"}),
        ({"window": lambda rows: rows.window(tumbling("2 minutes"), by="user").agg(n=rr.sum("total"))}, {"windows"}),
        ({"window": lambda rows: rows.window(tumbling("1 minute"), by="user").agg(n=rr.avg("total"))}, {"windows"}),
        (
            {"window": lambda rows: rows.window(tumbling(60), by="user").agg(n=rr.sum("total", where="at > at"))},
            {"windows"},
        ),
        (
            {"window": lambda rows: rows.window(tumbling(60), by="user", late=correct(1)).agg(n=rr.sum("total"))},
            {"windows"},
        ),
    ],
)
def test_changed(change: dict[str, Any], touched: set[str]) -> None:
    found, changed = shop(), shop(**change)
    assert {name for name in found if found[name] != changed[name]} == touched


def test_a_transform_counts_by_its_text_and_what_it_encloses() -> None:
    def scaled(factor: int) -> Any:
        return lambda frame: frame.select(factor)

    def made(function: Any) -> dict[str, str]:
        flow = Flow("shop")
        orders = flow.stream("orders", ORDERS)
        flow.view("v", orders.transform(function, "user string").group("user").agg(n=rr.count()))
        return fingerprints(flow.nodes)

    assert made(scaled(2)) == made(scaled(2))
    assert made(scaled(2)) != made(scaled(3))
    assert made(scaled(2)) != made(lambda frame: frame)
    assert made(len) == made(len)
