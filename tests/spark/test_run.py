"""Flows on Spark, end to end: what views and topics hold, resuming, replaying, draining."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from riverrun.errors import Conflict, Fenced
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import tumbling
from riverrun.log.process import identity, identity_of

pytestmark = pytest.mark.spark

ORDERS = "user string, amount double, at timestamp"
BASE = datetime(2026, 1, 1, tzinfo=UTC)


def orders(start: int, stop: int) -> list[dict]:
    return [
        {"user": f"u{i % 3}", "amount": float(i % 10), "at": BASE + timedelta(seconds=i)} for i in range(start, stop)
    ]


def shop() -> Flow:
    flow = Flow("shop")
    source = flow.stream("orders", ORDERS, time="at", key="user", lateness="10 seconds", idle=None)
    per_minute = source.where("amount > 0").window(tumbling("1 minute"), by="user")
    flow.view("revenue", per_minute.agg(n=count(), total=total("amount * 2")))
    flow.view("totals", source.group("user").agg(n=count(), total=total("amount")))
    flow.view("large", source.where("amount >= 9"))
    flow.topic("large-orders", source.where("amount >= 9").select("user", "amount + 1 as more"), key="user")
    return flow


def expected_revenue(rows: list[dict]) -> dict:
    found: dict = {}
    for row in rows:
        if row["amount"] > 0:
            key = (row["user"], row["at"].replace(second=0))
            n, sum_ = found.get(key, (0, 0.0))
            found[key] = (n + 1, sum_ + row["amount"] * 2)
    return found


def revenue(river, suffix: str = "") -> dict:
    return {(r["user"], r["window_start"]): (r["n"], r["total"]) for r in river.view("revenue" + suffix).rows()}


def test_views_and_topics_follow_the_log(expressions, river):
    topic = river.topic("orders", ORDERS, key="user", time="at", fsync="os")
    first, second = orders(0, 300), orders(300, 400)
    topic.append(first)
    with river.run(shop()) as run:
        run.process(timeout="60 seconds")
        # the watermark is the smaller of the two partitions' largest times, less 10 s: the first four minutes are closed
        closed = BASE + timedelta(minutes=4)
        assert revenue(river) == {k: v for k, v in expected_revenue(first).items() if k[1] < closed}
        assert river.view("totals").get("u1") == {"user": "u1", "n": 100, "total": 450.0}
        position = topic.append(second)
        rows = river.view("totals").rows(at_least=position)
        assert sum(row["n"] for row in rows) == 400
        assert len(river.view("large").rows()) == 40
        run.process(timeout="60 seconds")  # the run knows of its commit a little later than readers of the view
        status = run.status()
        assert status["lag"]["topics"] == {"orders": 0}
        assert {one["engine"] for one in status["expressions"]} == {expressions}
    # stopped, and resumed where it stopped
    topic.append(orders(400, 500))
    with river.run(shop()) as run:
        run.process(timeout="60 seconds")
        assert sum(row["n"] for row in river.view("totals").rows()) == 500
        run.drain(timeout="60 seconds")
        ledger = run.ledger()
    everything = orders(0, 500)
    assert revenue(river) == expected_revenue(everything)
    read = {(entry["node"].split("-")[0], entry["input"]): entry for entry in ledger}
    assert read["stream", "topic"]["read"] == 500
    assert read["window", "in"]["accepted"] == 450
    assert all(e["read"] == sum(v for k, v in e.items() if k not in ("node", "input", "read")) for e in ledger)
    derived = river.topic("large-orders").read().to_pylist()
    assert sorted((r["user"], r["more"], r["_time"]) for r in derived) == sorted(
        (r["user"], r["amount"] + 1, r["at"]) for r in everything if r["amount"] >= 9
    )
    with river.run(shop()) as run:  # there is nothing new to take in, and nothing wrong with asking
        run.drain()
        assert run.ledger() == ledger
    # the whole history again, into other outputs
    with river.run(shop(), start="earliest", suffix="-replay") as run:
        run.drain(timeout="60 seconds")
    assert revenue(river, "-replay") == expected_revenue(everything)
    topic.append(orders(500, 501))
    with pytest.raises(Conflict, match="was drained"):
        river.run(shop())


def test_a_second_run_shuts_out_the_first(river):
    topic = river.topic("orders", ORDERS, key="user", time="at", fsync="os")
    topic.append(orders(0, 30))
    first = river.run(shop())
    first.process(timeout="60 seconds")
    river.store.take_fence("shop", run="another one")
    topic.append(orders(30, 60))
    with pytest.raises(Fenced):
        first.process(timeout="60 seconds")
    assert first.status()["state"] == "failed"


def test_a_run_says_from_whom_it_takes_over_and_only_if_that_is_alive(river, caplog):
    """Two real ones are in tests/cli; this is one, and a process that says it were one."""
    river.topic("orders", ORDERS, key="user", time="at", fsync="os").append(orders(0, 30))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        river.store.hear("shop", river.store.take_fence("shop"), identity_of(other.pid))
        with river.run(shop()) as run:
            (said,) = said_of_takeover(caplog)
            assert re.match(
                r"flow shop runs already \(.*, for \d+ s, last heard \d+ s ago\): this run takes over", said
            )
            run.process(timeout="60 seconds")
            told = river.store.incumbent("shop")
            assert (told.fence, told.process) == (2, identity())
        assert river.store.incumbent("shop") is None
        river.store.hear("shop", river.store.take_fence("shop"), identity_of(other.pid))
        other.kill()
    caplog.clear()
    with river.run(shop()):
        assert not said_of_takeover(caplog)


def said_of_takeover(caplog) -> list[str]:
    return [message for message in caplog.messages if "runs already" in message]


def test_a_flow_runs_before_there_is_anything_to_read(river):
    with river.run(shop()) as run:
        while run.status()["epoch"] == 0:
            assert not run.wait("20 ms")
        assert river.view("totals").rows() == []
        river.topic("orders").append(orders(0, 30))
        run.process(timeout="60 seconds")
        assert sum(row["n"] for row in river.view("totals").rows()) == 30


def test_the_status_shows_whose_clock_is_furthest_off(river):
    flow = Flow("devices")
    readings = flow.stream("readings", "device string, value double, occurred timestamp, sent timestamp")
    corrected = readings.clock("occurred", "sent", by="device")
    flow.view("sums", corrected.window(tumbling("1 minute"), by="value").agg(n=count()))
    with river.run(flow) as run:
        now = datetime.now(UTC)
        slow = {"device": "slow", "value": 1.0, "occurred": now - timedelta(hours=1), "sent": now - timedelta(hours=1)}
        river.topic("readings").append([{**slow, "device": "right", "occurred": now, "sent": now}, slow])
        run.process(timeout="60 seconds")
        (clocks,) = run.status()["clocks"].values()
    assert list(clocks) == ["slow", "right"]
    assert 3600 <= clocks["slow"] < 3660
    assert 0 <= clocks["right"] < 60
