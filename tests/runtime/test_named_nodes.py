"""Names that people give to nodes, wherever nodes are shown."""

from __future__ import annotations

import pytest

import riverrun as rr
from oracles.orders import SCHEMA, order
from riverrun.errors import Invalid
from riverrun.flow.fingerprint import fingerprints
from riverrun.runtime.evolution import plan_flow
from riverrun.testing import run_flow


def shop(name: str | None = "per minute") -> rr.Flow:
    flow = rr.Flow("shop")
    placed = flow.stream("orders", SCHEMA, time="at").where("n > 0")
    windows = placed.window(rr.tumbling("1 minute"), by="item").agg(rows=rr.count())
    flow.view("minutes", windows.named(name) if name else windows)
    return flow


def test_pictures_plans_and_the_ledger_show_the_name() -> None:
    flow = shop()
    (window,) = (node for node in flow.to_json()["nodes"] if node["kind"] == "window")
    assert window["name"] == "per minute"
    assert '"per minute: tumbling 1 min by item' in flow.render()
    assert [node.name for node in plan_flow(flow, None).nodes if node.node == window["id"]] == ["per minute"]
    ledger = run_flow(flow, [{"orders": [order("a", 1, 1)]}]).ledger
    assert [entry["name"] for entry in ledger if entry["node"] == window["id"]] == ["per minute"]
    assert all("name" not in entry for entry in ledger if entry["node"] != window["id"])


def test_a_name_changes_nothing_that_is_computed() -> None:
    """So it may come, go and change without a rebuild."""
    one, other = shop(), shop(None)
    assert [node.id for node in one.nodes] == [node.id for node in other.nodes]
    assert fingerprints(one.nodes) == fingerprints(other.nodes)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, 7])
def test_names_are_short_texts(name: str) -> None:
    with pytest.raises(Invalid, match=r"test_named_nodes.py:\d+: not a name for a node"):
        shop(name) if name else rr.Flow("f").stream("t", "n int").named(name)


def test_a_name_is_given_once() -> None:
    stream = rr.Flow("f").stream("t", "n int")
    some = stream.where("n > 1").named("some")
    assert some.named("some") is some
    with pytest.raises(Invalid, match=r"the node at .*:\d+ is called 'some' already"):
        stream.where("n > 2").named("some")
    with pytest.raises(Invalid, match="is called 'some' already"):
        some.named("others")
