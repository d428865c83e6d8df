"""Epochs of a whole flow: the ledger balances after each, and a crash anywhere changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import ORDERS, SCHEMA, examples, order
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.flow.windows import session, side, tumbling
from riverrun.testing import Append, Crash, Process, Result, Tick, run_flow

USERS = "user string, city string"
POINTS = [
    "host.stepped",
    "host.committed",
    "commit.begin",
    "commit.topics",
    "views.begun",
    "views.applied",
    "views.committed",
    "commit.store",
]


def shop() -> Flow:
    """A flow with a little of everything."""
    flow = Flow("shop")
    stream = flow.stream(
        "orders", SCHEMA, time="at", key="user", lateness="3 seconds", idle="1 minute", max_skew="30 seconds"
    )
    users = flow.table("users", USERS, key="user")
    once = stream.dedupe(["user", "item", "n", "at"], within="20 seconds")
    flow.view(
        "windows", once.window(tumbling("10 seconds"), by="item", late=side("late")).agg(rows=count(), total=sum("n"))
    )
    flow.view("sessions", stream.window(session("5 seconds"), by="user", emit="update").agg(paid=sum("amount")))
    flow.view("cities", users.group("city").agg(people=count()))
    flow.view("dear", stream.where("amount > 1"))
    flow.topic("totals", once.group("user").agg(rows=count(), paid=sum("amount")), key="user")
    flow.topic("cheap", stream.where("amount <= 1").select("user", "amount"))
    return flow


CHANGES = st.lists(
    st.builds(
        lambda user, city: {"user": user, **({"city": city} if city else {"_deleted": True})},
        st.sampled_from("abc"),
        st.sampled_from(["Oslo", "Rome", None]),
    ),
    max_size=6,
)
STEPS = st.lists(
    st.one_of(
        st.builds(lambda rows, changes: {"orders": rows, "users": changes}, ORDERS, CHANGES),
        st.builds(lambda rows: Append("orders", rows), ORDERS),
        st.sampled_from([Process(), Tick("20 seconds"), Tick("2 minutes")]),
    ),
    min_size=1,
    max_size=6,
)


def same(one: Result, other: Result) -> None:
    """Bit for bit: epochs were the same ones."""
    assert one.views == other.views
    assert one.topics == other.topics
    assert one.ledger == other.ledger
    assert one.watermarks == other.watermarks
    assert [[(c.op, c.before, c.after) for c in epoch] for view in one.changes.values() for epoch in view] == [
        [(c.op, c.before, c.after) for c in epoch] for view in other.changes.values() for epoch in view
    ]


@given(STEPS)
@examples(6)
def test_the_ledger_balances_after_every_epoch(steps: list[Any]) -> None:
    flow = shop()
    found = run_flow(flow, steps)
    for epoch in found.epochs:
        for entry in epoch.ledger:
            gone = entry["late_dropped"] + entry["late_aside"] + entry["duplicates"] + entry["quarantined"]
            assert entry["read"] == entry["accepted"] + gone, entry
    totals: dict[str, int] = {}
    for epoch in found.epochs:
        for entry in epoch.ledger:
            totals[entry["node"], entry["input"]] = totals.get((entry["node"], entry["input"]), 0) + entry["read"]
    assert {(e["node"], e["input"]): e["read"] for e in found.ledger} == totals
    # Every row is in the entry of its source, and what a source accepts is what its nodes read.
    given_ = [
        row
        for step in steps
        for row in (step["orders"] if isinstance(step, dict) else step.rows if isinstance(step, Append) else [])
    ]
    source = {e["node"]: e for e in found.ledger if e["input"] == "topic"}
    if given_:
        assert source["stream-orders"]["read"] == len(given_)
        assert source["stream-orders"]["quarantined"] == len(found.topics["orders.quarantine"])
        assert found.ledger_of("dedupe")["read"] == source["stream-orders"]["accepted"]


@given(STEPS, st.sampled_from(POINTS), st.integers(1, 3))
@examples(6)
def test_a_crash_anywhere_changes_nothing(steps: list[Any], point: str, shards: int) -> None:
    flow = shop()
    clean = run_flow(flow, steps, shards=shards)
    between = [step for part in steps for step in (part, Crash())]
    same(run_flow(flow, between, shards=shards), clean)
    inside = [
        step
        for part in steps
        for step in (
            [Crash(at=point), part] if isinstance(part, dict) and (part["orders"] or part["users"]) else [part]
        )
    ]
    same(run_flow(flow, inside, shards=shards), clean)


def test_a_crash_that_does_not_come_is_an_error() -> None:
    with pytest.raises(Invalid, match=r"no epoch came past the failpoint 'commit.nowhere'"):
        run_flow(shop(), [Crash(at="commit.nowhere"), {"orders": [order("ada", 1)]}])


def test_the_same_epochs_give_the_same_bits() -> None:
    rows = [order("abc"[i % 3], i % 20, i, amount=0.1 * i) for i in range(40)]
    steps = [{"orders": rows[:25]}, {"orders": rows[25:], "users": [{"user": "ada", "city": "Oslo"}]}]
    same(run_flow(shop(), steps, shards=2), run_flow(shop(), steps, shards=2))


@given(STEPS)
@examples(5)
def test_the_number_of_shards_does_not_matter(steps: list[Any]) -> None:
    one, three = (run_flow(shop(), steps, shards=shards) for shards in (1, 3))
    assert one.views == three.views
    assert one.ledger == three.ledger
