"""Who reads a topic, and how large their lag is: groups and flows, in rows and in time."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.serve.pages.flow_health import BEHIND, BUSY, OK, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join
from riverrun.serve.pages.quantities import number, span

_FRESH = 2.0  # seconds


@dataclass(frozen=True)
class TopicReader:
    """One who reads a topic."""

    kind: str  # flow, consumer, queue
    name: str
    rows: int
    seconds: float | None
    members: int | None = None

    def lag(self) -> Html:
        """In rows and in time, with a word."""
        return show_lag(self.rows, self.seconds)


def show_lag(rows: int, seconds: float | None) -> Html:
    """In rows and in time, with a word."""
    if not rows:
        return badge(OK, "up to date")
    word = badge(BUSY, "behind") if (seconds or 0.0) >= BEHIND else badge(OK, "keeps up")
    return join(word, " ", number(rows, "rows"), join(", ", span(seconds)) if seconds is not None else "")


def find_readers(history: History) -> dict[str, list[TopicReader]]:
    """Groups and flows, by topic."""
    groups = history.remember("readers", _FRESH, lambda: _find_groups(history))
    readers = {topic: list(reading) for topic, reading in groups.items()}
    for name, past in list(history.flows.items()):
        lag = past.status.lag
        for topic, rows in lag.topics.items():
            readers.setdefault(topic, []).insert(0, TopicReader("flow", name, rows, lag.seconds if rows else 0.0))
    return readers


def _find_groups(history: History) -> dict[str, list[TopicReader]]:
    groups = history.backend.river.groups
    readers: dict[str, list[TopicReader]] = {}
    for one in groups.list():
        for topic, lag in groups.lag(one["group"])["topics"].items():
            reader = TopicReader(one["kind"], one["group"], lag["rows"], lag["seconds"], one["members"])
            readers.setdefault(topic, []).append(reader)
    return readers
