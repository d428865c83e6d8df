"""What the pages remember: a bounded number of samples of every flow and topic, taken every second or so."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from riverrun.durations import to_micros, wall_clock
from riverrun.errors import RiverrunError
from riverrun.open_files import raise_limit
from riverrun.runtime.status import EpochTimes, FlowStatus
from riverrun.serve.backend import Backend, Running
from riverrun.serve.flows import Flows
from riverrun.serve.pages.arrival_sample import ArrivalSample
from riverrun.serve.pages.day import DayPart, FlowReading
from riverrun.serve.pages.day_file import DayRecord, day_path, read_day

if TYPE_CHECKING:
    from riverrun.flow import Flow
    from riverrun.flow.operators.source import Source

T = TypeVar("T")
log = logging.getLogger("riverrun.serve")

_SAMPLES = 900
_EPOCHS = 120
_MARKS = 60
_TOPICS = 200  # more are listed, but not measured …
_FILES = 20  # … nor more than one for so many files that may be open: a topic takes five
_KEPT = 256  # answers that are kept for a moment
_COUNTS = 32
_RATE = 10.0  # seconds that a rate is taken over
_DAY = 30.0  # seconds for which the day of a flow elsewhere holds
EVERY, UNWATCHED = 1.0, 5.0  # seconds between two samples


@dataclass(frozen=True)
class FlowMoment:
    """A flow at a moment; times in microseconds."""

    at: int
    watermarks: dict[str, int | None]


@dataclass(frozen=True)
class Counted:
    """What a flow had counted at a moment; only rates need it, so not many are kept."""

    at: int
    read: dict[tuple[str, str], int]  # by node and input
    accepted: dict[tuple[str, str], int]
    changed: dict[str, int]  # rows of each view, since somebody first looked


@dataclass(frozen=True)
class Mark:
    """Something that happened to a flow, as it was noticed."""

    at: int
    kind: str  # fence, state
    text: str


@dataclass
class FlowHistory:
    """One flow, as far back as is remembered; `status` is the newest."""

    status: FlowStatus
    samples: deque[FlowMoment] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    counts: deque[Counted] = field(default_factory=lambda: deque(maxlen=_COUNTS))
    epochs: dict[int, EpochTimes] = field(default_factory=dict)
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=_MARKS))
    commit: int | None = None  # up to which changes of views were counted
    changed: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The flow's name."""
        return self.status.flow

    def take(self, status: FlowStatus, at: int) -> None:
        """One more sample."""
        before, self.status = self.status, status
        self._notice(before, status, at)
        if status.state == "unknown":
            return
        self.samples.append(FlowMoment(at, {one.source: _micros(one.watermark) for one in status.sources}))
        read = {(entry.node, entry.input): entry.read for entry in status.ledger}
        accepted = {(entry.node, entry.input): entry.accepted for entry in status.ledger}
        self.counts.append(Counted(at, read, accepted, dict(self.changed)))
        if status.epoch:
            self.epochs.setdefault(status.epoch, EpochTimes(status.epoch, status.committed, times=status.times))

    def take_epochs(self, epochs: list[EpochTimes]) -> None:
        """Epochs as the run itself remembers them: none is missing, and each has its times."""
        self.epochs.update({one.epoch: one for one in epochs})

    def take_changes(self, commit: int, changed: dict[str, int]) -> None:
        """Rows of each view that changed after `self.commit`, up to another commit. Before the next sample is taken."""
        self.commit = commit
        self.changed = {view: self.changed.get(view, 0) + count for view, count in changed.items()}

    def forget(self) -> None:
        for number in sorted(self.epochs)[:-_EPOCHS]:
            del self.epochs[number]

    def rate(self, node: str, name: str) -> float | None:
        """Rows per second read by an input of a node; None where that is not known (yet)."""
        return self._per_second(lambda one: one.read.get((node, name)))

    def accepted_rate(self, node: str, name: str) -> float | None:
        """The same without those that were put aside or left out."""
        return self._per_second(lambda one: one.accepted.get((node, name)))

    def view_rate(self, view: str) -> float | None:
        """Rows of a view that change in a second."""
        return self._per_second(lambda one: one.changed.get(view))

    def _per_second(self, count: Callable[[Counted], int | None]) -> float | None:
        counts = list(self.counts)
        now = counts[-1] if counts else None
        last = None if now is None else count(now)
        if now is None or last is None:
            return None
        since = next((one for one in counts if one.at >= now.at - _RATE * 1e6), now)
        return None if since is now else (last - (count(since) or 0)) / ((now.at - since.at) / 1e6)

    def _notice(self, before: FlowStatus, status: FlowStatus, at: int) -> None:
        if before.fence != status.fence and "unknown" not in (before.state, status.state):
            self.marks.append(Mark(at, "fence", f"run {status.fence} took over from run {before.fence}"))
        if before.state != status.state:
            reason = f": {status.reason}" if status.reason else ""
            self.marks.append(Mark(at, "state", f"{before.state} → {status.state}{reason}"))


