"""All topics of a flow as one streaming source, through Spark's Python data source API.

The driver's planner process decides each epoch; the plan is the source's offset. Tasks read slices of the log; the
first slice carries the control row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from riverrun.failpoints import failpoint
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.runtime import bounds
from riverrun.runtime.checkpoint import check_same
from riverrun.runtime.host import Control
from riverrun.runtime.job import Job
from riverrun.runtime.patience import Patience
from riverrun.runtime.planner import Limit, Plan, Planner
from riverrun.runtime.source import Range, control, ranges, read
from riverrun.views import Last, open_store

_PATIENCE = 0.5  # how long the planner waits for rows before it says "nothing new"; ended by new rows at once
_GLANCE = 0.05  # seconds between two looks at how far a rebuild may read
_TRIES = 5  # of asking the home store; the run waits for longer, and says so


@dataclass(frozen=True)
class Deployment:
    """What the source needs to find everything; travels to the planner and to the tasks."""

    river: str
    job: Job
    flow: str  # its name, with the suffix of a replay
    home: str  # the flow's own directory
    views: str  # the home store's address
    start: Mapping[str, Mapping[int, int]] | None
    limit: Limit
    slices: int
    rebuild: int | None = None  # its token

    @property
    def state(self) -> str:
        return f"{self.home}/state"

    @property
    def finish_mark(self) -> str:
        """A file whose presence asks the planner to end the input."""
        return f"{self.home}/finish"

    def finish(self, asked: bool) -> None:
        """Ask the planner to end the input, or not to."""
        if asked:
            with open(self.finish_mark, "w", encoding="utf-8"):
                pass
        elif os.path.exists(self.finish_mark):
            os.unlink(self.finish_mark)

    @property
    def label(self) -> str:
        """What Spark calls it: a flow and its rebuild run side by side."""
        return self.flow if self.rebuild is None else f"{self.flow}~{self.rebuild}"


def deployed(
    river: River,
    job: Job,
    flow: str,
    home: str,
    start: Mapping[str, Mapping[int, int]] | None,
    limit: Limit,
    rebuild: int | None = None,
) -> Deployment:
    """A job in a river, on the processors of this machine."""
    from riverrun.spark.session import cores  # nothing for tasks

    return Deployment(river.path, job, flow, home, river.views_address, start, limit, cores(), rebuild)


class Slice(InputPartition):  # type: ignore[misc]
    """Some ranges of the log, read by one task; the first slice carries the controls of all shards."""

    def __init__(self, ranges: list[Range], control: bytes | None, epoch: int) -> None:
        super().__init__(epoch)
        self.ranges = ranges
        self.control = control


class LogReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._opened: tuple[Planner, dict[str, Topic]] | None = None

    # In the planner process.

    def initialOffset(self) -> dict[str, Any]:
        planner, _ = self._open()
        return planner.first(self._deployment.start).to_json()

    def getDefaultReadLimit(self) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        planner, topics = self._open()
        plan = Plan.from_json(start)
        deadline = time.monotonic() + _PATIENCE
        while True:
            following = planner.next(plan, **self._bounds())
            if following is None and plan.epoch == 0:
                following = planner.empty(plan)  # Spark's first batch is one, whatever is answered here
            if following is not None:
                return following.to_json()
            left = deadline - time.monotonic()
            if left <= 0:
                return start
            if self._deployment.rebuild is not None:  # rows are not what it waits for
                time.sleep(min(left, _GLANCE))
                continue
            due = planner.deadline(plan)
            if due is not None:
                left = min(left, max(due / 1e6 - time.time(), 0.001))
            _wait(topics, plan, left)

    def _bounds(self) -> dict[str, Any]:
        """How far the next epoch may read, and whether the input ends."""
        deployment = self._deployment
        if deployment.rebuild is not None:
            return {"until": bounds.read_positions(bounds.until(deployment.home)) or {}}
        return {
            "finish": os.path.exists(deployment.finish_mark),
            "together": bounds.read_positions(bounds.together(deployment.home)),
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, plan = Plan.from_json(start), Plan.from_json(end)
        if plan.epoch == before.epoch:
            return []
        if plan.begin is not None:
            before = replace(before, positions=plan.begin)
        failpoint("plan.logged")
        slices = _balanced(ranges(before, plan), self._deployment.slices)
        told = msgspec.msgpack.encode(self._control(before, plan))
        return [Slice(part, told if i == 0 else None, plan.epoch) for i, part in enumerate(slices)]

    def commit(self, end: dict[str, Any]) -> None:
        return

    def _control(self, before: Plan, plan: Plan) -> Control:
        flow = self._deployment.flow
        last = Patience(f"flow {flow}", tries=_TRIES).through(self._last)
        if before.epoch and before.epoch == last.epoch:
            check_same(before.positions, last, flow)
        return control(before, plan, last, flow, self._deployment.state)

    def _last(self) -> Last:
        with open_store(self._deployment.views, create=False) as store:
            return store.last(self._deployment.flow, self._deployment.rebuild)

    def _open(self) -> tuple[Planner, dict[str, Topic]]:
        if self._opened is None:
            topics = _topics(self._deployment)
            planner = Planner(self._deployment.job, topics, f"{self._deployment.home}/planner", self._deployment.limit)
            self._opened = (planner, topics)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {"_deployment": self._deployment, "_opened": None}

    # In the tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        topics = _topics(self._deployment, {part.topic for part in partition.ranges})
        told = msgspec.msgpack.decode(partition.control, type=Control) if partition.control is not None else None
        yield from read(self._deployment.job, topics, partition.ranges, told)


def _balanced(ranges: list[Range], slices: int) -> list[list[Range]]:
    """At most `slices` lists of about the same number of offsets; there is always one, for the control."""
    total = sum(part.end - part.start for part in ranges)
    share = max(-(-total // slices), 16384)
    out: list[list[Range]] = [[]]
    room = share
    for part in ranges:
        at = part.start
        while at < part.end:
            if room <= 0:
                out.append([])
                room = share
            step = min(part.end - at, room)
            out[-1].append(Range(part.topic, part.partition, at, at + step))
            at += step
            room -= step
    return out


def _topics(deployment: Deployment, names: set[str] | None = None) -> dict[str, Topic]:
    """Topics opened once per process: workers are used again by later epochs."""
    key = (os.getpid(), deployment.river)
    if key not in _rivers:
        _rivers.clear()
        _rivers[key] = River(deployment.river)
    wanted = {reading.topic for reading in deployment.job.readings}
    return {name: _rivers[key].topic(name) for name in sorted(wanted if names is None else names)}


_rivers: dict[tuple[int, str], River] = {}


def _wait(topics: Mapping[str, Topic], plan: Plan, timeout: float) -> None:
    from riverrun.log.wake import Bell

    def more() -> bool:
        return any(
            offset > plan.positions[name].get(p, 0)
            for name, topic in topics.items()
            for p, offset in topic.latest[name].items()
        )

    with Bell([f"{topic.directory}/wake" for topic in topics.values()]) as bell:  # type: ignore[attr-defined]
        bell.wait_until(more, timeout)
