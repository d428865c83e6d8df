"""Rows that come late to a join of streams: dropped, put aside in a topic for each side, or joined all the same."""

from __future__ import annotations

from typing import Any

import pytest

import riverrun as rr
from oracles.orders import at
from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.testing import run_flow

LOGINS, PAYMENTS = "card string, country string, at timestamp", "card string, amount bigint, at timestamp"


def takeovers(**options: Any) -> rr.Flow:
    flow = rr.Flow("fraud")
    logins = flow.stream("logins", LOGINS, time="at")
    payments = flow.stream("payments", PAYMENTS, time="at")
    joined = logins.join(payments, on="card", within=("0 s", "5 minutes"), rename={"at": "paid_at"}, **options)
    flow.view("takeovers", joined.select("card", "amount", "at", "paid_at"))
    return flow


def login(second: int) -> dict[str, Any]:
    return {"card": "c", "country": "NO", "at": at(second)}


def payment(second: int, amount: int) -> dict[str, Any]:
    return {"card": "c", "amount": amount, "at": at(second)}


# Time is at 1000 when the login and the payment of 100 come, which belong together.
LATE = [
    {"logins": [login(1000)], "payments": [payment(1000, 1)]},
    {"logins": [login(100)], "payments": [payment(160, 500)]},
]


def amounts(found: Any) -> list[int]:
    return sorted(row["amount"] for row in found.views["takeovers"])


def test_they_are_dropped_and_counted_by_default() -> None:
    found = run_flow(takeovers(), LATE)
    assert amounts(found) == [1]
    assert [entry["late_dropped"] for entry in found.ledger if entry["input"] in ("left", "right")] == [1, 1]


def test_they_are_put_aside_each_side_in_its_own_topic() -> None:
    found = run_flow(takeovers(late=(rr.side("late_logins"), rr.side("late_payments"))), LATE)
    assert amounts(found) == [1]
    (aside,) = found.topics["late_payments"]
    assert (aside["amount"], aside["at"], aside["_watermark"]) == (500, at(160), at(1000))
    assert [row["country"] for row in found.topics["late_logins"]] == ["NO"]
    assert [entry["late_aside"] for entry in found.ledger if entry["input"] in ("left", "right")] == [1, 1]


def test_one_side_may_be_put_aside_and_the_other_dropped() -> None:
    found = run_flow(takeovers(late=(rr.drop(), rr.side("late_payments"))), LATE)
    assert len(found.topics["late_payments"]) == 1
    assert "late_logins" not in found.topics


@pytest.mark.parametrize(("mine", "theirs"), [("int", "bigint"), ("bigint", "int"), ("bigint", "double")])
def test_late_rows_have_their_own_types_where_pairs_are_found_by_another(mine: str, theirs: str) -> None:
    flow = rr.Flow("numbers")
    left, right = (
        flow.stream(name, f"k {kind}, at timestamp", time="at") for name, kind in (("a", mine), ("b", theirs))
    )
    flow.view("pairs", left.join(right, on="k", within="1 minute", late=(rr.side("late_a"), rr.side("late_b"))))
    key = 2**53 + 1 if mine == "bigint" and theirs == "double" else 7
    early, late = ({name: [{"k": value, "at": at(hour)}] for name, value in (("a", key), ("b", 7))} for hour in (2, 1))
    found = run_flow(flow, [early, late])
    for name, kind, value in (("late_a", mine, key), ("late_b", theirs, 7)):
        assert found.topics[name].arrow.schema.field("k").type == ddl.to_arrow(ddl.parse(f"k {kind}")[0].type)
        assert [row["k"] for row in found.topics[name]] == [value]


@pytest.mark.parametrize(("horizon", "joined"), [("20 minutes", [1, 500]), ("10 minutes", [1])])
def test_they_are_joined_where_a_horizon_says_so(horizon: str, joined: list[int]) -> None:
    assert amounts(run_flow(takeovers(late=rr.correct(horizon)), LATE)) == joined


def test_time_behind_the_join_waits_for_the_horizon() -> None:
    """A window of the pairs is not closed before late ones may have come."""
    flow = takeovers(late=rr.correct("20 minutes"))
    node = flow.nodes[-2]
    assert node.delay == (5 + 20) * 60 * 1_000_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"late": rr.side("late")}, "topic 'late' gets late rows with other columns"),
        ({"late": rr.correct("1 hour"), "how": "left"}, "rr.correct is for inner joins"),
        ({"late": (rr.correct("1 hour"), rr.drop())}, "rr.correct is for both sides, or for none"),
        ({"late": "1 hour"}, "not a late policy"),
        ({"rename": {"att": "x"}}, "rename: there is no column 'att' on the right. Did you mean 'at'"),
        ({"rename": {"card": "x"}}, "rename: 'card' is part of on"),
        ({"rename": {"at": "country"}}, "there are two columns 'country'"),
    ],
)
def test_refusals(options: dict[str, Any], said: str) -> None:
    flow = rr.Flow("fraud")
    logins, payments = flow.stream("logins", LOGINS, time="at"), flow.stream("payments", PAYMENTS, time="at")
    with pytest.raises((Invalid, rr.NotFound), match=rf"test_late_in_joins.py:\d+: .*{said}"):
        logins.join(payments, **{"on": "card", "within": "5 minutes", **options})


def test_a_lookup_has_no_late_rows() -> None:
    flow = rr.Flow("fraud")
    logins = flow.stream("logins", LOGINS, time="at")
    with pytest.raises(Invalid, match="a join with a table takes no late: its rows are never late"):
        logins.join(flow.table("cards", "card string, owner string", key="card"), on="card", late=rr.drop())


def test_columns_of_tables_are_renamed_too() -> None:
    flow = rr.Flow("fraud")
    logins = flow.stream("logins", LOGINS, time="at")
    cards = flow.table("cards", "card string, country string, at timestamp", key="card", time="at")
    rename = {"country": "home", "at": "since"}
    assert list(logins.join(cards, on="card", rename=rename).schema) == ["card", "country", "at", "home", "since"]
    assert list(logins.as_of(cards, on="card", rename=rename).schema)[3:] == ["home", "since", "_version"]
    assert list(cards.join(cards.where("card > 'a'"), on="card", rename=rename).schema)[3:] == ["home", "since"]


def test_as_of_needs_to_know_the_time_of_versions() -> None:
    flow = rr.Flow("fraud")
    logins = flow.stream("logins", LOGINS, time="at")
    cards = flow.table("cards", "card string, owner string", key="card")
    with pytest.raises(
        Invalid, match=r"as_of: table 'cards' has no time.*time=\"_received\" goes by when versions came"
    ):
        logins.as_of(cards.where("owner is not null"), on="card")
    logins.as_of(flow.table("others", "card string, owner string", key="card", time="_received"), on="card")
    logins.as_of(logins.latest("card"), on="card")
