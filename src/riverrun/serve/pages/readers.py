"""Who reads a topic, and how far behind they are: groups and flows, in rows and in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riverrun.serve.pages.figures import number, span
from riverrun.serve.pages.health import BEHIND, BUSY, OK, badge
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join

_FRESH = 2.0  # seconds


@dataclass(frozen=True)
class TopicReader:
    """One who reads a topic."""

    kind: str  # flow, consumer, queue
    name: str
    rows: int
    seconds: float | None
    members: int | None = None

    @property
    def is_behind(self) -> bool:
        return self.rows > 0 and (self.seconds or 0.0) >= BEHIND

    def lag(self) -> Html:
        """In rows and in time, with a word."""
        word = badge(BUSY, "behind") if self.is_behind else badge(OK, "up to date" if not self.rows else "keeps up")
        if not self.rows:
            return word
        age = join(", ", span(self.seconds)) if self.seconds is not None else ""
        return join(word, " ", number(self.rows, "rows"), age)


def readers(history: History) -> dict[str, list[TopicReader]]:
    """By topic."""
    found = {topic: list(known) for topic, known in history.kept("readers", _FRESH, lambda: _groups(history)).items()}
    for name, known in list(history.flows.items()):
        lag: dict[str, Any] = known.status.get("lag") or {}
        for topic, rows in lag.get("topics", {}).items():
            found.setdefault(topic, []).insert(0, TopicReader("flow", name, rows, lag["seconds"] if rows else 0.0))
    return found


def _groups(history: History) -> dict[str, list[TopicReader]]:
    groups = history.backend.river.groups
    found: dict[str, list[TopicReader]] = {}
    for one in groups.list():
        for topic, lag in groups.lag(one["group"])["topics"].items():
            reader = TopicReader(one["kind"], one["group"], lag["rows"], lag["seconds"], one["members"])
            found.setdefault(topic, []).append(reader)
    return found
