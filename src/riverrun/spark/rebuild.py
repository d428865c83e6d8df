"""A flow's views computed from the log again on Spark, beside the running query, and put in the place of its views.

A rebuild follows the running flow until it is close. Then the flow is halted or fenced, the rebuild reads up to exactly
where that stands, and one transaction of the home store switches over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from riverrun.errors import Conflict, RiverrunError, TimedOut, Unavailable
from riverrun.failpoints import failpoint
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.runtime.patience import Patience
from riverrun.runtime.rebuild import Successor
from riverrun.runtime.status import RebuildProgress
from riverrun.spark.context import RunContext
from riverrun.spark.deployment import Deployment
from riverrun.spark.progress import RunProgress
from riverrun.spark.query import EpochQuery
from riverrun.views import Last

_GLANCE = 0.1  # seconds between two looks at how far it is


class Rebuild:
    """One rebuild, from its begin to `switch` or `abandon`.

    `going_on` raises when it is not wanted any more; `progress` is told of its epochs.
    """

    def __init__(
        self,
        context: RunContext,
        going_on: Callable[[], None],
        progress: RunProgress,
        heritage: Callable[[], Last] | None = None,
    ) -> None:
        self._context = context
        self._going_on = going_on
        self._store = context.river.store
        self._successor = Successor(
            context.flow, context.suffix, context.job, self._store, context.river.checkpoints, context.inputs, heritage
        )
        self._ending = threading.Event()
        self._patience = Patience(f"the rebuild of flow {context.name}", self._ending)
        around = context.surroundings(f"the rebuild of flow {context.name}", self._patience, progress)
        deployment = context.deploy(self._successor.home, self._successor.token)
        self.query = EpochQuery(around, deployment, self._successor.committer, lambda: None)
        self._begin = Position(context.start or {name: topic.begins() for name, topic in context.inputs.items()})
        self._goal = self._successor.goal()
        self.failure: BaseException | None = None  # of the switch, for who waits for it
        self.over = threading.Event()

    @property
    def progress(self) -> RebuildProgress:
        """Rows read so far, of those to be read, which are more while the running flow goes on; counted by offsets."""
        return RebuildProgress(_rows(self.query.committer.last.positions, self._begin), _rows(self._goal, self._begin))

    def approach(self) -> None:
        """Follow the running flow until no more than an epoch is left, or until it does not get any closer."""
        left = None
        while True:
            goal = self._successor.goal()
            gap = _rows(goal, self._begin | self.query.committer.last.positions)
            if left is not None and (gap <= self._context.limit.rows or gap >= left):
                break
            self._read_up_to(goal)
            left = gap
        failpoint("rebuild.caught_up")

    def switch(self, fence: int, topics: Iterable[Topic]) -> Deployment:
        """Catch up with a flow that does not move any more and put the rebuilt views in place of its views. Gives what
        the flow goes on with."""
        self._read_up_to(self._successor.goal())
        self._stop()
        self._successor.switch(fence, topics, Patience(f"the rebuild of flow {self._context.name}"))
        return self._context.deploy(self._successor.home)

    def abandon(self) -> None:
        """Leave nothing behind, unless it was switched to."""
        self._stop()
        self._successor.abandon()

    def _read_up_to(self, goal: Position) -> None:
        self._goal = goal
        self._successor.stop_at(goal)
        while not goal <= self._begin | self.query.committer.last.positions:
            self._going_on()
            self._keep_running()
            self._store.pause(_GLANCE)

    def _keep_running(self) -> None:
        if not self.query.is_started:
            self.query.start()
            return
        try:
            if self.query.wait(0.001):
                raise Unavailable(f"the rebuild of flow {self._context.name} has ended by itself")
        except Exception as error:
            self._ending.wait(self.query.pause_after(error))
            self.query.start()

    def _stop(self) -> None:
        """At once: an epoch in progress is of no use to anybody, unless it was the last."""
        self._ending.set()
        self.query.stop()


class Rebuilds:
    """The rebuilds of one run, one at a time: before it goes on, or beside it when somebody asks for one.

    `going_on` raises when the run has ended.
    """

    def __init__(self, context: RunContext, going_on: Callable[[], None]) -> None:
        self.current: Rebuild | None = None
        self._context = context
        self._going_on = going_on
        self._ready: Rebuild | None = None  # waits for the run to make room for it
        self._lock = threading.Lock()

    @property
    def progress(self) -> RebuildProgress | None:
        """How far the current one is; None where there is none."""
        current = self.current
        return current.progress if current else None

    def begin(self, progress: RunProgress, heritage: Callable[[], Last] | None = None) -> Rebuild:
        """Begin the one that the run waits for."""
        self.current = Rebuild(self._context, self._going_on, progress, heritage)
        return self.current

    def first(self, take_over: Callable[[], int], topics: Collection[Topic]) -> Deployment:
        """Finish what was begun. The run of the old flow, if there is one, goes on until it is taken over from."""
        rebuild = self.current
        assert rebuild is not None
        try:
            rebuild.approach()
            fence = take_over()
            failpoint("rebuild.fenced")
            return rebuild.switch(fence, topics)
        finally:
            self._end(rebuild)

    def beside(self, flow: str, deadline: float | None) -> None:
        """One beside the run; returns when the run has switched to it."""

        def going_on() -> None:
            self._going_on()
            if deadline is not None and time.monotonic() > deadline:
                raise TimedOut(f"flow {flow} did not rebuild its views in time")

        with self._lock:
            if self.current is not None:
                raise Conflict(f"flow {flow} is being rebuilt already")
            self.current = rebuild = Rebuild(self._context, going_on, RunProgress())
        try:
            rebuild.approach()
            self._hand_over(rebuild)
            if rebuild.failure is not None:
                raise rebuild.failure
        finally:
            self._end(rebuild)

    def claim(self) -> Rebuild | None:
        """The one that the run is to switch to, now. Its `over` must be set in the end."""
        with self._lock:
            ready, self._ready = self._ready, None
        return ready

    def _hand_over(self, rebuild: Rebuild) -> None:
        self._ready = rebuild
        while not rebuild.over.wait(_GLANCE):
            try:
                self._going_on()
            except RiverrunError:
                with self._lock:
                    if self._ready is rebuild:  # else the run is about to answer
                        self._ready = None
                        raise

    def _end(self, rebuild: Rebuild) -> None:
        rebuild.abandon()
        self.current = None


def _rows(positions: Mapping[str, Mapping[int, int]], since: Position) -> int:
    return sum(
        max(offset - since.get(name, {}).get(p, 0), 0)
        for name, parts in positions.items()
        for p, offset in parts.items()
    )
