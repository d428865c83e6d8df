"""Topics as streams and as tables, and how far their event time has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from random_programs.oracle.facts import END, NEVER, SECOND, Epoch, Fact, Node, Version
from random_programs.program import TopicRead
from random_programs.values import canonical, micros

Heard = tuple[Any, int, int]
"""A producer, an event time that it gave or promised, and when."""


class Source(Node):
    """What streams and tables have in common: times and watermarks of the rows of a topic."""

    def __init__(self, read: TopicRead) -> None:
        super().__init__()
        self.read = read
        self._heard: list[Heard] = []
        self._read: list[Fact] = []
        self.quarantined: list[Fact] = []

    def step(self, epoch: Epoch) -> None:
        topic = self.read.topic
        came = [self._timed(row) for row in epoch.rows.get(topic, [])]
        self._read = [row for row in came if not self._ahead(row.time, row.received)]
        self.quarantined += [row for row in came if self._ahead(row.time, row.received)]
        self._gone = epoch.tombstones.get(topic, [])
        self._heard += [(self._producer(row), row.time, row.received) for row in self._read]
        # A tombstone says that its producer is there, not what time it is.
        self._heard += [(str(row.place[0]), NEVER, row.received) for row in self._gone]
        self._heard += [said for said in epoch.promises.get(topic, []) if not self._ahead(said[1], said[2])]
        self._epoch = epoch
        super().step(epoch)
        self.count("topic", len(came), quarantined=len(came) - len(self._read))

    def _timed(self, row: Fact) -> Fact:
        time = row.received if self.read.time is None else micros(row.values[self.read.time])
        return Fact(row.id, row.values, time, row.place, row.received)

    def _producer(self, row: Fact) -> str | None:
        name = self.read.producers
        if name is None:
            return str(row.place[0])
        return None if row.values[name] is None else str(row.values[name])

    def _ahead(self, time: int, received: int) -> bool:
        skew = self.read.max_skew
        return self.read.time is not None and skew is not None and time > received + int(skew * SECOND)

    def _watermarks(self) -> tuple[int, int]:
        return self.reached(self._heard, self.watermarks[1], self._epoch)

    def reached(self, heard: Sequence[Heard], before: int, epoch: Epoch) -> tuple[int, int]:
        """How far time has come before and after an epoch, by what was heard."""
        if epoch.final:
            return before, END
        lateness, idle = int(self.read.lateness * SECOND), self.read.idle
        until = epoch.received
        reached = watermark(heard, until, lateness, None if idle is None else int(idle * SECOND))
        if self.read.time is None:
            reached = max(reached, until - lateness)
        return before, max(before, reached)


def watermark(heard: Sequence[Heard], until: int, lateness: int, idle: int | None) -> int:
    """The largest value that the smallest of the live producers' largest times ever had, minus the lateness."""
    moments = {received for _, _, received in heard} | {until}
    if idle is not None:
        moments |= {received + idle for _, _, received in heard}
    reached = NEVER
    for now in sorted(one for one in moments if one <= until):
        largest: dict[Any, int] = {}
        last: dict[Any, int] = {}
        for producer, time, received in heard:
            if received <= now:
                largest[producer] = max(largest.get(producer, time), time)
                last[producer] = max(last.get(producer, received), received)
        live = [largest[one] for one in largest if idle is None or now - last[one] < idle]
        if live:
            reached = max(reached, min(live) - lateness)
    return reached


class Clock(Node):
    """The rows of a source at the times that its producers' clocks would have said, had they been right."""

    def __init__(self, source: Source, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.inputs = (source,)
        self._source = source
        self._occurred, self._sent = options["occurred"], options["sent"]
        self._heard: list[Heard] = []

    def step(self, epoch: Epoch) -> None:
        self._epoch = epoch
        for row in self._source.came:
            self._heard.append((self._source._producer(row), self._time(row), row.received))
        super().step(epoch)

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        return [replace(row, time=self._time(row)) for row in self._source.rows.values()]

    def _time(self, row: Fact) -> int:
        occurred, sent = micros(row.values[self._occurred]), row.values[self._sent]
        return occurred if sent is None else occurred + row.received - micros(sent)

    def _watermarks(self) -> tuple[int, int]:
        return self._source.reached(self._heard, self.watermarks[1], self._epoch)


class StreamSource(Source):
    """Every row of the topic."""

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        return [*self.rows.values(), *self._read]


class TableSource(Source):
    """The last row of each key in the order of the log; tombstones delete."""

    def after(self, epoch: Epoch) -> Iterable[Fact]:
        held = dict(self.rows)
        self.versions = []
        gone = {row.id for row in self._gone}
        for row in sorted([*self._read, *self._gone], key=lambda row: row.log_order):
            key = tuple(canonical(row.values[name]) for name in self.read.key)
            deleted = row.id in gone
            order = (row.received, row.place[0], row.place[1])
            time = row.received if deleted else row.time
            self.versions.append(Version(key, None if deleted else row.values, time, order))
            held.pop(key, None)
            if not deleted:
                held[key] = Fact(key, row.values, row.time, row.place, row.received)
        return held.values()
