"""`riverrun plan`: what a run would do with the state that is there; nothing is started or changed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from riverrun.cli.flow_file import load_flow
from riverrun.river import River
from riverrun.runtime.manifest import Manifest, computation
from riverrun.runtime.plan import Plan
from riverrun.views import Epoch, ViewSpec

HEAD = """
import riverrun as rr

flow = rr.Flow("shop")
orders = flow.stream("orders", "user string, amount double, at timestamp", key="user", time="at")
"""
TOTALS = 'flow.view("totals", orders.group("user").agg(n=rr.count()))\n'
MINUTES = 'flow.view("minutes", orders.window(rr.tumbling("1 minute"), by="user").agg(n=rr.count()))\n'


def write(*parts: str) -> None:
    Path("shop.py").write_text(HEAD + "".join(parts))


@pytest.fixture
def river(riverrun: Any) -> Iterator[River]:
    with River("river") as river:
        river.topic("orders", "user string, amount double, at timestamp", key="user", time="at", retention="100 ms")
        yield river


def leave(river: River, *parts: str, rows: int = 0, final: bool = False) -> None:
    """What one epoch of the flow leaves behind."""
    write(*parts)
    positions = river.topic("orders").latest
    manifest = Manifest(1, 2, {}, computation(load_flow("shop.py")), final)
    fence = river.store.take_fence("shop")
    river.store.commit(Epoch("shop", fence, 1, positions, manifest=manifest.encode()))
    home = Path(river.checkpoints) / "shop"
    for kind in ("offsets", "commits"):
        (home / "checkpoint" / kind).mkdir(parents=True)
    plan = Plan(1, 0, positions, {}, None, final).to_json()
    (home / "checkpoint/metadata").write_text('{"id":"one"}')
    (home / "checkpoint/offsets/0").write_text(f"v1\n{{}}\n{json.dumps(plan)}")
    (home / "checkpoint/commits/0").write_text("v1\n{}")


def fates(found: dict[str, Any]) -> dict[str, str]:
    return {node["node"].split("-")[0]: node["fate"] for node in found["nodes"]}


def test_a_flow_that_never_ran_where_there_is_no_river(riverrun: Any) -> None:
    write(TOTALS)
    found = riverrun("plan", "shop.py", "--json").json
    assert (found["run"], found["epoch"], fates(found)) == ("starts", 0, {"group": "new"})
    assert found["nodes"][0]["place"] == "shop.py:6"
    assert not Path("river").exists()
    assert riverrun("plan", "shop.py").out.startswith("shop has not run yet; a run starts it\n")


def test_nothing_has_changed(riverrun: Any, river: River) -> None:
    leave(river, TOTALS)
    write("# a comment\n", TOTALS.replace("orders.group", "orders\\\n    .group"))
    found = riverrun("plan", "shop.py", "--json").json
    assert (found["run"], found["reason"], fates(found)) == ("resumes", None, {"group": "unchanged"})
    assert "is at epoch 1; a run goes on from there" in riverrun("plan", "shop.py").out


def test_another_number_of_shards(riverrun: Any, river: River, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(river, TOTALS)  # in two
    monkeypatch.setenv("RIVERRUN_SHARDS", "2")
    assert riverrun("plan", "shop.py", "--json").json["run"] == "resumes"
    monkeypatch.setenv("RIVERRUN_SHARDS", "8")
    found = riverrun("plan", "shop.py", "--json").json
    assert found["run"] == "rebuilds"
    assert found["reason"] == (
        "flow shop has 2 shards and is to have 8 (setting shards): its views are computed from the log again"
    )


def test_changed_new_and_gone(riverrun: Any, river: River) -> None:
    leave(river, TOTALS, MINUTES)
    write(TOTALS.replace("rr.count()", "rr.count('amount')"), TOTALS.replace('"totals"', '"t"').replace("user", "at"))
    found = riverrun("plan", "shop.py", "--json").json
    assert found["run"] == "rebuilds"
    assert found["reason"].startswith("flow shop has changed since its last epoch (group-")
    assert found["reason"].endswith("view-t): its views are computed from the log again")
    assert [(node["node"].split("-")[0], node["fate"]) for node in found["nodes"]] == [
        ("group", "changed"),
        ("group", "new"),
        ("view", "gone"),
        ("window", "gone"),
    ]
    text = riverrun("plan", "shop.py")
    assert text.code == 0
    assert "a run computes its views from the log again" in text.out


def test_views_that_are_new_gone_or_have_other_columns(riverrun: Any, river: River) -> None:
    for name, columns in {"totals": "user string, n bigint", "old": "user string, n bigint"}.items():
        river.store.declare(ViewSpec(name, "shop", columns, ("user",), ("orders",)))
    leave(river, TOTALS, TOTALS.replace('"totals"', '"old"'))
    totals = TOTALS.replace("rr.count()", 'rr.sum("amount"), largest=rr.max("amount")')
    write(totals, MINUTES)
    found = riverrun("plan", "shop.py", "--json").json["views"]
    assert found == [
        {"view": "totals", "fate": "changed", "differences": ["+ largest double", "~ n double, was bigint"]},
        {"view": "minutes", "fate": "new", "differences": []},
        {"view": "old", "fate": "gone", "differences": []},
    ]
    shown = riverrun("plan", "shop.py").out
    assert "+ largest double; ~ n double, was bigint" in shown
    assert "minutes" in shown


def test_a_flow_that_is_refused_before_its_first_run(riverrun: Any, river: River) -> None:
    river.topic("orders", "user string, amount double, at timestamp", key="user", time="at")
    Path("shop.py").write_text(HEAD.replace("amount double", "amount int") + TOTALS)
    refused = riverrun("plan", "shop.py")
    assert refused.code == 1
    assert "shop has not run yet; a run is refused" in refused.out


def test_the_exit_code_tells_a_pipeline_what_a_run_would_do(riverrun: Any, river: River) -> None:
    leave(river, TOTALS)
    assert riverrun("plan", "shop.py", "--exit-code").code == 0
    write(MINUTES)
    assert riverrun("plan", "shop.py").code == 0
    assert riverrun("plan", "shop.py", "--exit-code").code == 3
    Path("shop.py").write_text(HEAD.replace("amount double", "amount int") + TOTALS)
    assert riverrun("plan", "shop.py").code == riverrun("plan", "shop.py", "--exit-code").code == 1


def test_a_column_that_the_topic_has_in_another_type_is_refused_with_the_way_on(riverrun: Any, river: River) -> None:
    leave(river, TOTALS)
    Path("shop.py").write_text(HEAD.replace("amount double", "amount int") + TOTALS + MINUTES)
    refused = riverrun("plan", "shop.py")
    assert refused.code == 1
    assert refused.out.startswith(
        "shop is at epoch 1; a run is refused\n  shop.py:5: column 'amount' of topic orders is double, not int. "
    )
    assert 'Declare it as double and use with_columns(amount="cast(amount as int)")' in refused.out
    assert "not computed, the run is refused" in refused.out
    assert "computed from the log" not in refused.out


@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        ("orders.where('amount > 1')", "orders.where('amount > 2')", "changed"),
        ("orders.where('amount > 1')", "orders.where('amount > 1').drop('at')", "changed"),
        ("orders, key='user'", "orders", "changed"),
        ("orders", "orders, history='1 day'", None),
        ("orders.where('amount > 1')", "orders.where('AMOUNT>1')", None),
    ],
)
def test_a_view_that_only_picks_rows(riverrun: Any, river: River, before: str, after: str, fate: str | None) -> None:
    """It has no state, but rows that would not be there, or others that would."""
    leave(river, TOTALS, f'flow.view("large", {before})\n')
    write(TOTALS, f'flow.view("large", {after})\n')
    found = riverrun("plan", "shop.py", "--json").json
    changed = {} if fate is None else {"view": fate}
    assert (found["run"], fates(found)) == ("rebuilds" if fate else "resumes", {"group": "unchanged", **changed})
    notes = [node["note"] for node in found["nodes"] if node["fate"] == "unchanged"]
    assert notes == ["state computed again with the others" if fate else "state kept"]


def test_a_node_whose_history_is_gone(riverrun: Any, river: River) -> None:
    topic = river.topic("orders")
    topic.append({"user": "ada", "amount": 1.0, "at": "2026-01-01T00:00:00Z"})
    leave(river, TOTALS)
    time.sleep(0.15)
    topic.enforce_retention()
    write(TOTALS, MINUTES)
    found = riverrun("plan", "shop.py", "--json").json
    assert found["run"] == "refused"
    assert "cannot be rebuilt: the beginning of orders was removed by retention" in found["reason"]
    assert fates(found) == {"group": "unchanged", "window": "refused"}
    assert "the beginning of orders was removed by retention" in str(found["nodes"])


def test_what_else_stands_in_the_way(riverrun: Any, river: River) -> None:
    leave(river, TOTALS)
    Path("shop.py").write_text(HEAD.replace("amount double", "amount bigint") + TOTALS)
    found = riverrun("plan", "shop.py", "--json").json
    assert found["run"] == "refused"
    assert "column 'amount' of topic orders is double, not bigint" in found["reason"]


def test_another_topic(riverrun: Any, river: River) -> None:
    leave(river, TOTALS)
    Path("shop.py").write_text(HEAD.replace('stream("orders"', 'stream("sales"') + TOTALS)
    found = riverrun("plan", "shop.py", "--json").json
    assert found["run"] == "rebuilds"
    assert "topic orders, topic sales" in found["reason"]


def test_a_drained_flow_is_rebuilt_only_when_asked(riverrun: Any, river: River) -> None:
    leave(river, TOTALS, final=True)
    river.topic("orders").append({"user": "ada", "amount": 1.0, "at": "2026-01-01T00:00:00Z"})
    found = riverrun("plan", "shop.py", "--json").json
    assert found["run"] == "refused"
    assert "riverrun run FLOW.py --rebuild" in found["reason"]


def test_looking_makes_no_view_store(riverrun: Any, river: River) -> None:
    write(TOTALS)
    assert riverrun("plan", "shop.py", "--json").json["run"] == "starts"
    assert not Path("river/views.db").exists()


def test_views_that_are_gone_are_computed_again_as_a_run_says(riverrun: Any, river: River) -> None:
    """With the file of the store away, and with another one in its place."""
    leave(river, TOTALS)
    offsets = Path("river/flows/shop/checkpoint/offsets")
    (offsets / "1").write_text((offsets / "0").read_text())
    river.close()
    for file in Path("river").glob("views.db*"):
        file.unlink()
    away = riverrun("plan", "shop.py", "--exit-code")
    assert away.code == 3
    assert away.out.splitlines()[:2] == [
        "shop has run before; a run computes its views from the log again",
        "  flow shop has run before, and this store does not have its views: its views are computed from the log again",
    ]
    assert not Path("river/views.db").exists()
    with River("river") as again:
        assert again.store.flows() == []
    assert riverrun("plan", "shop.py", "--exit-code").out == away.out
