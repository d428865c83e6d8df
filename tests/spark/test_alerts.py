"""An alert of a flow on Spark, from the row that fires it to the webhook that is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alert_receiver import Receiver
from riverrun.flow import Flow
from riverrun.flow.aggregates import sum as total
from riverrun.river import River
from riverrun.settings import Settings
from waiting import until

pytestmark = pytest.mark.spark

ORDERS = "user string, amount double, at timestamp"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def river(tmp_path: Path, spark_session: object) -> Iterator[River]:
    with River(tmp_path / "river", settings=Settings.load(alert_private_addresses=True)) as opened:
        opened.topic("orders", ORDERS, key="user", time="at", partitions=1, fsync="os")
        yield opened


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    opened = Receiver()
    yield opened
    opened.close()


def shop(url: str) -> Flow:
    flow = Flow("shop")
    orders = flow.stream("orders", ORDERS, time="at", key="user")
    spent = orders.group("user").agg(spent=total("amount"))
    flow.view("spent", spent)
    flow.alert("rich", spent.where("spent >= 100"), to=url, message="{user} spent {spent:.0f}", every="1 hour")
    return flow


def order(user: str, amount: float, seconds: int) -> dict:
    return {"user": user, "amount": amount, "at": NOON + timedelta(seconds=seconds)}


def test_a_message_is_delivered_once_with_its_key_and_the_next_run_goes_on(river: River, receiver: Receiver) -> None:
    topic = river.topic("orders")
    topic.append([order("ada", 60, 0), order("bob", 99, 1)])
    with river.run(shop(receiver.url)) as run:
        run.process(timeout="120 seconds")
        assert receiver.got == []  # nobody is rich yet
        topic.append(order("ada", 60, 2))
        run.process(timeout="60 seconds")
        receiver.wait(1, timeout=30)
        # The receiver has it a moment before the sender knows.
        until(lambda: run.status()["alerts"][0]["rows"] == 1)
        [status] = run.status()["alerts"]
    assert {name: status[name] for name in ("alert", "sent", "rows", "waiting", "failed", "dead")} == {
        "alert": "rich",
        "sent": 1,
        "rows": 1,
        "waiting": 0,
        "failed": 0,
        "dead": 0,
    }
    [message] = receiver.got
    body = json.loads(message["body"])
    assert body == {
        "title": "shop: rich",
        "message": "ada spent 120",
        "type": "warning",
        "flow": "shop",
        "alert": "rich",
        "key": body["key"],
        "count": 1,
        "rows": [{"user": "ada", "spent": 120.0}],
    }
    fired = river.topic("shop.alerts.rich")
    [row] = fired.read().to_pylist()
    offset = f"{row['_partition']}:{row['_offset']}-{row['_offset']}"
    assert body["key"] == message["headers"]["Idempotency-Key"] == f"shop.alerts.rich@{offset}"

    topic.append([order("bob", 1, 3), order("eve", 5, 4)])
    with river.run(shop(receiver.url)) as run:
        run.process(timeout="60 seconds")
    receiver.wait(2, timeout=30)
    first, second = receiver.bodies()
    assert first == body
    assert second["rows"] == [{"user": "bob", "spent": 100.0}]
    assert len(set(receiver.keys())) == len(receiver.got) == fired.read().num_rows == 2
    assert river.lag("shop.alerts")["rows"] == 0


@pytest.mark.timeout(400)
def test_a_store_that_was_replaced_sends_no_alert_and_no_derived_row_again(
    river: River, receiver: Receiver, tmp_path: Path
) -> None:
    """What came in while nothing ran is new to both."""

    def flow() -> Flow:
        made = shop(receiver.url)
        made.topic("copies", made.stream("orders", ORDERS, time="at", key="user"))
        return made

    topic = river.topic("orders")
    topic.append([order("ada", 120, 0), order("bob", 20, 1)])
    with river.run(flow()) as run:
        run.process(timeout="120 seconds")
        receiver.wait(1, timeout=30)
        topic.append(order("eve", 5, 2))
        run.process(timeout="120 seconds")
    topic.append(order("bob", 100, 3))
    settings = Settings.load(alert_private_addresses=True)
    with River(river.path, views=f"{tmp_path}/moved.db", settings=settings) as moved:
        with moved.run(flow()) as run:
            run.process(timeout="120 seconds")
        receiver.wait(2, timeout=30)  # stopping sends what waits
        assert moved.view("spent").rows() == [
            {"user": "ada", "spent": 120.0},
            {"user": "bob", "spent": 120.0},
            {"user": "eve", "spent": 5.0},
        ]
        assert moved.topic("copies").read().num_rows == 4
    bodies = [json.loads(one["body"]) for one in receiver.got]
    assert [(body["count"], body["message"]) for body in bodies] == [(1, "ada spent 120"), (1, "bob spent 120")]
