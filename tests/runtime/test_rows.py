"""Nodes that look at one row: conditions, expressions and unions, on their way to views, groups and topics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import ORDERS, SCHEMA, examples, order
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.flow.stream import Stream
from riverrun.testing import assert_same_as_batch, run_flow

SEEDS = st.integers(0, 99)


def orders(flow: Flow, topic: str = "orders") -> Stream:
    return flow.stream(topic, SCHEMA, time="at", key="user", lateness="8 seconds")


@given(ORDERS, ORDERS, SEEDS)
@examples(6)
def test_a_view_of_a_stream_keeps_every_row(rows: list[Any], others: list[Any], seed: int) -> None:
    flow = Flow("shop")
    dear = orders(flow).where("amount > 0").with_columns(double="amount * 2", n="coalesce(n, 0)").drop("item")
    more = orders(flow, "more").select("user", "n + 1 as n", "amount", "at", "cast(n as double) as double")
    flow.view("dear", dear)
    flow.view("both", dear.union(more))
    flow.view("twice", dear.union(dear.where("n > 0")).union(dear))
    made = 'select user, amount, coalesce(n, 0) as n, "at", amount * 2 as double from orders where amount > 0'
    both = f'{made} union all by name select user, n + 1 as n, amount, "at", n::double as double from more'
    twice = f"{made} union all {made} and n > 0 union all {made}"
    inputs = {"orders": rows, "more": others}
    assert_same_as_batch(flow, inputs, {"dear": made, "both": both, "twice": twice}, seed=seed, times=2, partitions=2)


@given(ORDERS, ORDERS, SEEDS)
@examples(6)
def test_groups_of_unions(rows: list[Any], others: list[Any], seed: int) -> None:
    flow = Flow("shop")
    one, two = orders(flow), orders(flow, "more")
    grouped = one.union(two.where("amount > 0")).group("item").agg(rows=count(), total=sum("n"), paid=sum("amount * n"))
    flow.view("items", grouped)
    flow.view("all", one.union(one).group().agg(rows=count(), total=sum("n")))
    items = """
        select item, count(*) as rows, sum(n) as total, sum(amount * n) as paid
        from (select * from orders union all select * from more where amount > 0) group by item
    """
    all_ = "select count(*) as rows, sum(n) as total from (from orders union all from orders) having count(*) > 0"
    inputs = {"orders": rows, "more": others}
    assert_same_as_batch(flow, inputs, {"items": items, "all": all_}, seed=seed, times=2, partitions=2)


@given(ORDERS, ORDERS, SEEDS)
@examples(6)
def test_ways_through_several_unions_are_told_apart(rows: list[Any], others: list[Any], seed: int) -> None:
    flow = Flow("shop")
    one, two = orders(flow), orders(flow, "more")
    both = one.union(two).dedupe(["user", "n", "amount", "at"], within="1 day")
    again = both.union(two).union(both.where("n > 0")).select("user", "n")
    flow.view("again", again)
    flow.view("first", again.top(10_000, "n"))
    flow.view("rows", again.group().agg(rows=count()))
    once = 'select distinct on (user, n, amount, "at") user, n from (from orders union all from more)'
    all_ = f"{once} union all select user, n from more union all select * from ({once}) where n > 0"
    expected = {"again": all_, "first": all_, "rows": f"select count(*) as rows from ({all_}) having count(*) > 0"}
    assert_same_as_batch(flow, {"orders": rows, "more": others}, expected, seed=seed, times=2, partitions=2)


def test_a_row_knows_where_it_stands_in_the_log() -> None:
    flow = Flow("shop")
    flow.view("places", orders(flow).select("user", "_partition as p", "_offset as o", "_key as k", "_time as t"))
    found = run_flow(
        flow, [{"orders": [order("ada", 1), order("bob", 2)]}, {"orders": [order("ada", 3)]}], partitions=4
    )
    places = [(row["user"], row["p"], row["o"], row["k"]) for row in found.views["places"]]
    parts = {user: p for user, p, _, _ in places}
    assert sorted(places) == [
        ("ada", parts["ada"], 0, "ada"),
        ("ada", parts["ada"], 1, "ada"),
        ("bob", parts["bob"], 0, "bob"),
    ]
    assert all(0 <= p < 4 for p in parts.values())


def test_a_view_with_a_key_has_the_newest_row_in_log_order() -> None:
    flow = Flow("shop")
    flow.view("users", orders(flow).select("user", "n"), key="user")
    found = run_flow(flow, [{"orders": [order("ada", 9, 1), order("bob", 1, 2)]}, {"orders": [order("ada", 3, 3)]}])
    assert found.views["users"] == [{"user": "ada", "n": 3}, {"user": "bob", "n": 2}]
    assert [[change.op for change in epoch] for epoch in found.changes["users"]] == [
        ["insert", "insert"],
        ["update"],
        [],
    ]


def test_what_duckdb_cannot_say_is_refused() -> None:
    flow = Flow("shop")
    flow.view("dear", orders(flow).where("xxhash64(user) % 2 = 0"))
    with pytest.raises(Invalid, match=r"test_rows.py:\d+: xxhash64\(user\) is not in .* has such a function"):
        run_flow(flow, {"orders": [order("ada", 1)]})


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("long", 1 << 62, "s: the sum does not fit long. Sum a decimal or a double instead"),
        ("decimal(38,0)", 6 * 10**37, "s: the sum does not fit decimal(38,0). Sum a double instead"),
    ],
)
def test_a_sum_that_does_not_fit_says_where_it_is_declared(kind: str, value: int, said: str) -> None:
    flow = Flow("shop")
    stock = flow.stream("stock", f"n {kind}, at timestamp", time="at")
    flow.view("totals", stock.group().agg(s=sum("n")))
    with pytest.raises(Invalid, match=rf"test_rows\.py:\d+: {re.escape(said)}"):
        run_flow(flow, {"stock": [{"n": value, "at": "2026-01-31T12:00:00Z"}] * 2})


def test_an_expression_that_fails_fails_the_run() -> None:
    flow = Flow("shop")
    flow.view("dear", orders(flow).select("user", "amount / n as each"))
    assert run_flow(flow, {"orders": [order("ada", 1, 2, amount=3.0)]}).views["dear"] == [{"user": "ada", "each": 1.5}]
    rows = [order("ada", 1, n % 7 + 1) for n in range(20)] + [order("bob", 2, 0, amount=4.0), order("eve", 3, 0)]
    with pytest.raises(Invalid) as caught:
        run_flow(flow, {"orders": rows})
    assert re.search(
        r"test_rows.py:\d+: amount / n fails on row orders@0:20 \(amount = 4.0, n = 0\): division by zero",
        str(caught.value),
    )


def test_an_expression_that_fails_is_named_as_and_where_it_was_written() -> None:
    """Not the line that reads its result, and not one whose result nobody needs; rows that a `where` before it keeps away
    are not blamed."""
    flow = Flow("shop")
    rows = orders(flow).where("user <> 'eve'")
    priced = rows.with_columns(each="cast(user as double) * 2", unused="cast(concat(user, 'x') as int)")
    flow.view("dear", priced.where("each > 1").select("n", "each"))
    with pytest.raises(Invalid) as caught:
        run_flow(flow, {"orders": [order("7", 1, 2), order("eve", 2, 2), order("many", 3, 4)]})
    assert "cast(user as double) * 2 fails on row orders@0:2 (user = many): 'many' is not a number." in str(
        caught.value
    )
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = int(str(caught.value).split(":")[1])
    assert "priced = rows.with_columns(" in source[line - 1]


def test_behind_a_node_its_name_and_the_row_are_named() -> None:
    """Such a row has no position in a topic; the key and what the expression reads say which it is."""
    flow = Flow("shop")
    per_user = orders(flow).group("user").agg(times=count(), all=sum("n")).named("per user")
    flow.view("shares", per_user.with_columns(share="times / all"))
    with pytest.raises(Invalid) as caught:
        run_flow(flow, {"orders": [order("ada", 1, 2), order("bob", 2, 0)]})
    said = str(caught.value)
    assert "times / all fails on a row of per user (times = 1, all = 0, user = bob): division by zero" in said
    assert "@" not in said
