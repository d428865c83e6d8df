"""One run of a flow at a time: it tells that it is alive, and a newer one says from whom it takes over."""

from __future__ import annotations

import logging
import time

from riverrun.durations import show, wall_clock
from riverrun.errors import RiverrunError
from riverrun.log import process
from riverrun.views import Incumbent, Store

log = logging.getLogger("riverrun.runtime")

_EVERY = 5.0  # seconds between two words of a run
_SILENT = 30_000_000  # microseconds after which a run of another machine counts as gone


class Incumbency:
    """What a run tells of itself while it holds the fence of its flow. A store that does not take it is no reason to end:
    the next epoch finds out."""

    def __init__(self, flow: str, store: Store) -> None:
        self._flow = flow
        self._store = store
        self._fence: int | None = None
        self._next = 0.0

    def begin(self, fence: int) -> None:
        """The run has taken over, and runs."""
        self._fence, self._next = fence, 0.0
        self.tell()

    def tell(self) -> None:
        """It is alive."""
        if self._fence is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        try:
            self._store.hear(self._flow, self._fence, process.identity())
        except RiverrunError as error:
            log.debug("flow %s could not tell that it runs: %s", self._flow, error)

    def end(self) -> None:
        """It has ended, and not by dying."""
        if self._fence is not None:
            try:
                self._store.resign(self._flow, self._fence)
            except RiverrunError as error:
                log.debug("flow %s could not tell that it ended: %s", self._flow, error)


def say_takeover(flow: str, store: Store, rebuilds: bool) -> None:
    """Say which run a new one takes over from, if that is alive: whoever started this one may not know of it."""
    try:
        found = store.incumbent(flow)
    except RiverrunError as error:  # what the run needs of the store it finds out by itself
        log.debug("flow %s: who runs it is not known: %s", flow, error)
        return
    if found is None or not is_alive(found):
        return
    now = wall_clock()
    silent = _span(now - found.heard)
    if process.is_near(found.process):
        state = f"runs already ({found.run}, for {_span(now - found.since)}, last heard {silent} ago)"
    else:  # it may have died since, and nobody here can see that
        state = f"was heard {silent} ago ({found.run}), and may still run"
    log.warning(
        "flow %s %s: this run takes over from it%s; that one ends then, and nobody runs the flow when this one has ended",
        *(flow, state, " when its views are computed" if rebuilds else ""),
    )


def is_alive(found: Incumbent) -> bool:
    """Processes of this machine can be looked at. Others, of which there is only what they say, may be alive while they were
    heard not long ago."""
    if process.is_near(found.process):
        return not process.is_gone(found.process)
    return abs(wall_clock() - found.heard) < _SILENT


def _span(micros: int) -> str:
    return show(max(round(micros / 1e6), 0) * 1_000_000)
