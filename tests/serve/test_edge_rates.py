"""What is known of the edges of a flow: counted where it is counted, derived where it follows, else nothing."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

import pytest

import riverrun as rr
from riverrun.errors import Corrupt
from riverrun.flow import Flow
from riverrun.river import River
from riverrun.runtime.status import FlowStatus
from riverrun.serve.backend import Backend
from riverrun.serve.flows import Flows
from riverrun.serve.pages import flow_page
from riverrun.serve.pages.edge_rates import measure_edges
from riverrun.serve.pages.history import Counted, FlowHistory, History
from riverrun.serve.pages.shell import Asked
from serve.conftest import ORDERS, CommittedFlow

SECOND = 1_000_000


def shop() -> Flow:
    made = rr.Flow("shop")
    orders = made.stream("orders", ORDERS, time="at", key="user")
    large = orders.where("amount > 100").select("user", "amount", "at")
    odd = orders.where("amount < 0")
    made.view("totals", orders.drop("at").group("user").agg(n=rr.count()).with_columns(twice="n * 2"))
    made.topic("large", large.with_columns(cents="amount * 100"), key="user")
    made.topic("both", large.union(odd), key="user")
    return made


SOURCE, GROUP = (next(node.id for node in shop().nodes if node.kind == kind) for kind in ("stream", "group"))


def counted(seconds: int, read: int = 0, accepted: int = 0, grouped: int = 0, changed: int = 0) -> Counted:
    reads = {(SOURCE, "topic"): read, (GROUP, "in"): grouped}
    return Counted(seconds * SECOND, reads, {(SOURCE, "topic"): accepted}, {"totals": changed})


def rates(history: History, *counts: Counted) -> dict[str, float]:
    """By the labels of both sides."""
    declared, past = shop(), FlowHistory(FlowStatus(flow="shop"))
    past.counts.extend(counts)
    labels = {node.id: node.label for node in declared.nodes} | {end.id: end.name for end in declared.ends}
    found = measure_edges(history, past, declared)
    return {f"{labels[start]} → {labels[end]}": rate for (start, end), rate in found.items()}


@pytest.fixture
def history(river: River) -> Iterator[History]:
    backend = Backend(river)
    yield History(backend, Flows(backend))
    backend.close()


def test_nothing_is_known_before_there_are_two_samples(history: History) -> None:
    assert rates(history) == rates(history, counted(0)) == {}


def test_what_was_counted_and_what_follows_from_it(history: History) -> None:
    assert rates(history, counted(0), counted(10, read=250, accepted=200, grouped=200, changed=30)) == {
        "orders → where amount > 100": 20.0,  # without what went into quarantine
        "orders → where amount < 0": 20.0,
        "orders → drop at": 20.0,
        "drop at → group by user: n = count()": 20.0,
        "with n * 2 as twice → totals": 3.0,  # what the group gave is not known: it takes rows back, too
    }


def test_a_zero_is_known(history: History) -> None:
    assert set(rates(history, counted(0, read=9, accepted=9), counted(5, read=9, accepted=9)).values()) == {0.0}


def test_a_derived_topic_tells_of_what_is_before_it(history: History) -> None:
    history.ends["large"] = deque([(0, 0), (10 * SECOND, 50)])
    history.ends["both"] = deque([(0, 0), (10 * SECOND, 70)])
    assert rates(history) == {
        "where amount > 100 → select user, amount, at": 5.0,
        "select user, amount, at → with amount * 100 as cents": 5.0,
        "select user, amount, at → union": 5.0,
        "with amount * 100 as cents → large": 5.0,
        "union → both": 7.0,  # of the other input it is not said
    }


def test_a_topic_that_is_being_dropped_is_no_trouble(
    history: History, river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(name: str) -> None:
        raise Corrupt(f"{name} is missing")

    with monkeypatch.context() as broken:
        broken.setattr(history.backend, "topic", fails)
        history.sample()
        assert history.trouble is None
        history.sample()
        assert history.trouble == "orders is missing"
    history.sample()
    assert history.trouble is None
    river.drop_topic("orders")
    history.sample()
    assert history.trouble is None


def test_changes_of_views_are_counted_while_somebody_looks(history: History, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    history.sample()
    assert history.flows["shop"].view_rate("totals") is None
    totals.commit(("ada", 1, 9.5, -1), ("ada", 2, 19.0, 1), ("bob", 1, 1.0, 1))
    history.sample()
    first, second = history.flows["shop"].counts
    assert (first.changed, second.changed) == ({"totals": 0}, {"totals": 2})
    assert (history.flows["shop"].view_rate("totals") or 0) > 0


def test_the_page_has_a_rate_on_the_edge_into_a_view(history: History, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    history.sample()
    totals.commit(("bob", 1, 1.0, 1))
    history.sample()
    drawn = flow_page.draw(history, Asked("/")).regions["graph"]
    assert re.search(r"<title>[\d.]+ rows changed per second</title>", drawn)
