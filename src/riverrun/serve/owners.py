"""Topics that flows write, into which nobody else should put rows."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from riverrun.errors import Conflict, RiverrunError
from riverrun.log.redelivery import is_of_dead_letters
from riverrun.log.topic import Topic

if TYPE_CHECKING:
    from riverrun.serve.backend import Backend

_FRESH = 5.0  # seconds for which what was found holds


class Owners:
    """Which flow writes a topic: one that has a fence there."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._flows: frozenset[str] = frozenset()
        self._found: dict[str, tuple[float, str | None]] = {}

    def check(self, topic: Topic) -> None:
        """`Conflict` when a flow writes it, or a queue or an alert its dead letters: who sends them again believes them."""
        if is_of_dead_letters(topic):
            raise Conflict(f"topic {topic.name} has dead letters", hint="Only an admin token may append here")
        with self._lock:
            at, flow = self._found.get(topic.name, (0.0, None))
            if not at or time.monotonic() > at + _FRESH:
                self._flows |= self._names()
                flow = next((name for name in sorted(self._flows) if topic.backend.fence(name)), None)
                self._found[topic.name] = time.monotonic(), flow
        if flow is not None:
            raise Conflict(
                f"topic {topic.name} is written by flow {flow}",
                hint="Append to a topic that the flow reads; only an admin token may append here",
            )

    def _names(self) -> frozenset[str]:
        here = [run.name for run in self._backend.runs]
        try:
            stored = self._backend.store().flows() if self._backend.has_views() else []
        except RiverrunError:
            stored = []  # those that were known before still are
        return frozenset([*here, *stored])
