"""The way to one address: what it has, what is being tried, and when something is due.

Every address goes at its own pace, so that one which is away holds up nobody else: its rows become one larger message.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from riverrun.alerts.address import Address
from riverrun.alerts.retry import LONGEST_PAUSE, pause_after
from riverrun.alerts.stretch import Offsets, Stretch, count_between


class Note(msgspec.Struct):
    """What of a line survives the process: what the address has, what it was about to be given, and since when."""

    done: Offsets
    trying: Stretch | None = None
    begun: int = 0


class Line:
    """Times are microseconds of the wall clock, given by the caller; a jump of it delays by one `every` at most."""

    def __init__(self, address: Address, every: int, note: Note) -> None:
        self.address = address
        self.note = note
        self.attempts = 0
        self.sent = 0
        self.failed = 0
        self._every = every
        self._retry = 0

    def due(self, reached: Mapping[int, int], now: int, hurry: bool = False) -> int | None:
        """When there is something to do, which may be now or earlier; None: when rows come."""
        if self.note.trying is not None:
            return min(self._retry, now + LONGEST_PAUSE)
        if not count_between(self.note.done, reached):
            return None
        return now if hurry else min(self.note.begun + self._every, now + self._every)

    def begin(self, reached: Mapping[int, int], now: int) -> bool:
        """Decide which rows the next message is about, unless that is decided; whether it was now."""
        if self.note.trying is not None:
            return False
        start = dict(self.note.done)
        self.note.trying = Stretch(start, {p: max(low, reached.get(p, low)) for p, low in start.items()})
        self.note.begun = now
        self.attempts, self._retry = 0, 0
        return True

    def failure(self, now: int) -> None:
        """Not this time: wait, longer each time."""
        self.failed += 1
        self.attempts += 1
        self._retry = now + pause_after(self.attempts)

    def finish(self) -> None:
        """What was tried is dealt with."""
        assert self.note.trying is not None
        self.note.done = self.note.trying.end
        self.note.trying = None


def least_offsets(lines: list[Line]) -> Offsets:
    """What all addresses have."""
    return {p: min(line.note.done[p] for line in lines) for p in lines[0].note.done}
