"""Which frames of a journal have the rows of a range of offsets, and whether the range can be read at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from riverrun.errors import Invalid, OutOfRange
from riverrun.log.frame import ROWS
from riverrun.log.journal import Journal
from riverrun.log.segment import Segment
from riverrun.log.segments import Entry

_BEYOND = 1 << 62


class IndexedFrames(NamedTuple):
    """Frames of one segment, as rows of its index, and the range that is wanted of them, by partition."""

    segment: Segment
    frames: np.ndarray
    low: np.ndarray
    high: np.ndarray


def check_range(topic: str, start: Mapping[int, int], begins: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Refuse offsets that cannot be read, never jump silently. Raises OutOfRange, or Invalid for a partition."""
    for partition, offset in start.items():
        if partition not in ends:
            raise Invalid(f"topic {topic} has no partition {partition}; it has {len(ends)}")
        low, high = begins[partition], ends[partition]
        if offset < low:
            raise OutOfRange(
                f"topic {topic}, partition {partition}: offset {offset} is no longer kept, only {low} to {high}",
                hint=f"Start at {low} if the missing rows do not matter (riverrun group reset)",
            )
        if offset > high:
            raise OutOfRange(
                f"topic {topic}, partition {partition}: offset {offset} is beyond the end, which is {high}",
                hint="Rows that were acknowledged with fsync='os' may be lost in a power cut; reset the reader",
            )


def find_frames(
    journal: Journal, start: Mapping[int, int], end: Mapping[int, int], written: bool = False
) -> Iterator[IndexedFrames]:
    """Every segment that has some of the range, with the frames that have it, oldest first. With `written`, also those
    that are not on the disk yet.

    The low end rises when segments were rewritten while they were read: a frame may hold rows given already.
    """
    ends, pending = journal.extent(written)
    check_range(journal.topic, start, dict(enumerate(pending[0].snapshot.offsets)), dict(enumerate(ends.offsets)))
    low, high = np.full(len(ends.offsets), _BEYOND), np.full(len(ends.offsets), -1)
    for partition, offset in start.items():
        low[partition], high[partition] = offset, min(end.get(partition, offset), ends.offsets[partition])
    pending = pending[_first_segment(pending, low, high) :]
    while pending:
        entry = pending[0]
        begins = np.array(entry.snapshot.offsets)
        following = np.array(pending[1].snapshot.offsets if len(pending) > 1 else ends.offsets)
        if np.all((low >= high) | (begins >= high)):
            return
        if np.all((following <= low) | (begins >= high)):
            pending = pending[1:]
            continue
        try:
            segment = journal.segments.open(entry)
        except FileNotFoundError:
            low = np.maximum(low, begins)  # all segments before it are done
            journal.segments.forget()
            ends, pending = journal.extent(written)
            rest = {p: int(low[p]) for p in start if low[p] < high[p]}
            first = dict(enumerate(pending[0].snapshot.offsets))
            check_range(journal.topic, rest, first, dict(enumerate(ends.offsets)))
            continue
        # Bytes of the board mean the file as it was appended; a rewritten one is complete.
        grows = entry.first_commit == ends.segment and not entry.snapshot.generation
        index = segment.index(ends.end if grows else segment.size)
        index = index[_first_frame(index, low, high) :]
        partitions = index["partition"]
        wanted = (index["offset"] + index["span"] > low[partitions]) & (index["offset"] < high[partitions])
        yield IndexedFrames(segment, index[wanted], low, high)
        pending = pending[1:]


def _first_segment(entries: Sequence[Entry], low: np.ndarray, high: np.ndarray) -> int:
    """Where a range begins. Looks from the end, where most readers are: what lies before costs them nothing."""
    at, wanted = len(entries) - 1, low < high
    while at > 0 and np.any(wanted & (np.array(entries[at].snapshot.offsets) > low)):
        at -= 1
    return at


def _first_frame(index: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """The same within a segment: no frame before this one has rows of the range."""
    at, step, wanted = len(index), 64, low < high
    while at > 0 and wanted.any():
        begin = max(0, at - step)
        # Only rows: in a merged segment, promises come after the frame whose offsets they are among.
        block = index[begin:at][index["kind"][begin:at] == ROWS]
        wanted[block["partition"][block["offset"] <= low[block["partition"]]]] = False
        at, step = begin, 2 * step
    return at
