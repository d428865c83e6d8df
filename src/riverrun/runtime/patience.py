"""Waiting for what will pass: a store that is away, a disk that is full, a lock that somebody holds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from riverrun.errors import Closed, Transient

log = logging.getLogger("riverrun.runtime")

T = TypeVar("T")

_FIRST = 0.1
_LONGEST = 10.0


class Waitable(Protocol):
    """What says that somebody should stop: an event, or the life of a run."""

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is time to stop, waiting so long for it."""


class Patience:
    """Repeats a call that fails with `Transient`, with growing pauses, until it succeeds or somebody stops it.

    `waiting` says what it waits for, None while it does not. With `tries`, the last failure is raised.
    """

    def __init__(self, who: str, stopping: Waitable | None = None, tries: int | None = None) -> None:
        self.waiting: str | None = None
        self._who = who
        self._stopping = stopping or threading.Event()
        self._tries = tries

    def through(self, act: Callable[[], T]) -> T:
        """What `act` gives, as soon as it can. It must be safe to repeat."""
        pause, failures = _FIRST, 0
        try:
            while True:
                try:
                    return act()
                except Transient as error:
                    failures += 1
                    if failures == self._tries:
                        raise
                    self.waiting = str(error)
                    log.warning("%s waits, trying again in %.1f s: %s", self._who, pause, error)
                    if self._stopping.wait(pause):
                        raise Closed(f"{self._who} was stopped while it waited: {error.message}") from error
                    pause = min(pause * 2, _LONGEST)
        finally:
            self.waiting = None
