"""How fast rows arrive, from headers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from riverrun.durations import micros, wall_clock
from riverrun.log.frame import ROWS

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedTopic

WINDOW = micros("1 minute")


def rows_per_second(topic: EmbeddedTopic) -> float:
    """Over the last minute. Segments that are older are not opened."""
    since, rows = wall_clock() - WINDOW, 0.0
    ends, entries = topic.view()
    for entry in reversed(entries):
        try:
            segment = topic.journal.segments.open(entry)
        except FileNotFoundError:
            break  # rewritten or removed meanwhile; the next one who asks sees it
        grows = entry.first_commit == ends.segment and not entry.snapshot.generation
        rows += arrived(segment.index(ends.end if grows else segment.size), since)
        if entry.snapshot.received < since:
            break
    return rows / (WINDOW / 1e6)


def arrived(index: np.ndarray, since: int) -> float:
    """About how many rows came after `since`; of a merged frame that began before, its share."""
    recent = index[(index["kind"] == ROWS) & (index["received"] > since)]
    first, last = recent["first_received"], recent["received"]
    return float(np.sum(recent["rows"] * ((last - np.maximum(first, since) + 1) / (last - first + 1))))
