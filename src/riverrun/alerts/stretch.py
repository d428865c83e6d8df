"""A stretch of an alert's topic: the rows that one message is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from riverrun.alerts.message import SHOWN
from riverrun.log.topic import Topic

Offsets = dict[int, int]


class Stretch(msgspec.Struct, frozen=True):
    """From `start` to before `end`, by partition."""

    start: Offsets
    end: Offsets

    def key(self, topic: str) -> str:
        """What identifies these rows, now and when they are sent again.

        >>> Stretch({0: 3, 1: 7}, {0: 5, 1: 7}).key("shop.alerts.fraud")
        'shop.alerts.fraud@0:3-4'
        """
        parts = [f"{p}:{low}-{self.end[p] - 1}" for p, low in sorted(self.start.items()) if self.end[p] > low]
        return f"{topic}@{','.join(parts)}"


def count_between(done: Mapping[int, int], reached: Mapping[int, int]) -> int:
    """How many offsets lie between two places."""
    return sum(max(0, end - done.get(p, 0)) for p, end in reached.items())


@dataclass(frozen=True)
class StretchRows:
    """What is in a stretch: how many rows, the first of them in the order they came, and how many retention removed."""

    count: int
    rows: list[dict[str, Any]]
    lost: int


def read_stretch(topic: Topic, stretch: Stretch) -> StretchRows:
    """Read a stretch in bounded memory. The same rows give the same answer, however often."""
    there = clip_to_kept(topic, stretch)
    count = sum(batch.num_rows for batch in topic.batches(there.start, there.end, ["_offset"]))
    first = [row for partition in there.start for row in _head(topic, there, partition)]
    first.sort(key=lambda row: row[:3])
    lost = sum(there.start.get(p, stretch.end[p]) - low for p, low in stretch.start.items())
    return StretchRows(count, [row for *_, row in first[:SHOWN]], lost)


def clip_to_kept(topic: Topic, stretch: Stretch) -> Stretch:
    """What retention has left of a stretch; partitions with nothing are left out."""
    earliest = topic.begins()
    start = {p: max(low, earliest[p]) for p, low in stretch.start.items()}
    return Stretch({p: low for p, low in start.items() if low < stretch.end[p]}, stretch.end)


def _head(topic: Topic, stretch: Stretch, partition: int) -> list[tuple[Any, int, int, dict[str, Any]]]:
    """The first rows of a partition, with what they are ordered by."""
    first: list[tuple[Any, int, int, dict[str, Any]]] = []
    for batch in topic.batches({partition: stretch.start[partition]}, {partition: stretch.end[partition]}):
        head = batch.slice(0, SHOWN)
        hidden = [head.column(name).to_pylist() for name in ("_received", "_partition", "_offset")]
        plain = head.select(topic.schema.names).to_pylist()
        first += zip(*hidden, plain, strict=True)
        if len(first) >= SHOWN:
            break
    return first
