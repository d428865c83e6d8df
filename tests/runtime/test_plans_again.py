"""A repeated plan is the same plan, and a position that its topic does not hold is an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from riverrun.errors import OutOfRange
from riverrun.flow import Flow
from riverrun.river import River
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Planner


@pytest.fixture
def river(tmp_path):
    with River(tmp_path / "river") as river:
        river.topic("t", "n bigint", partitions=1, fsync="os", retention="100 ms")
        yield river


def planner(river: River, memory: Path) -> Planner:
    flow = Flow("f")
    flow.view("v", flow.stream("t", "n bigint"))
    return Planner(compile_flow(flow, 2), {"t": river.topic("t")}, str(memory), Limit(1000))


def forget_all(river: River) -> None:
    time.sleep(0.15)
    river.topic("t").enforce_retention()


def test_the_first_epoch_knows_where_it_begins(river, tmp_path):
    """The topic may begin elsewhere when it is repeated."""
    river.topic("t").append([{"n": n} for n in range(10)])
    mine = planner(river, tmp_path / "memory")
    first = mine.next(mine.first())
    assert first is not None
    forget_all(river)
    again = Plan.from_json(first.to_json())
    assert again == first
    assert again.begin == {"t": {0: 0}}
    assert planner(river, tmp_path / "memory").first().positions == {"t": {0: 10}}
    river.topic("t").append({"n": 10})
    second = planner(river, tmp_path / "memory").next(again)
    assert second is not None
    assert second.begin is None
    assert second.epoch == 2


def test_positions_the_topic_does_not_hold(river, tmp_path):
    mine = planner(river, tmp_path / "memory")
    start = mine.first()
    river.topic("t").append([{"n": n} for n in range(10)])
    following = mine.next(start)
    assert following is not None
    forget_all(river)
    with pytest.raises(OutOfRange, match="offset 0 is no longer kept, only 10 to 10"):
        mine.next(start)
    beyond = Plan.from_json({**following.to_json(), "positions": {"t": {"0": 11}}})
    with pytest.raises(OutOfRange, match="offset 11 is beyond the end, which is 10"):
        mine.next(beyond)
    assert mine.next(following) is None


def test_an_epoch_ends_by_bytes_as_well_as_by_rows(tmp_path: Path) -> None:
    flow = Flow("f")
    flow.view("v", flow.stream("t", "k string"))
    with River(tmp_path / "river") as river:
        topic = river.topic("t", "k string", partitions=1)
        for _ in range(6):
            topic.append([{"k": "x" * 1000}])
        job = compile_flow(flow, 2)
        planner = Planner(job, {"t": topic}, str(tmp_path / "memory"), Limit(rows=1000, size=2500))
        plan, ends = planner.first(), []
        while (following := planner.next(plan)) is not None:
            plan = following
            ends.append(plan.positions["t"][0])
        assert ends == [3, 6]
