"""Views rebuilt from the log, on Spark: of a flow that has changed, of one that was drained, of one that runs."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from riverrun.errors import Conflict, Fenced, TimedOut, Unavailable
from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import tumbling
from riverrun.river import River

pytestmark = pytest.mark.spark

ORDERS = "user string, amount double, at timestamp"
BASE = datetime(2026, 1, 1, tzinfo=UTC)
SOON = "60 seconds"


def orders(start: int, stop: int) -> list[dict]:
    return [
        {"user": f"u{i % 3}", "amount": float(i % 10), "at": BASE + timedelta(seconds=i)} for i in range(start, stop)
    ]


def shop(amount: str = "amount", least: int = 9) -> Flow:
    flow = Flow("shop")
    source = flow.stream("orders", ORDERS, time="at", key="user", lateness="10 seconds", idle=None)
    flow.view("minutes", source.window(tumbling("1 minute"), by="user").agg(n=count(), total=total(amount)))
    flow.view("totals", source.group("user").agg(n=count(), total=total(amount)))
    flow.view("large", source.where(f"amount >= {least}"))
    flow.topic("large-orders", source.where("amount >= 9"), key="user")
    return flow


def totals(rows: list[dict], factor: int = 1) -> dict:
    found: dict = {}
    for row in rows:
        n, sum_ = found.get(row["user"], (0, 0.0))
        found[row["user"]] = (n + 1, sum_ + factor * row["amount"])
    return found


def held(river: River) -> dict:
    return {row["user"]: (row["n"], row["total"]) for row in river.view("totals").rows()}


def homes(river: River) -> list[str]:
    return [path.name for path in Path(river.checkpoints).iterdir()]


def test_a_changed_flow_is_rebuilt_and_goes_on(river):
    topic = river.topic("orders", ORDERS, key="user", time="at", fsync="os")
    topic.append(orders(0, 200))
    with river.run(shop()) as run:
        run.process(timeout=SOON)
        topic.append(orders(200, 220))
        run.process(timeout=SOON)
        topic.append(orders(220, 240))
        run.process(timeout=SOON)
    cursor = river.view("totals").cursor
    topic.append(orders(240, 300))
    with river.run(shop("amount * 2", least=8)) as run:
        run.process(timeout=SOON)
        assert held(river) == totals(orders(0, 300), 2)
        assert len(river.view("large").rows()) == 60
        assert [change.op for change in river.view("totals").changes(cursor, timeout=0)][:3] == ["update"] * 3
        assert river.topic("large-orders").read().num_rows == 30  # none of them twice
        assert homes(river) != ["shop"]
        # the same run, asked to do it again, while rows keep coming
        done = threading.Event()

        def feed() -> None:
            for i in range(300, 400, 5):
                topic.append(orders(i, i + 5))
                done.wait(0.05)

        feeding = threading.Thread(target=feed)
        feeding.start()
        river.view("totals").rebuild(timeout=SOON)
        feeding.join()
        run.process(timeout=SOON)
        assert held(river) == totals(orders(0, 400), 2)
        assert river.topic("large-orders").read().num_rows == 40
        assert run.status()["rebuild"] is None
        run.drain(timeout=SOON)
    assert len(homes(river)) == 1
    assert sum(row["n"] for row in river.view("minutes").rows()) == 400
    with pytest.raises(Unavailable, match="riverrun view rebuild totals FLOW.py"):
        river.view("totals").rebuild()
    # drained, and yet there is more
    topic.append(orders(400, 430))
    with pytest.raises(Conflict, match="rebuild=True"):
        river.run(shop("amount * 2", least=8))
    with river.run(shop("amount * 2", least=8), rebuild=True) as run:
        run.drain(timeout=SOON)
    assert held(river) == totals(orders(0, 430), 2)
    assert sum(row["n"] for row in river.view("minutes").rows()) == 430
    assert river.topic("large-orders").read().num_rows == 43
    assert river.store.rebuilds("shop") == []


def test_the_run_of_the_old_flow_goes_on_until_it_is_taken_over_from(river):
    topic = river.topic("orders", ORDERS, key="user", time="at", fsync="os", retention="1 second")
    topic.append(orders(0, 50))
    old = river.run(shop())
    old.process(timeout=SOON)
    with pytest.raises(TimedOut):
        old.rebuild(timeout=0)
    assert river.store.rebuilds("shop") == []  # and all is as it was
    new = river.run(shop("amount * 3"))
    assert new.status()["state"] == "rebuilding"
    for i in range(50, 100, 10):
        topic.append(orders(i, i + 10))
    new.process(timeout=SOON)
    assert held(river) == totals(orders(0, 100), 3)
    assert river.topic("large-orders").read().num_rows == 10
    with pytest.raises(Fenced):
        old.wait(timeout=SOON)
    new.stop()
    time.sleep(1.1)
    topic.enforce_retention()
    topic.append(orders(100, 110))
    with pytest.raises(Conflict, match="cannot be rebuilt: the beginning of orders was removed by retention"):
        river.run(shop())
    with river.run(shop("amount * 3")) as run:  # which needs no history
        with pytest.raises(Conflict, match="flow shop cannot be rebuilt"):
            run.rebuild()
        run.process(timeout=SOON)
    assert held(river) == totals(orders(0, 110), 3)
