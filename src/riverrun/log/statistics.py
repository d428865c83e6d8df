"""How large and how busy a topic is, from headers alone."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from riverrun.durations import from_micros, micros, wall_clock
from riverrun.log.frame import ROWS
from riverrun.log.journal import Journal

RATE_WINDOW = micros("1 minute")


def measure(journal: Journal) -> dict[str, Any]:
    """Sizes, counts and the rate of one journal; cheap to ask."""
    ends, entries = journal.extent()
    return {
        "bytes": sum(os.path.getsize(entry.path) for entry in entries if os.path.exists(entry.path)),
        "segments": len(entries),
        "appends": ends.commit,
        "rows_per_second": rows_per_second(journal),
        "received": from_micros(ends.received).isoformat() if ends.received else None,
        "recoveries": journal.board.recoveries,
    }


def rows_per_second(journal: Journal) -> float:
    """Over the last minute. Segments that are older are not opened."""
    since, rows = wall_clock() - RATE_WINDOW, 0.0
    ends, entries = journal.extent()
    for entry in reversed(entries):
        try:
            segment = journal.segments.open(entry)
        except FileNotFoundError:
            break  # rewritten or removed meanwhile; the next one who asks sees it
        grows = entry.first_commit == ends.segment and not entry.snapshot.generation
        rows += _rows_since(segment.index(ends.end if grows else segment.size), since)
        if entry.snapshot.received < since:
            break
    return rows / (RATE_WINDOW / 1e6)


def _rows_since(index: np.ndarray, since: int) -> float:
    """About how many rows came after `since`; of a merged frame that began before, its share."""
    recent = index[(index["kind"] == ROWS) & (index["received"] > since)]
    first, last = recent["first_received"], recent["received"]
    return float(np.sum(recent["rows"] * ((last - np.maximum(first, since) + 1) / (last - first + 1))))
