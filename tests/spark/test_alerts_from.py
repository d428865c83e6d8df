"""`alerts_from`: of a flow without views, derived topics and alerts begin at a place; its views have everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alert_receiver import Receiver
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.position import Position
from riverrun.river import River
from riverrun.settings import Settings

pytestmark = pytest.mark.spark


@pytest.fixture
def river(tmp_path: Path, spark_session: object) -> Iterator[River]:
    with River(tmp_path / "river", settings=Settings.load(alert_private_addresses=True)) as opened:
        opened.topic("orders", "n int", partitions=1, fsync="os").append([{"n": n} for n in range(5)])
        yield opened


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    opened = Receiver()
    yield opened
    opened.close()


def shop(url: str) -> Flow:
    flow = Flow("shop")
    orders = flow.stream("orders", "n int")
    flow.view("all", orders, key="n")
    flow.topic("copies", orders)
    flow.alert("seen", orders, to=url, message="{n}", every="1 second")
    return flow


def told(receiver: Receiver) -> list[int]:
    """The orders that messages were about."""
    return [row["n"] for message in receiver.got for row in json.loads(message["body"])["rows"]]


@pytest.mark.parametrize(
    ("place", "first"),
    [("latest", 5), ("earliest", 0), (Position.parse("orders@0:3"), 3)],
    ids=["now", "earliest", "a position"],
)
def test_topics_and_alerts_begin_there(river: River, receiver: Receiver, place: Any, first: int) -> None:
    with river.run(shop(receiver.url), alerts_from=place) as run:
        run.process(timeout="120 seconds")
        river.topic("orders").append({"n": 5})
        run.process(timeout="60 seconds")
        while 5 not in told(receiver):
            receiver.wait(len(receiver.got) + 1, timeout=30)
    assert sorted(row["n"] for row in river.view("all").rows()) == list(range(6))
    assert river.topic("copies").read().column("n").to_pylist() == list(range(first, 6))
    assert told(receiver) == list(range(first, 6))


def test_it_is_refused_where_views_are_there(river: River, receiver: Receiver) -> None:
    flow = shop(receiver.url)
    with river.run(flow) as run:
        run.process(timeout="120 seconds")
    with pytest.raises(
        Invalid, match=r"flow shop is at epoch \d+: its topics and alerts go on from there.*--alerts-from"
    ):
        river.run(flow, alerts_from="latest")
