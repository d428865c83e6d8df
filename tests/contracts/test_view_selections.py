"""Rows chosen by conditions with values, ordered and paged."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from contracts.view_flow import ViewFlow, revenue, weighted
from riverrun.errors import Invalid, NotFound, TimedOut
from riverrun.views import Condition, Selection


def test_a_selection_compares_values_orders_and_pages(store):
    schema = "user string, day date, n bigint, price decimal(8,2), share double, at timestamp, tags array<string>"
    spec = revenue(schema=schema, key=("user", "day"))
    flow = ViewFlow(store, spec)
    day, at = date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC)
    given = [
        ("ada", day, 1, Decimal("9.50"), 0.5, at, ["x"], 1),
        ("ada", None, 2, Decimal("10.00"), math.nan, at + timedelta(hours=1), None, 1),
        (None, day, 3, None, None, None, [], 1),
        ("b%b_!", day, 3, Decimal("-1.00"), -0.5, at, [], 1),
    ]
    flow.commit({"revenue": weighted(schema, *given)})

    def chosen(*conditions: tuple, order: tuple = (), **more) -> list:
        selection = Selection(tuple(Condition(*one) for one in conditions), order, **more)
        return [(row["user"], row["n"]) for row in store.select("revenue", selection).to_pylist()]

    assert sorted(chosen(), key=str) == [("ada", 1), ("ada", 2), ("b%b_!", 3), (None, 3)]
    assert chosen(("user", "eq", "ada"), order=(("n", True),)) == [("ada", 2), ("ada", 1)]
    assert chosen(("user", "eq", None)) == chosen(("price", "eq", None)) == [(None, 3)]
    assert sorted(chosen(("user", "ne", "ada")), key=str) == [("b%b_!", 3), (None, 3)]
    assert chosen(("day", "eq", "2026-01-31"), ("n", "lt", "3")) == [("ada", 1)]
    assert chosen(("day", "eq", None)) == chosen(("share", "eq", math.nan)) == [("ada", 2)]
    assert chosen(("price", "ge", "9.5"), order=(("price", False),)) == [("ada", 1), ("ada", 2)]
    assert chosen(("price", "lt", "9.50")) == [("b%b_!", 3)]
    assert chosen(("at", "gt", "2026-01-31T12:30:00Z")) == [("ada", 2)]
    assert chosen(("user", "has", "DA")) == chosen(("user", "eq", "ada"))
    assert chosen(("user", "has", "%B_")) == [("b%b_!", 3)]
    assert chosen(("user", "has", "%ada")) == chosen(("user", "eq", "' or 1=1 --")) == []
    assert chosen(order=(("price", False),), limit=2) == [(None, 3), ("b%b_!", 3)]
    assert chosen(order=(("price", True),), limit=2, offset=1) == [("ada", 1), ("b%b_!", 3)]
    assert chosen(order=(("price", True),), offset=3) == [(None, 3)]
    for bad, error in (
        (("nobody", "eq", 1), NotFound),
        (("tags", "eq", "x"), Invalid),
        (("n", "eq", "many"), Invalid),
        (("n", "like", "1"), Invalid),
        (("n", "has", "1"), Invalid),
        (("n", "lt", None), Invalid),
    ):
        with pytest.raises(error):
            chosen(bad)
    with pytest.raises(Invalid, match="limit must be"):
        chosen(limit=-1)


def test_flows_that_have_written(store):
    assert store.flows() == []
    ViewFlow(store, revenue())
    ViewFlow(store, name="audit")
    assert store.flows() == ["audit", "shop"]


def test_a_page_has_so_many_rows_and_about_so_many_bytes(store):
    flow = ViewFlow(store, revenue(schema="user string, said string"))
    given = [(f"u{i:04}", "x" * 100, 1) for i in range(1000)]
    flow.commit({"revenue": weighted("user string, said string", *given)})

    def page(size: int, limit: int | None, offset: int = 0) -> tuple[list[str], bool]:
        table, more = store.page("revenue", Selection((), (), limit, offset), size)
        return table.column("user").to_pylist(), more

    every = [user for user, *_ in given]
    assert page(1 << 20, None) == page(1 << 20, 1000) == page(1 << 20, 5000) == (every, False)
    assert page(1 << 20, 999) == (every[:999], True)
    assert page(1 << 20, 20, 990) == (every[990:], False)
    assert page(1 << 20, 20, 1000) == page(1 << 20, 0) == ([], False)
    found: list[str] = []
    more = True
    while more:
        part, more = page(20_000, 10_000, len(found))
        assert 100 < len(part) < 400
        found += part
    assert found == every
    assert page(0, 10)[1]  # never nothing, so that one comes to the end


def test_a_page_of_large_rows_ends_with_the_last_that_fits(store):
    flow = ViewFlow(store, revenue(schema="user string, said string"))
    given = [(f"u{i:04}", "x" * 100_000, 1) for i in range(40)]
    flow.commit({"revenue": weighted("user string, said string", *given)})
    for size, rows in ((450_000, 4), (1_000, 1), (1_550_000, 15), (10_000_000, 40)):
        table, more = store.page("revenue", Selection((), (), None), size)
        assert (table.num_rows, more) == (rows, rows < 40)


def test_a_page_that_takes_too_long_is_stopped(store):
    flow = ViewFlow(store, revenue())
    flow.commit({"revenue": weighted("user string, n bigint", *((f"u{i}", i, 1) for i in range(50_000)))})
    with pytest.raises(TimedOut):
        store.page("revenue", Selection((), (("n", True),), 10), 1 << 20, timeout=0.0001)
    assert store.page("revenue", Selection((), (), 1), 1 << 20)[0].num_rows == 1
