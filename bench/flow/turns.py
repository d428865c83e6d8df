"""Queries that take turns: each does some epochs, then waits inside its last one while another works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from bench.figure import WrongResult


class Turn:
    """The turns of one query. It calls `done` at the end of every epoch."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._allowed = 0
        self._free = False
        self._ends: list[float] = []

    def done(self) -> None:
        """An epoch has taken effect; returns when the next one may begin."""
        with self._change:
            self._ends.append(time.perf_counter())
            self._change.notify_all()
            self._change.wait_for(lambda: self._free or len(self._ends) < self._allowed)

    def go(self, epochs: int, failure: Callable[[], object], patience: float = 300.0) -> float:
        """Let the query do so many epochs, everything that belongs to them included; gives the seconds it took."""
        deadline = time.monotonic() + patience
        with self._change:
            begin = time.perf_counter()
            self._allowed += epochs
            self._change.notify_all()
            while len(self._ends) < self._allowed:
                self._change.wait(0.2)
                if (cause := failure()) is not None or time.monotonic() > deadline:
                    raise WrongResult(f"a query stopped after {len(self._ends)} of {self._allowed} epochs: {cause}")
            return self._ends[-1] - begin

    def release(self) -> None:
        """Wait no more."""
        with self._change:
            self._free = True
            self._change.notify_all()
