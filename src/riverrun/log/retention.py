"""Retention: whole segments go, the oldest first, when their rows are too old or the topic is too large.

With an archive they are copied there before, and readers find them there. What is left is always a contiguous end of
the topic: each removal is on the disk before the next.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from riverrun import durable
from riverrun.durations import micros, wall_clock
from riverrun.failpoints import failpoint
from riverrun.log.replacement import remove_segment
from riverrun.log.rewrite import Pace, at_full_speed
from riverrun.log.sealing import seal
from riverrun.log.segment import Segment
from riverrun.log.segment_archive import archive_segment
from riverrun.log.segments import Entry

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedBackend


def enforce_retention(backend: EmbeddedBackend) -> dict[str, int]:
    """Remove (or archive) what is older or more than the topic keeps. Gives what left the topic's directory."""
    with backend.upkeep.alone():
        _roll_if_all_is_old(backend)
        removed = retain(backend)
        seal(backend)
    return removed


def retain(backend: EmbeddedBackend, pace: Pace = at_full_speed) -> dict[str, int]:
    """The same for somebody who has the upkeep lock; the active segment stays as it is."""
    entries = backend.journal.extent()[1]
    mine = [entry for entry in entries if entry.directory == backend.directory]
    gone = _expired(backend, mine)
    if gone and backend.journal.segments.archive:
        seal(backend, pace)
        mine = [entry for entry in backend.journal.extent()[1] if entry.directory == backend.directory]
    removed = 0
    for entry in mine[:gone]:
        pace()
        removed += os.path.getsize(entry.path)
        if backend.journal.segments.archive:
            archive_segment(entry, backend.journal.segments.archive)
            failpoint("retention.copied")
        remove_segment(entry.path)
        durable.sync_directory(entry.directory)
        failpoint("retention.unlinked")
    first, last = mine[0].snapshot.offsets, mine[gone].snapshot.offsets
    return {"segments": gone, "bytes": removed, "offsets": sum(last) - sum(first)}


def _expired(backend: EmbeddedBackend, entries: Sequence[Entry]) -> int:
    """How many of the oldest segments go; the last one is written to and stays."""
    horizon, limit = _horizon(backend), backend.spec.retention_bytes
    if backend.spec.retention is None and limit is None:
        return 0
    total = sum(os.path.getsize(entry.path) for entry in entries) if limit is not None else 0
    for count, entry in enumerate(entries[:-1]):
        too_large = limit is not None and total > limit
        if not too_large and _newest(entry, horizon) >= horizon:
            return count
        total -= os.path.getsize(entry.path)
    return len(entries) - 1


def _horizon(backend: EmbeddedBackend) -> int:
    """What was received before this is too old."""
    retention = backend.spec.retention
    return -(1 << 62) if retention is None else wall_clock() - micros(retention)


def _newest(entry: Entry, horizon: int) -> int:
    """When the newest row of a segment was received; its first frame says enough when that is recent."""
    segment = Segment(entry.directory, entry.first_commit)
    if segment.head.received >= horizon:
        return segment.head.received
    received = segment.index(segment.size)["received"]
    return int(received.max()) if len(received) else segment.head.received


def _roll_if_all_is_old(backend: EmbeddedBackend) -> None:
    if backend.journal.ends().received < _horizon(backend) and backend.journal.roll():
        failpoint("retention.rolled")
