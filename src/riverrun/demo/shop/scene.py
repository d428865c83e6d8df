"""What there is to see at one moment, as plain data."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riverrun.demo.shop.events import KINDS
from riverrun.demo.shop.inbox import Inbox
from riverrun.demo.shop.supervision import Processing
from riverrun.errors import RiverrunError
from riverrun.river import River
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.status import FlowStatus

_SPAN = 5.0  # seconds that a rate is taken over
_LEDGER = {
    "read": "read",
    "accepted": "accepted",
    "late_dropped": "too late",
    "late_aside": "late, put aside",
    "duplicates": "duplicates",
    "quarantined": "in quarantine",
}
_NEWEST = """
    select strftime('%H:%M:%S', window_start) as "from", country, views, visitors from traffic
    order by traffic.window_start desc, views desc limit 5
"""
_BEST = "select place, product, orders, revenue from bestsellers order by place"


@dataclass(frozen=True)
class Scene:
    """`topics` has rows and rows per second, `views` a title and a few rows each, `keys` what can be pressed."""

    seconds: float
    doing: str
    status: FlowStatus
    topics: Mapping[str, tuple[int, float]]
    views: list[tuple[str, list[dict[str, Any]]]]
    ledger: Mapping[str, int]
    alert: str | None  # the last message
    url: str | None
    keys: list[tuple[str, str]]

    @property
    def rate(self) -> float:
        """Events per second, over all topics."""
        return sum(rate for _, rate in self.topics.values())


class Observer:
    """Looks at a river."""

    def __init__(self, river: River, processing: Processing, inbox: Inbox, begun: float) -> None:
        self._river = river
        self._processing = processing
        self._inbox = inbox
        self._begun = begun
        self._seen: collections.deque[tuple[float, dict[str, int]]] = collections.deque()

    def look(self, url: str | None, keys: list[tuple[str, str]]) -> Scene:
        """The scene now."""
        now = time.monotonic()
        there = set(self._river.topics())
        rows = {name: self._rows(name) for name in KINDS if name in there}
        self._seen.append((now, rows))
        while len(self._seen) > 2 and now - self._seen[1][0] > _SPAN:
            self._seen.popleft()
        then, before = self._seen[0]
        passed = max(now - then, 0.001)
        steps = self._processing.steps
        status = self._processing.observe()
        return Scene(
            seconds=time.time() - self._begun,
            doing=steps[-1].doing if steps else "starting the processing",
            status=status,
            topics={name: (count, (count - before.get(name, 0)) / passed) for name, count in rows.items()},
            views=[("bestsellers", self._query("bestsellers", _BEST)), ("traffic", self._query("traffic", _NEWEST))],
            ledger=_total(status.ledger),
            alert=self._inbox.last,
            url=url,
            keys=keys,
        )

    def has_numbers(self) -> bool:
        """Whether a view has rows."""
        return bool(self._query("events", "select kind from events limit 1"))

    def best(self) -> list[dict[str, Any]]:
        """The bestsellers."""
        return self._query("bestsellers", _BEST)

    def _rows(self, topic: str) -> int:
        return sum(self._river.topic(topic).ends().values())

    def _query(self, view: str, query: str) -> list[dict[str, Any]]:
        try:
            return self._river.view(view).sql(query)
        except RiverrunError:
            return []  # the flow has not made it yet


def _total(ledger: Sequence[LedgerEntry]) -> dict[str, int]:
    """All nodes together; what topics had, and what was accepted of it, only where it was read."""
    sources = [entry for entry in ledger if entry.input == "topic"]
    of_sources = ("read", "accepted", "quarantined")
    counts = {
        said: sum(entry.count(kind) for entry in (sources if kind in of_sources else ledger))
        for kind, said in _LEDGER.items()
    }
    return {said: count for said, count in counts.items() if count}
