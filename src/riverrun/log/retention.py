"""Retention: whole segments go, the oldest first, when their rows are too old or the topic is too large.

With an archive they are copied there before, and readers find them there. What is left is always a contiguous end of
the topic: each removal is on the disk before the next.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from riverrun import durable
from riverrun.durations import micros, wall_clock
from riverrun.failpoints import failpoint
from riverrun.log.archive import store
from riverrun.log.replacement import remove
from riverrun.log.rewrite import Pace, at_full_speed
from riverrun.log.sealing import seal
from riverrun.log.segment import Segment
from riverrun.log.segments import Entry

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedTopic


def enforce(topic: EmbeddedTopic) -> dict[str, int]:
    """Remove (or archive) what is older or more than the topic keeps. Gives what left the topic's directory."""
    with topic.upkeep.alone():
        _roll_if_all_is_old(topic)
        removed = retain(topic)
        seal(topic)
    return removed


def retain(topic: EmbeddedTopic, pace: Pace = at_full_speed) -> dict[str, int]:
    """The same for somebody who has the upkeep lock; the active segment stays as it is."""
    entries = topic.view()[1]
    mine = [entry for entry in entries if entry.directory == topic.directory]
    gone = _expired(topic, mine)
    if gone and topic.journal.segments.archive:
        seal(topic, pace)
        mine = [entry for entry in topic.view()[1] if entry.directory == topic.directory]
    removed = 0
    for entry in mine[:gone]:
        pace()
        removed += os.path.getsize(entry.path)
        if topic.journal.segments.archive:
            store(entry, topic.journal.segments.archive)
            failpoint("retention.copied")
        remove(entry.path)
        durable.sync_directory(entry.directory)
        failpoint("retention.unlinked")
    first, last = mine[0].snapshot.offsets, mine[gone].snapshot.offsets
    return {"segments": gone, "bytes": removed, "offsets": sum(last) - sum(first)}


def _expired(topic: EmbeddedTopic, entries: Sequence[Entry]) -> int:
    """How many of the oldest segments go; the last one is written to and stays."""
    horizon, limit = _horizon(topic), topic.spec.retention_bytes
    if topic.spec.retention is None and limit is None:
        return 0
    total = sum(os.path.getsize(entry.path) for entry in entries) if limit is not None else 0
    for count, entry in enumerate(entries[:-1]):
        too_large = isinstance(limit, int) and total > limit
        if not too_large and _newest(entry, horizon) >= horizon:
            return count
        total -= os.path.getsize(entry.path)
    return len(entries) - 1


def _horizon(topic: EmbeddedTopic) -> int:
    """What was received before this is too old."""
    retention = topic.spec.retention
    return wall_clock() - micros(retention) if isinstance(retention, timedelta) else -(1 << 62)


def _newest(entry: Entry, horizon: int) -> int:
    """When the newest row of a segment was received; its first frame says enough when that is recent."""
    segment = Segment(entry.directory, entry.first_commit)
    if segment.head.received >= horizon:
        return segment.head.received
    received = segment.index(segment.size)["received"]
    return int(received.max()) if len(received) else segment.head.received


def _roll_if_all_is_old(topic: EmbeddedTopic) -> None:
    if topic.journal.ends().received < _horizon(topic) and topic.journal.roll():
        failpoint("retention.rolled")
