"""B2: appending, by size of the events and of the batches, processes, sync policy and source; against a plain write."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, Took, alternate, rates
from bench.log import events, plain
from bench.log.events import SIZES
from riverrun.log.topic import Topic
from riverrun.river import River

BATCHES = (1, 100, 10_000)
POLICIES = ("os", "200 ms", "batch")
TARGETS = {"Arrow": 5_000_000.0, "dicts": 800_000.0}


class Span(NamedTuple):
    """When a process began and ended, by the clock that all share, and the processor time it used."""

    begin: float
    end: float
    processor: float


_INTERVAL_ROUND = 0.45  # a round of the interval policy has to see a sync or two


@dataclass(frozen=True, slots=True)
class AppendCase:
    """One way of appending."""

    size: str = "100 B"
    batch: int = 10_000
    source: str = "Arrow"
    fsync: str = "os"
    producers: int = 1
    keyed: bool = True

    def __str__(self) -> str:
        who = "1 process" if self.producers == 1 else f"{self.producers} processes"
        text = f"{self.size} × {self.batch:,}, {self.source}, {who}, fsync={self.fsync}".replace(",0", " 0")
        return text if self.keyed else f"{text}, no key"

    @property
    def target(self) -> float | None:
        is_named = (self.size, self.batch, self.fsync, self.producers) == ("100 B", 10_000, "os", 1)
        return TARGETS[self.source] if is_named else None

    @property
    def bytes(self) -> int:
        return SIZES[self.size]


def cases(every: bool) -> Iterator[AppendCase]:
    """The whole grid, or the cases with a target and one step from them in every direction."""
    yield from (AppendCase(source=source, keyed=keyed) for keyed, source in product((True, False), TARGETS))
    if every:
        grid = (
            AppendCase(size, batch, source, fsync, producers)
            for fsync, producers, size, batch, source in product(POLICIES, (1, 4), SIZES, BATCHES, TARGETS)
        )
        yield from (case for case in grid if case.target is None)
        return
    yield from (AppendCase(batch=batch, source=source) for batch, source in product((1, 100), TARGETS))
    yield from (
        AppendCase(size="1 kB"),
        AppendCase(fsync="200 ms"),
        AppendCase(fsync="batch"),
        AppendCase(batch=1, fsync="batch"),
    )
    yield from (AppendCase(producers=4), AppendCase(producers=4, batch=1, fsync="batch"))


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    with Crew(4) as crew:
        for case in cases(effort.every_case):
            yield _Bench(directory, case, crew).figure(effort)


class _Bench:
    """One case: every round has a new topic, and is checked."""

    def __init__(self, directory: str, case: AppendCase, crew: Crew) -> None:
        self._directory = directory
        self._case = case
        self._crew = crew
        self._appends = 1  # of each process, in one round
        self._frame = 0  # bytes that one append put into the journal, which the reference writes too

    def figure(self, effort: Effort) -> Figure:
        self._calibrate(effort)
        case = self._case
        rounds = min(effort.rounds, 3) if case.fsync == "200 ms" else effort.rounds
        rows = self._appends * case.batch * case.producers
        times = alternate(self._append, self._write, rounds)
        return rates("append", str(case), rows, times, reference="plain", target=case.target)

    def _calibrate(self, effort: Effort) -> None:
        """Choose how many appends make a round."""
        wanted = max(effort.seconds, _INTERVAL_ROUND if self._case.fsync == "200 ms" and effort.rounds > 1 else 0)
        most = max(1, effort.round_bytes // (self._case.batch * self._case.bytes * self._case.producers))
        while (took := self._append().seconds) < wanted / 2 and self._appends < most:
            self._appends = min(most, max(self._appends + 1, int(self._appends * min(wanted / took, 20))))

    def _append(self) -> Took:
        case, path = self._case, f"{self._directory}/river"
        with River(path) as river:
            events.make(river, "events", case.fsync, case.keyed).close()
        try:
            if case.producers == 1:
                spans: Sequence[Span] = [_work(_prepare(0, path, case, self._appends))]
            else:
                spans = self._crew.together(_prepare, _work, path, case, self._appends)
            self._verify(path)
        finally:
            shutil.rmtree(path)
        return _elapsed(spans)

    def _verify(self, path: str) -> None:
        once = events.expected(self._case.bytes, self._appends * self._case.batch)
        with River(path) as river:
            topic = river.topic("events")
            events.verify(topic, sum([once] * (self._case.producers - 1), start=once))
            self._frame = topic.describe()["bytes"] // (self._appends * self._case.producers)

    def _write(self) -> Took:
        case, path = self._case, f"{self._directory}/plain"
        try:
            if case.producers == 1:
                return plain.write(path, self._frame, self._appends, case.fsync)
            spans = self._crew.together(_prepare_plain, _write, path, self._frame, self._appends, case.fsync)
            return _elapsed(spans)
        finally:
            os.unlink(path)


def _elapsed(spans: Sequence[Span]) -> Took:
    seconds = max(span.end for span in spans) - min(span.begin for span in spans)
    return Took(seconds, sum(span.processor for span in spans))


def _prepare(number: int, path: str, case: AppendCase, appends: int) -> tuple[River, Topic, AppendCase, int]:
    events.pieces(case.bytes, case.batch, case.source)
    river = River(path)
    return river, river.topic("events"), case, appends


def _work(prepared: tuple[River, Topic, AppendCase, int]) -> Span:
    river, topic, case, appends = prepared
    given = events.pieces(case.bytes, case.batch, case.source)
    count = len(given)
    with river:
        begin, used = time.monotonic(), time.process_time()
        for i in range(appends):
            topic.append(given[i % count])
        if isinstance(topic.backend.journal.fsync, int):
            topic.backend.journal.sync()  # what the interval left over, as its reference does
        return Span(begin, time.monotonic(), time.process_time() - used)


def _prepare_plain(number: int, *what: Any) -> tuple[Any, ...]:
    return what


def _write(what: tuple[Any, ...]) -> Span:
    begin = time.monotonic()
    took = plain.write(*what)
    return Span(begin, time.monotonic(), took.processor)