class History:
    """Samples of everything, and who looks at them. Samples are taken by one thread at a time."""

    def __init__(self, backend: Backend, flows: Flows) -> None:
        self.backend = backend
        self._flows = flows
        self._lock = threading.Lock()
        self.flows: dict[str, FlowHistory] = {}
        self.ends: dict[str, deque[tuple[int, int]]] = {}
        self.arrivals: dict[str, ArrivalSample] = {}
        self._days: dict[str, DayRecord] = {}
        self.viewers = 0
        self.trouble: str | None = None
        self._looked = 0.0
        self._doubtful: set[str] = set()
        self._keeping = threading.Lock()
        self._kept: dict[Hashable, tuple[float, Any]] = {}

    async def keep(self) -> None:
        """Take samples until cancelled; less often while nobody looks."""
        while True:
            try:
                await self.backend.read(self.sample)
            except RuntimeError:
                return  # the threads are gone: the server is being stopped
            due = time.monotonic() + (EVERY if self.viewers else UNWATCHED)
            while time.monotonic() < due and not (self.viewers and time.monotonic() > self._looked + EVERY):
                await asyncio.sleep(0.1)

    def fresh(self) -> History:
        """The same, not older than a few seconds: for a page that is asked for while nobody looked."""
        if time.monotonic() > self._looked + EVERY:
            self.sample()
        return self

    def anew(self) -> None:
        """A sample of what was just done to a flow."""
        self._flows.forget()
        self.sample()

    def sample(self) -> None:
        """Look at everything once."""
        with self._lock:
            self._looked = time.monotonic()
            try:
                at = wall_clock()
                self._look_at_flows(at)
                self._look_at_topics(at)
                self.trouble = None
            except RiverrunError as error:
                self.trouble = error.message
            except Exception as error:
                self.trouble = "the river could not be looked at; the server's log says why"
                log.error("a sample could not be taken: %s: %s", type(error).__name__, error)
                log.debug("", exc_info=True)

    def graph(self, flow: str) -> Flow | None:
        """The flow as it was declared, where it runs in this process."""
        run = self._run(flow)
        return run.flow if run else None

    def day(self, flow: str) -> list[DayPart]:
        """The last day of a flow; of one that runs elsewhere, as its own process has written it down."""
        if flow in self._days:
            return self._days[flow].parts
        return self.remember(("day", flow), _DAY, lambda: read_day(day_path(self.backend.river.path, flow)))

    def _run(self, flow: str) -> Running | None:
        return next((run for run in self.backend.runs if run.name == flow), None)

    def remember(self, what: Hashable, seconds: float | None, make: Callable[[], T]) -> T:
        """What `make` gave not longer than that ago; for what is too expensive to ask for with every look.

        None: a hundred times as long as it took, so that it never takes more than a hundredth of the time.
        """
        now = time.monotonic()
        with self._keeping:
            until, value = self._kept.get(what, (0.0, None))
            if now < until:
                return value  # type: ignore[no-any-return]
        value = make()
        until = now + (100 * (time.monotonic() - now) if seconds is None else seconds)
        with self._keeping:
            self._kept.pop(what, None)
            self._kept[what] = (until, value)
            for old in list(self._kept)[:-_KEPT]:
                del self._kept[old]
        return value

    def topic_rate(self, topic: str, seconds: float = _RATE) -> float | None:
        """Rows per second that arrive; None before two samples were taken."""
        ends = list(self.ends.get(topic, ()))
        if len(ends) < 2:
            return None
        now, last = ends[-1]
        since, first = next(one for one in ends if one[0] >= now - seconds * 1e6 or one is ends[-2])
        return max(last - first, 0) / ((now - since) / 1e6)

    def topic_rates(self, topic: str, count: int = 60) -> list[float]:
        """The same between every two samples, the newest last."""
        ends = list(self.ends.get(topic, ()))[-count - 1 :]
        pairs = pairwise(ends)
        return [max(b - a, 0) / max((then - since) / 1e6, 0.001) for (since, a), (then, b) in pairs]

    def _look_at_flows(self, at: int) -> None:
        for status in self._flows.all():
            past = self.flows.setdefault(status.flow, FlowHistory(status))
            newest = max(past.epochs, default=0)
            if self.backend.has_views():
                with suppress(RiverrunError):  # a store that is away; its run says so itself
                    past.take_changes(*self.backend.store().changed(status.flow, past.commit))
            past.take(status, at)
            run = self._run(status.flow)
            if run:
                past.take_epochs(run.epochs())
                self._take_reading(past, at, newest)
            past.forget()

    def _take_reading(self, past: FlowHistory, at: int, newest: int) -> None:
        """For the day of a flow that runs here; `newest` is the last epoch that was seen before."""
        status = past.status
        if status.state == "unknown":
            return
        if status.flow not in self._days:
            self._days[status.flow] = DayRecord(self.backend.river.path, status.flow)
        took = [one.times.total for number, one in past.epochs.items() if number > newest and one.times]
        counted = status.rows_read, status.late, sum(entry.corrected for entry in status.ledger)
        self._days[status.flow].take(
            FlowReading(at / 1e6, *counted, status.lag.seconds, status.watermark_lag, max(took, default=None))
        )

    def _look_at_topics(self, at: int) -> None:
        names = self.backend.river.topics()[: min(_TOPICS, raise_limit() // _FILES)]
        for gone in set(self.ends) - set(names):
            self.ends.pop(gone)
            self.arrivals.pop(gone, None)
        for name in names:
            try:
                latest = self.backend.topic(name).ends()
                self._doubtful.discard(name)
            except RiverrunError:
                if name in self._doubtful:
                    raise
                self._doubtful.add(name)  # the first time it may just be being dropped
                continue
            self.ends.setdefault(name, deque(maxlen=_SAMPLES)).append((at, sum(latest.values())))
        for name, producers in self._sources():
            if name in names:
                if name not in self.arrivals:
                    self.arrivals[name] = ArrivalSample(self.backend.topic(name), producers)
                self.arrivals[name].look(self._watermark(name))

    def _sources(self) -> Iterator[tuple[str, str | None]]:
        """Topics that flows read by event time, each with the column of its producers."""
        for name, past in self.flows.items():
            declared = declared_sources(self.graph(name))
            for one in past.status.sources:
                source = declared.get(one.source)
                yield one.topic, source.producers if source else None

    def _watermark(self, topic: str) -> int | None:
        """What it was before this look, the smallest of those who read the topic; None where one has none."""
        marks: list[int | None] = []
        for past in self.flows.values():
            sources = {one.source for one in past.status.sources if one.topic == topic}
            before = past.samples[-2].watermarks if len(past.samples) > 1 else {}
            marks += [mark for source, mark in before.items() if source in sources]
        there = [mark for mark in marks if mark is not None]
        return min(there) if there and len(there) == len(marks) else None


def declared_sources(graph: Flow | None) -> dict[str, Source]:
    """The sources of a flow by id. Imported here: a server of somebody else's flows does not need what flows need."""
    if graph is None:
        return {}
    from riverrun.flow.operators.source import Source

    return {node.id: node for node in graph.nodes if isinstance(node, Source)}


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
