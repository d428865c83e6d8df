"""The phases of a run, one after the other, and waiting for them."""

from __future__ import annotations

import threading
from enum import IntEnum


class Phase(IntEnum):
    """`BUILDING`: views are computed from the log before the run takes in what comes. `STOPPING` was asked for."""

    BUILDING = 0
    LIVE = 1
    STOPPING = 2
    ENDED = 3


class Lifecycle:
    """Where a run is. It never goes back."""

    def __init__(self) -> None:
        self._phase = Phase.BUILDING
        self._changed = threading.Condition()
        self.was_live = False
        self.failure: BaseException | None = None

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def is_live(self) -> bool:
        return self._phase is Phase.LIVE

    @property
    def is_stopping(self) -> bool:
        return self._phase >= Phase.STOPPING

    @property
    def has_ended(self) -> bool:
        return self._phase is Phase.ENDED

    def reach(self, phase: Phase) -> None:
        """Go on to a phase, unless it has passed already."""
        with self._changed:
            self.was_live = self.was_live or phase is Phase.LIVE
            if phase > self._phase:
                self._phase = phase
                self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """The run ends because of this."""
        self.failure = error

    def wait_for(self, phase: Phase, timeout: float | None = None) -> bool:
        """Whether the run is in this phase or beyond, waiting so long for it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._phase >= phase, timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the run is to stop, waiting so long."""
        return self.wait_for(Phase.STOPPING, timeout)
