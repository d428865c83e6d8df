"""When rows arrived and what time they said it was: a bounded memory of one topic, for the picture of time.

Rows are read, if few have come since the last look; of many, the headers must do, which know the smallest and largest
event time of some rows but not where between them the rows are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.log.topic import Topic
from riverrun.log.topic_backend import Summary

SECOND = 1_000_000
KEPT = 900  # seconds
# How much older than the newest row of its producer a row was, in seconds: what a lateness would have to be.
DELAYS = (0, 1, 2, 5, 10, 30, 60, 300, 3600)
_FEW = 20_000  # rows that are read in one look
_FRAMES = 5_000  # headers that are looked at in one look
_PRODUCERS = 200
_MARKS = 400  # rows behind the watermark that are remembered one by one
_BINS = 512  # of event time, for what arrived in one second

Integers = npt.NDArray[np.int64]


@dataclass
class Speaker:
    """One producer: its largest event time, when it was last heard, and the way there."""

    name: str
    time: int
    heard: int
    rows: int = 0
    trail: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def hear(self, time: int, received: int, rows: int) -> None:
        self.time = max(self.time, time)
        self.heard = max(self.heard, received)
        self.rows += rows
        if not self.trail or received >= self.trail[-1][0] + SECOND:
            self.trail.append((received, self.time))


@dataclass(frozen=True)
class Arrived:
    """How many rows came in a second, by second of their event time; or all of those, by event time."""

    received: Integers
    times: Integers
    counts: Integers

    @classmethod
    def merge(cls, parts: Sequence[Arrived]) -> Arrived:
        """Several as one, by event time."""
        none = np.zeros(0, np.int64)
        received, times, counts = (
            np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in ("received", "times", "counts")
        )
        order = np.argsort(times, kind="stable")
        return cls(received[order], times[order], counts[order])


class ArrivalSample:
    """What came into a topic, as far back as is remembered."""

    def __init__(self, topic: Topic, producers: str | None = None) -> None:
        self._topic = topic
        column = producers or topic.spec.producers
        self._producers = column if isinstance(column, str) and column in topic.schema.names else None
        latest, first = topic.ends(), topic.begins()
        back = _FEW // max(len(latest), 1)
        self._place = {p: max(first[p], offset - back) for p, offset in latest.items()}
        self._seconds: deque[Arrived] = deque()
        self.arrived = Arrived.merge([])  # replaced, never changed: others read it meanwhile
        self.marks: deque[tuple[int, int]] = deque(maxlen=_MARKS)  # received and time of rows behind the watermark
        self.behind = 0  # how many there were
        self.speakers: dict[str, Speaker] = {}
        self.delays: Integers = np.zeros(len(DELAYS), np.int64)
        self.rows = 0  # that were read one by one: `delays` and `behind` are of these
        self._estimated = 0

    def name_producer(self, producer: str | None) -> str:
        """A producer as people call it."""
        return (producer or "(no name)") if self._producers else f"partition {producer}"

    @property
    def is_exact(self) -> bool:
        """Whether all that is remembered was counted row by row."""
        return not self._seconds or self._estimated < self._seconds[0].received[0]

    def look(self, watermark: int | None) -> None:
        """Take in what has come since. `watermark` is what it was before: older rows are behind it."""
        end = self._topic.ends()
        first = self._topic.begins()
        start = {p: max(self._place[p], first[p]) for p in end}
        count = sum(end[p] - start[p] for p in end)
        self._place = end
        if count <= 0:
            return
        if count <= _FEW:
            self._read(start, end, watermark)
        else:
            self._estimate(start, end)
        oldest = max((int(part.received[0]) for part in self._seconds), default=0) - KEPT
        while self._seconds and self._seconds[0].received[0] < oldest:
            self._seconds.popleft()
        self.arrived = Arrived.merge(self._seconds)
        if len(self.speakers) > _PRODUCERS:
            heard = sorted(self.speakers.values(), key=lambda one: one.heard)
            for speaker in heard[: len(heard) - _PRODUCERS]:
                del self.speakers[speaker.name]

    def _read(self, start: Mapping[int, int], end: Mapping[int, int], watermark: int | None) -> None:
        columns = ["_time", "_received", "_partition", "_deleted"]
        columns += [self._producers] if self._producers else []
        rows = self._topic.read_offsets(start, end, columns)
        rows = rows.filter(pc.and_(pc.invert(rows.column("_deleted")), pc.is_valid(rows.column("_time"))))
        if not rows.num_rows:
            return
        times, received = _numbers(rows, "_time"), _numbers(rows, "_received")
        column = rows.column(self._producers or "_partition").cast(pa.string()).fill_null("")
        encoded = column.combine_chunks().dictionary_encode()
        codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        order = np.argsort(received, kind="stable")
        self._measure(codes[order], names, times[order], received[order])
        if watermark is not None:
            behind = np.flatnonzero(times < watermark)
            self.behind += len(behind)
            newest = behind[-_MARKS:]
            self.marks.extend(zip(received[newest].tolist(), times[newest].tolist(), strict=True))
        self.rows += len(times)
        seconds = received // SECOND
        for second in np.unique(seconds):
            self._add(int(second), times[seconds == second])

    def _measure(self, codes: npt.NDArray[np.int32], names: list[str], times: Integers, received: Integers) -> None:
        """Who spoke, and how much older each row was than the newest of its producer before it."""
        for code, name in enumerate(names):
            mine = codes == code
            own, when = times[mine], received[mine]
            speaker = self.speakers.setdefault(name, Speaker(name, int(own[0]), int(when[0])))
            newest = np.maximum.accumulate(np.concatenate(([speaker.time], own)))[:-1]
            delay = np.maximum(newest - own, 0) / SECOND
            self.delays += np.array([np.count_nonzero(delay > limit) for limit in DELAYS])
            for at in np.unique(when // SECOND):
                until = int(np.searchsorted(when // SECOND, at, side="right"))
                speaker.hear(int(own[:until].max()), int(when[until - 1]), 0)
            speaker.rows += len(own)

    def _add(self, second: int, times: Integers) -> None:
        bins, counts = np.unique(times // SECOND, return_counts=True)
        if len(bins) > _BINS:
            width = int(bins[-1] - bins[0]) // _BINS + 1
            coarse, place = np.unique(bins // width, return_inverse=True)
            bins, counts = coarse * width, np.bincount(place, counts).astype(np.int64)
        self._seconds.append(Arrived(np.full(len(bins), second), bins, counts))

    def _estimate(self, start: Mapping[int, int], end: Mapping[int, int]) -> None:
        """From headers: rows of a frame are taken to lie evenly between its smallest and its largest time."""
        for number, part in enumerate(self._topic.summaries(start, end)):
            if number >= _FRAMES:
                break
            if part.rows and part.min_time <= part.max_time:
                self._spread(part)

    def _spread(self, part: Summary) -> None:
        second = part.received // SECOND
        self._estimated = max(self._estimated, second)
        steps = int(min(max((part.max_time - part.min_time) // SECOND + 1, 1), 64, part.rows))
        times = np.linspace(part.min_time, part.max_time, steps).astype(np.int64) // SECOND
        counts = np.full(steps, part.rows // steps, np.int64)
        counts[: part.rows % steps] += 1
        self._seconds.append(Arrived(np.full(steps, second), times, counts))
        said = part.maxima if self._producers else {str(part.partition): part.max_time}
        for name, time in said.items():
            speaker = self.speakers.setdefault(name, Speaker(name, time, part.received))
            speaker.hear(time, part.received, part.rows // max(len(said), 1))


def _numbers(table: pa.Table, name: str) -> Integers:
    numbers: Integers = table.column(name).cast(pa.int64()).to_numpy()
    return numbers
