"""When rows are received: never before the ones that are there."""

from __future__ import annotations

import logging

from riverrun.durations import from_micros, show, wall_clock

log = logging.getLogger("riverrun.log")

AHEAD = 60_000_000  # µs by which clocks may differ, or be set back, without anybody being told


class ReceiveClock:
    """The receive times of one topic. They do not go back when the clock does: who reads up to a moment must not miss
    what comes later. So a clock that was wrong once is felt until the right one has caught up."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._told = False

    def next(self, last: int) -> int:
        """The time of an append, when the one before was received at `last`."""
        now = wall_clock()
        if last <= now:
            return now
        if last > now + AHEAD and not self._told:
            self._told = True
            log.warning("topic %s: %s", self._topic, describe_lead(last, now))
        return last


def describe_lead(last: int, now: int) -> str:
    """What it means that the newest row was received in the future."""
    return (
        f"its newest row was received at {from_micros(last).isoformat()}, {show(last - now)} ahead of the clock. Until"
        " then all rows are received at that moment, and retention by age removes nothing"
    )
