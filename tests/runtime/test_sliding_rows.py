"""Sliding windows that keep the row they end with: which payment brought a card over its limit."""

from __future__ import annotations

import random
from typing import Any

import pytest

import riverrun as rr
from oracles.orders import at
from riverrun.errors import Invalid
from riverrun.testing import Crash, run_flow

SCHEMA = "card string, payment string, amount bigint, at timestamp"


def limits(**options: Any) -> rr.Flow:
    flow = rr.Flow("fraud")
    payments = flow.stream("payments", SCHEMA, time="at", lateness="10 seconds", key="payment")
    recent = payments.window(rr.sliding("1 minute", keep=["payment", "amount"]), by="card", **options)
    flow.view("sums", recent.agg(total=rr.sum("amount"), rows=rr.count()))
    return flow


def payment(name: str, second: int, amount: int = 10, card: str = "c") -> dict[str, Any]:
    return {"card": card, "payment": name, "amount": amount, "at": at(second)}


def sums(found: Any) -> dict[str, tuple[int, int]]:
    return {row["payment"]: (row["amount"], row["total"]) for row in found.views["sums"]}


def test_each_row_has_a_result_also_of_the_same_instant() -> None:
    rows = [payment("p1", 0, 10), payment("p2", 30, 20), payment("p3", 30, 30), payment("p4", 70, 40)]
    found = run_flow(limits(), [{"payments": rows}])
    assert sums(found) == {"p1": (10, 10), "p2": (20, 60), "p3": (30, 60), "p4": (40, 90)}
    assert set(found.views["sums"][0]) == {"card", "payment", "amount", "window_start", "window_end", "total", "rows"}


@pytest.mark.parametrize(
    "options", [{}, {"emit": "update"}, {"late": rr.correct("1 minute")}, {"late": rr.side("late")}]
)
def test_any_order_and_batching_gives_what_the_definition_says(options: dict[str, Any]) -> None:
    dice = random.Random(7)
    rows = [payment(f"p{n}", dice.randrange(200), dice.randrange(100), dice.choice("ab")) for n in range(40)]
    expected = {
        one["payment"]: (
            one["amount"],
            sum(
                other["amount"]
                for other in rows
                if other["card"] == one["card"] and 0 <= (one["at"] - other["at"]).total_seconds() < 60
            ),
        )
        for one in rows
    }
    arrival = sorted(rows, key=lambda row: (row["at"] - at(0)).total_seconds() + dice.uniform(0, 10))
    script: list[Any] = []
    for low in range(0, 40, 7):
        script += [{"payments": arrival[low : low + 7]}, Crash()]
    assert sums(run_flow(limits(**options), script, partitions=1)) == expected


def test_a_correction_shows_in_every_row_that_it_reaches() -> None:
    script = [
        {"payments": [payment("p1", 0), payment("p2", 30), payment("p3", 30)]},
        {"payments": [payment("p4", 200)]},
        {"payments": [payment("late", 20)]},
    ]
    found = run_flow(limits(late=rr.correct("10 minutes")), script, partitions=1)
    assert sums(found) == {"p1": (10, 10), "late": (10, 20), "p2": (10, 40), "p3": (10, 40), "p4": (10, 10)}


def test_columns_to_keep_must_be_there() -> None:
    stream = rr.Flow("fraud").stream("payments", SCHEMA, time="at")
    with pytest.raises(rr.NotFound, match="keep: there is no column 'paymnt'. Did you mean 'payment'"):
        stream.window(rr.sliding("1 minute", keep="paymnt"))
    with pytest.raises(Invalid, match="agg: there is a column 'payment' already"):
        stream.window(rr.sliding("1 minute", keep="payment")).agg(payment=rr.count())
