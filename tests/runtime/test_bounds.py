"""How far a planner may read: a rebuild stops exactly where it is told to, and what belongs together is read at once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.flow import Flow
from riverrun.log.memory import MemoryLog
from riverrun.position import Position
from riverrun.runtime import bounds
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.plan import Limit, Plan
from riverrun.runtime.planner import Planner


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Planning:
    """A planner of two topics whose clock stands still unless it is moved."""

    def __init__(self, directory: Path, limit: int = 3) -> None:
        self.clock = Clock()
        self.log = MemoryLog(clock=self.clock)
        self.topics = {name: self.log.topic(name, "n bigint", partitions=2, key="n") for name in "tu"}
        self.limit = limit
        self.memory = tempfile.mkdtemp(dir=directory)
        flow = Flow("f")
        flow.view("v", flow.stream("t", "n bigint", key="n", idle="1 minute"))
        flow.view("w", flow.stream("u", "n bigint", key="n", idle="1 minute"))
        self.job = compile_flow(flow, 2)

    def append(self, topic: str, rows: int) -> None:
        self.clock.now += 1000
        self.topics[topic].append([{"n": n} for n in range(rows)])

    @property
    def end(self) -> Position:
        return self.topics["t"].latest | self.topics["u"].latest

    def plans(self, since: Plan | None = None, **bound: Any) -> Iterator[Plan]:
        planner = Planner(self.job, self.topics, self.memory, Limit(self.limit), self.clock)
        plan = planner.first() if since is None else since
        while (following := planner.next(plan, **bound)) is not None:
            plan = following
            yield plan


APPENDS = st.lists(st.tuples(st.sampled_from("tu"), st.integers(1, 6)), max_size=8)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memories")


@given(before=APPENDS, after=APPENDS, limit=st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_nothing_is_read_beyond_and_everything_before(
    directory: Path, before: list[Any], after: list[Any], limit: int
) -> None:
    planning = Planning(directory, limit)
    for topic, rows in before:
        planning.append(topic, rows)
    goal, alone = planning.end, [plan.positions for plan in planning.plans()]
    for topic, rows in after:
        planning.append(topic, rows)
    found = list(planning.plans(until=goal))
    assert [plan.positions for plan in found] == alone  # the same epochs as when there was no more
    assert all(Position(plan.positions) <= goal for plan in found)
    assert Position(found[-1].positions if found else {}) == goal


def test_no_time_passes_where_it_stops(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    planning.append("t", 2)
    first, goal = planning.clock.now, planning.end
    planning.append("t", 2)
    planning.clock.now += 3_600_000_000
    (only,) = planning.plans(until=goal)
    assert only.received == first
    assert len(list(planning.plans(until=planning.end))) == 1  # and no tick behind it, though one would be due
    assert len(list(planning.plans(until=goal, finish=True))) == 1


def test_nothing_to_read_at_all(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    planning.append("u", 5)
    assert list(planning.plans(until={})) == []


def test_what_belongs_together_is_one_epoch_and_then_it_goes_on(tmp_path: Path) -> None:
    planning = Planning(tmp_path, limit=2)
    for _ in range(4):
        planning.append("t", 2)
        planning.append("u", 2)
    start, *_, last = planning.plans(until=planning.end)
    together = planning.end
    for _ in range(3):
        planning.append("t", 2)
    assert len(list(planning.plans(since=start))) == 10
    whole, *others = planning.plans(since=start, together=together)
    assert Position(whole.positions) == together == Position(last.positions)
    assert len(others) == 3
    assert Position(others[-1].positions) == planning.end
    assert len(list(planning.plans(since=others[0], together=together))) == 2  # it has been read long since


def test_positions_in_files(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert bounds.read_positions(bounds.until(home)) is None
    for position in (Position({"t": {0: 1, 1: 7}, "u": {0: 0}}), Position()):
        bounds.write_positions(bounds.until(home), position)
        assert bounds.read_positions(bounds.until(home)) == position
    assert bounds.read_positions(bounds.together(home)) is None


def test_an_empty_first_epoch_lets_no_time_pass(directory: Path) -> None:
    planning = Planning(directory)
    planner = Planner(planning.job, planning.topics, planning.memory, Limit(3), planning.clock)
    empty = planner.empty(planner.first())
    assert (empty.epoch, empty.positions, empty.begin) == (1, planner.first().positions, planner.first().positions)
    assert empty.watermarks == planner.first().watermarks
    planning.append("t", 3)
    assert [(plan.epoch, plan.begin) for plan in planning.plans(empty)] == [(2, None)]
