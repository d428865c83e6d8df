"""Processing time as event time: what comes later was received later, so the epoch's cut is the watermark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from oracles.orders import at
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.windows import drop, tumbling
from riverrun.testing import Crash, Tick, run_flow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_windows_of_processing_time_close_when_anything_comes_in_later():
    flow = Flow("f")
    flow.view("rates", flow.stream("clicks", "user string").window(tumbling("10 seconds"), by="user").agg(n=count()))
    flow.view("others", flow.stream("others", "user string"))
    clicks = [{"user": "ann"}, {"user": "ann"}, {"user": "bob"}]
    script = [{"clicks": clicks}, Tick("15 seconds"), {"others": [{"user": "eve"}]}]
    result = run_flow(flow, script, drain=False, now=NOW, partitions=3)
    assert [(row["user"], row["n"]) for row in result.views["rates"]] == [("ann", 2), ("bob", 1)]


def test_windows_of_processing_time_close_when_nothing_comes_any_more():
    flow = Flow("f")
    clicks, views = flow.stream("clicks", "user string"), flow.stream("views", "user string")
    counted = clicks.window(tumbling("10 seconds"), by="user").agg(n=count())
    flow.view("rates", counted)
    flow.view("bored", views.join(clicks.select("user", "user as clicked"), on="user", within="20 seconds", how="left"))
    quiet = [Tick("1 second")] * 8
    result = run_flow(flow, [{"clicks": [{"user": "ann"}], "views": [{"user": "bob"}]}, *quiet], drain=False, now=NOW)
    assert list(result.views["rates"]) == list(result.views["bored"]) == []
    result = run_flow(flow, [{"clicks": [{"user": "ann"}]}, *quiet, Tick("4 seconds")], drain=False, now=NOW)
    assert [row["n"] for row in result.views["rates"]] == [1]
    result = run_flow(flow, [{"views": [{"user": "bob"}]}, *[Tick("2 seconds")] * 30], drain=False, now=NOW)
    assert [row["user"] for row in result.views["bored"]] == ["bob"]
    assert len(result.epochs) < 20, "time that changes nothing any more makes no epochs"


def test_receive_time_passes_for_rows_of_another_input():
    """An input of receive time that has said nothing holds nobody back: of a union, and of a join."""
    flow = Flow("f")
    timed = flow.stream("a", "k int, at timestamp", time="at").select("k")
    received = flow.stream("b", "k int", lateness="5 seconds")
    flow.view("windows", timed.union(received).window(tumbling("10 seconds")).agg(n=count()))
    flow.view("alone", timed.join(received.select("k", "k as other"), on="k", within="1 second", how="left"))
    rows = [{"k": 1, "at": at(19)}, {"k": 1, "at": at(21)}]
    for script in ([{"a": rows}], [{"a": rows[:1]}, Crash(), {"a": rows[1:]}]):
        result = run_flow(flow, [*script, *[Tick("10 seconds")] * 30], drain=False)
        assert [row["n"] for row in result.views["windows"]] == [1]  # the other window is not over in event time
        assert [row["k"] for row in result.views["alone"]] == [1]
        assert len(result.epochs) < 10, "time that changes nothing any more makes no epochs"


def test_a_row_that_waits_for_receive_time_is_not_the_last_to_come():
    flow = Flow("f")
    rates = flow.table("rates", "k int, rate int", key="k", time="_received")
    sold = flow.stream("sales", "k int").as_of(rates, on="k", late=drop())
    flow.view("sold", sold.select("k", "rate"))
    script = [{"rates": [{"k": 1, "rate": 7}]}, {"sales": [{"k": 1}]}, Tick("2 seconds"), Tick("2 seconds")]
    assert run_flow(flow, script, drain=False, now=NOW).views["sold"] == [{"k": 1, "rate": 7}]


def test_rows_wait_for_receive_time_also_when_their_own_producer_has_long_been_silent():
    flow = Flow("f")
    left = flow.stream("left", "k string, at timestamp", time="at", idle="1 minute")
    flow.view(
        "pairs", left.join(flow.stream("right", "k string", lateness="10 minutes"), on="k", within=300, how="left")
    )
    rows = [{"k": "x", "at": NOW - timedelta(minutes=6)}, {"k": "y", "at": NOW}]
    result = run_flow(flow, [{"left": rows}, *[Tick("30 seconds")] * 80], drain=False, now=NOW)
    assert [row["k"] for row in result.views["pairs"]] == ["x"]  # the time of the other has not passed on the left
    assert len(result.epochs) < 50, "time that changes nothing any more makes no epochs"
