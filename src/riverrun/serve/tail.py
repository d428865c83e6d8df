"""A topic as a stream of events: each row in JSON, its id the position after it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from riverrun.log.json_rows import plain_rows
from riverrun.log.topic import Topic
from riverrun.log.wake import Bell
from riverrun.serve.answers import encode
from riverrun.serve.sse import event

_ORDER = [("_received", "ascending"), ("_partition", "ascending"), ("_offset", "ascending")]
_FEWEST, _FIRST, _MOST = 1, 16, 1024  # rows of each partition that are read at once
_SMALL, _LARGE = 1 << 17, 1 << 19  # bytes: less, and the next time it may be more rows; more, and it is fewer

Offsets = tuple[int, ...]


class Tail:
    """Reads rows from some offsets on. Within a partition they come in order, and all together as they arrived, except
    that far behind the end a partition may run ahead of another one."""

    def __init__(self, topic: Topic, start: Mapping[int, int]) -> None:
        self._topic = topic
        self._rows = _FIRST
        self._bell: Bell | None = None
        self._woken = threading.Event()
        self.place: Offsets = tuple(start[p] for p in range(topic.partitions))

    def read(self, end: Offsets | None = None) -> list[bytes]:
        name, low = self._topic.name, self.place
        last = end or self._latest()
        high = tuple(max(first, min(first + self._rows, stop)) for first, stop in zip(low, last, strict=True))
        if high == low:
            return []
        rows = self._topic.read({name: dict(enumerate(low))}, {name: dict(enumerate(high))})
        at = [f"{p}:{offset}" for p, offset in enumerate(low)]
        events = []
        for row in plain_rows(rows.sort_by(_ORDER).combine_chunks()):
            at[row["_partition"]] = f"{row['_partition']}:{row['_offset'] + 1}"
            events.append(event(f"{name}@{','.join(at)}", encode(row)))
        size = sum(map(len, events))
        if size > _LARGE:
            self._rows = max(self._rows // 4, _FEWEST)
        elif size < _SMALL:
            self._rows = min(self._rows * 2, _MOST)
        self.place = high
        return events

    def compare(self, place: Offsets) -> int:
        if self.place == place:
            return 0
        return -1 if any(mine < theirs for mine, theirs in zip(self.place, place, strict=True)) else 1

    def wait(self, seconds: float) -> None:
        if self._bell is None:
            self._bell = Bell()
            self._topic.attach(self._bell)
        self._bell.wait_until(lambda: self._woken.is_set() or self._latest() != self.place, seconds)

    def wake(self) -> None:
        self._woken.set()
        if self._bell is not None:
            self._bell.ring()

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()

    def _latest(self) -> Offsets:
        latest = self._topic.ends()
        return tuple(latest[p] for p in range(self._topic.partitions))
