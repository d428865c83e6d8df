"""Derived topics: of streams every row once, of tables one row or tombstone per changed key; read again by other flows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import ORDERS, SCHEMA, at, examples, order
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, max, sum
from riverrun.flow.stream import Stream
from riverrun.flow.windows import correct, session, tumbling
from riverrun.log.spec import TopicSpec
from riverrun.testing import Crash, Delete, assert_same_batching, run_flow

EPOCHS = st.lists(ORDERS, min_size=1, max_size=4)
POINTS = st.sampled_from([None, "commit.begin", "commit.topics", "views.applied", "commit.store"])


def orders(flow: Flow) -> Stream:
    return flow.stream("orders", SCHEMA, time="at", key="user", lateness="8 seconds")


def script(epochs: list[list[Any]], point: str | None) -> list[Any]:
    """Epochs, a crash in each."""
    steps: list[Any] = []
    for rows in epochs:
        steps += [*([Crash(at=point)] if point and rows else []), {"orders": rows}]
    return steps


@given(EPOCHS, POINTS)
@examples(8)
def test_a_derived_stream_has_every_row_once(epochs: list[list[Any]], point: str | None) -> None:
    flow = Flow("shop")
    flow.topic("dear", orders(flow).where("amount > 0").select("user", "n", "at"), key="user")
    found = run_flow(flow, script(epochs, point), partitions=2)
    dear = [
        {name: row[name] for name in ("user", "n", "at")} for rows in epochs for row in rows if (row["amount"] or 0) > 0
    ]
    assert sorted(found.topics["dear"], key=repr) == sorted(dear, key=repr)
    times = [row["at"] for row in found.topics["dear"]]
    assert found.topics["dear"].polars["_time"].to_list() == times


@given(EPOCHS, POINTS, st.sampled_from(["update", "correct", "session"]))
@examples(8)
def test_a_derived_table_read_again_is_the_table(epochs: list[list[Any]], point: str | None, how: str) -> None:
    flow = Flow("shop")
    stream = orders(flow)
    options: dict[str, Any] = {"late": correct("1 minute")} if how == "correct" else {"emit": "update"}
    window = session("5 seconds") if how == "session" else tumbling("10 seconds")
    windows = stream.window(window, by="user", **options).agg(rows=count(), total=sum("n"))
    users = stream.group("user").agg(rows=count(), most=max("amount"))
    flow.view("windows", windows)
    flow.topic("windows", windows, key=["user", "window_start", "window_end"])
    flow.view("busy", users.where("rows = 2"))
    flow.topic("busy", users.where("rows = 2"), key="user")
    found = run_flow(flow, script(epochs, point), partitions=2)

    again = Flow("again")
    columns = "user string, window_start timestamp, window_end timestamp, rows bigint, total bigint"
    again.view("windows", again.table("windows", columns, key=["user", "window_start", "window_end"]))
    again.view("busy", again.table("busy", "user string, rows bigint, most double", key="user"))
    read = run_flow(again, {name: found.topics[name] for name in ("windows", "busy")}, partitions=2)
    assert read.views["windows"] == found.views["windows"]
    assert read.views["busy"] == found.views["busy"]


def test_a_table_writes_one_row_or_tombstone_per_changed_key() -> None:
    flow = Flow("shop")
    few = orders(flow).group("user").agg(rows=count()).where("rows < 3")
    flow.topic("few", few, key="user")
    steps = [
        {"orders": [order("ada", 1)]},
        {"orders": [order("ada", 2), order("bob", 3)]},
        {"orders": [order("ada", 4)]},
    ]
    found = run_flow(flow, steps)
    gone = {"user": "ada", "rows": None, "_deleted": True}
    assert found.topics["few"] == [
        {"user": "ada", "rows": 1},
        {"user": "ada", "rows": 2},
        {"user": "bob", "rows": 1},
        gone,
    ]


def test_a_table_may_have_a_column_that_says_what_happened() -> None:
    flow = Flow("shop")
    users = flow.table("users", "user string, n bigint", key="user")
    happened = users.changes().group("_op").agg(rows=count())
    flow.view("happened", happened)
    flow.topic("happened", happened, key="_op")
    steps = [{"users": [{"user": "ada", "n": 1}, {"user": "bob", "n": 1}]}, {"users": [{"user": "ada", "n": 2}]}]
    found = run_flow(flow, steps)
    assert found.topics["happened"] == [{"_op": "insert", "rows": 2}, {"_op": "update", "rows": 1}]
    assert found.views["happened"] == found.topics["happened"]


def test_the_time_of_a_derived_row_is_the_results() -> None:
    flow = Flow("shop")
    windows = orders(flow).window(tumbling("10 seconds"), by="user").agg(rows=count())
    flow.topic("windows", windows, key=["user", "window_start", "window_end"])
    flow.topic("users", orders(flow).group("user").agg(rows=count()), key="user")
    found = run_flow(flow, {"orders": [order("ada", 3), order("ada", 12)]})
    assert found.topics["windows"].polars["_time"].to_list() == [at(10), at(20)]
    assert found.topics["users"].polars["_time"].to_list() == [at(12)]


@given(ORDERS, st.integers(0, 99))
@examples(4)
def test_topics_agree_for_all_batchings(rows: list[Any], seed: int) -> None:
    flow = Flow("shop")
    stream = orders(flow)
    flow.topic("rows", stream.where("n > 0").union(stream.select("*")))
    flow.topic("users", stream.group("user").agg(rows=count()), key="user")
    assert_same_batching(flow, {"orders": rows}, seed=seed, times=2, shuffle=True, partitions=2)


def test_null_is_a_key_like_any_other() -> None:
    flow = Flow("shop")
    rows = flow.stream("events", "kind string, n bigint")
    flow.topic("kinds", rows.group("kind").agg(n=count()), key="kind")
    flow.topic("copies", rows, key="kind")
    script = [{"events": [{"kind": None, "n": 1}, {"kind": "a", "n": 2}]}, {"events": [{"kind": None, "n": 3}]}]
    found = run_flow(flow, script, partitions=2)
    assert sorted((row["kind"] or "", row["n"]) for row in found.topics["copies"]) == [("", 1), ("", 3), ("a", 2)]
    assert sorted((row["kind"] or "", row["n"]) for row in found.topics["kinds"]) == [("", 1), ("", 2), ("a", 1)]
    again = Flow("again")
    again.view("kinds", again.table("kinds", "kind string, n bigint", key="kind"))
    read = run_flow(
        again,
        {"kinds": found.topics["kinds"]},
        topics=[TopicSpec("kinds", "kind string, n bigint", key="kind", null_keys=True)],
    )
    assert sorted((row["kind"] or "", row["n"]) for row in read.views["kinds"]) == [("", 2), ("a", 1)]


def test_of_a_stream_that_corrects_the_newest_row_of_a_key_counts() -> None:
    """Also when the one before it is corrected, or it is taken back itself."""
    flow = Flow("shop")
    sold = flow.stream("sold", "k string, n bigint, at timestamp", time="at", lateness="1 minute")
    rates = flow.table("rates", "k string, rate bigint, at timestamp", key="k", time="at", lateness="1 minute")
    taxed = sold.as_of(rates.where("rate > 0"), on="k").select("k", "n", "rate")
    flow.view("newest", taxed, key="k")
    flow.topic("newest-topic", taxed, key="k")

    def rate(value: int, second: int) -> dict[str, Any]:
        return {"rates": [{"k": "x", "rate": value, "at": at(second)}]}

    rows = [{"k": "x", "n": 1, "at": at(6)}, {"k": "x", "n": 2, "at": at(8)}]
    steps: list[Any] = [rate(5, 0), {"sold": rows}]
    for step, n, taken in (
        (rate(6, 5), 2, 6),  # both rows get another rate
        (rate(0, 7), 1, 6),  # the newest one has none any more
        (rate(7, 7), 2, 7),
        (rate(4, 5), 2, 7),  # the one before gets another rate
    ):
        steps.append(step)
        found = run_flow(flow, steps)
        assert list(found.views["newest"]) == [{"k": "x", "n": n, "rate": taken}]
        assert list(found.topics["newest-topic"])[-1] == {"k": "x", "n": n, "rate": taken}


def test_topics_whose_key_would_not_tell_rows_apart_are_refused() -> None:
    flow = Flow("shop")
    one, two = (flow.table(name, "k string, n bigint", key="k") for name in ("one", "two"))
    with pytest.raises(
        Invalid, match=r"topic 'both': several rows of this table may have the same key \['k'\]. Of a union"
    ):
        flow.topic("both", one.union(two), key="k")
    rows = flow.stream("rows", "k string, n bigint")
    with pytest.raises(Invalid, match="topic 'best': several rows"):
        flow.topic("best", rows.top(2, "n desc", per="k"), key="k")
    flow.topic("best", rows.top(2, "n desc", per="k", rank="place"), key=["k", "place"])
    found = run_flow(flow, [{"rows": [{"k": "x", "n": n}]} for n in (1, 3, 2)])
    last = {(row["k"], row["place"]): row["n"] for row in found.topics["best"]}
    assert last == {("x", 1): 3, ("x", 2): 2}


def test_alerts_of_a_union_fire_for_the_rows_of_each_table() -> None:
    flow = Flow("shop")
    one, two = (flow.table(name, "k string, n bigint", key="k") for name in ("one", "two"))
    flow.alert("any", one.union(two), to="json://localhost")
    flow.alert("best", flow.stream("rows", "k string, n bigint").top(2, "n desc", per="k"), to="json://localhost")
    rows = [{"k": "x", "n": 1}, {"k": "y", "n": 2}]
    found = run_flow(flow, {"one": rows, "two": rows, "rows": rows + rows})
    for name in ("any", "best"):
        fired = [(row["k"], row["n"]) for row in found.topics[f"shop.alerts.{name}"]]
        assert sorted(fired) == [("x", 1), ("x", 1), ("y", 2), ("y", 2)]


def test_a_table_with_a_column_called_op_goes_into_a_topic() -> None:
    """A table by `_op` goes into a topic as any other."""
    flow = Flow("ops")
    flow.topic("ops", flow.table("t", "id long", key="id").changes().group("_op").agg(n=count()), key="_op")
    for steps in (
        [{"t": [{"id": 1}]}, Delete("t", 1)],
        [Crash(at="commit.topics"), {"t": [{"id": 1}]}, Delete("t", 1)],
    ):
        rows = run_flow(flow, steps).topics["ops"]
        assert [(row["_op"], row["n"]) for row in rows] == [("insert", 1), ("delete", 1)]


def test_changes_in_columns_that_a_topic_has_not_write_nothing() -> None:
    flow = Flow("shop")
    minutes = flow.stream("orders", SCHEMA, time="at").window(tumbling("1 minute"), emit="update")
    most = minutes.agg(orders=count(), most=max("n")).select("window_start", "window_end", "most")
    flow.topic("most", most, key=["window_start", "window_end"])
    found = run_flow(flow, [{"orders": [order("ada", 1, n)]} for n in (3, 2, 5)])
    assert [row["most"] for row in found.topics["most"]] == [3, 5]
