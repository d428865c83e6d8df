"""How fast a run is and where its time goes, from its commits and from Spark's own progress."""

from __future__ import annotations

import collections
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from riverrun.durations import from_micros
from riverrun.runtime.device_clocks import furthest_off
from riverrun.runtime.epoch import EpochResult
from riverrun.runtime.status import EpochTimes, TimeSplit

_SPAN = 10.0  # seconds that a rate is taken over


@dataclass(frozen=True)
class Committed:
    """One epoch, as the driver saw it. Seconds; `work` is what tasks spent on topics and nodes, side by side."""

    epoch: int
    at: float
    rows: int
    computing: float
    committing: float
    work: Mapping[str, float]
    exchanged: int = 0  # bytes that went from task to task beside Spark


class RunProgress:
    """What the last epochs of a run took."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._epochs: collections.deque[Committed] = collections.deque(maxlen=1000)
        self._around: dict[int, float] = {}
        self.figures: dict[str, dict[str, int]] = {}
        """What nodes said about themselves when they last did something."""
        self.clocks: dict[str, dict[str, int]] = {}
        """How wrong clocks were, by node and device, when rows last came."""

    def committed(self, result: EpochResult, computing: float, committing: float, exchanged: int = 0) -> None:
        """An epoch has taken effect."""
        report = result.report
        rows = sum(inputs["topic"]["read"] for inputs in report.counts.values() if "topic" in inputs)
        work = {name: micros / 1e6 for name, micros in report.work.items()}
        self.figures.update(report.figures)
        self.clocks.update({node: furthest_off(offsets) for node, offsets in report.clocks.items()})
        epoch = result.control.epoch
        self._epochs.append(Committed(epoch, time.monotonic(), rows, computing, committing, work, exchanged))

    def told(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Spark's own reports: what it did around our part of each epoch. Waiting for rows is not work."""
        for report in reports:
            took = report["durationMs"]
            if "addBatch" in took:
                around = took["triggerExecution"] - took["addBatch"] - took.get("latestOffset", 0)
                self._around[int(report["batchId"]) + 1] = max(around, 0) / 1000
        for epoch in sorted(self._around)[:-100]:
            del self._around[epoch]

    @property
    def is_complete(self) -> bool:
        """Whether Spark has reported on the last epoch."""
        return not self._epochs or self._epochs[-1].epoch in self._around

    @property
    def exchanged(self) -> int:
        """Bytes of the last epoch that went from task to task beside Spark."""
        return self._epochs[-1].exchanged if self._epochs else 0

    def rate(self) -> float:
        """Rows per second, over the last ten seconds."""
        now = time.monotonic()
        since = max(now - _SPAN, self._begun)
        rows = sum(epoch.rows for epoch in self._epochs if epoch.at > since)
        return round(rows / max(now - since, 0.001), 1)

    def times(self, topics: Iterable[str], cores: int) -> TimeSplit | None:
        """What the time of the last epoch went to; None before the first.

        Tasks read side by side, on all cores; that share of the computing time is given as reading.
        """
        return self._split(self._epochs[-1], topics, cores) if self._epochs else None

    def recent(self, topics: Collection[str], cores: int, count: int = 100) -> list[EpochTimes]:
        """The last epochs, oldest first."""
        shift = time.time() - time.monotonic()
        return [
            EpochTimes(one.epoch, from_micros(round((one.at + shift) * 1e6)), one.rows, self._split(one, topics, cores))
            for one in list(self._epochs)[-count:]
        ]

    def _split(self, epoch: Committed, topics: Iterable[str], cores: int) -> TimeSplit:
        reading = min(sum(epoch.work.get(topic, 0.0) for topic in topics) / cores, epoch.computing)
        return TimeSplit(
            plan=round(self._around.get(epoch.epoch, 0.0), 3),
            read=round(reading, 3),
            compute=round(epoch.computing - reading, 3),
            commit=round(epoch.committing, 3),
        )

    def nodes(self, topics: Iterable[str]) -> dict[str, float]:
        """Seconds of the last epoch that tasks spent in each stateful node, the slowest first."""
        if not self._epochs:
            return {}
        read = set(topics)
        work = {name: round(spent, 3) for name, spent in self._epochs[-1].work.items() if name not in read}
        return dict(sorted(work.items(), key=lambda item: -item[1]))
