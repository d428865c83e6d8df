"""Putting a rewritten segment in the place of one or several; a kill at any moment leaves the old or the new."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from riverrun import durable
from riverrun.failpoints import failpoint
from riverrun.log import frame as frames
from riverrun.log.frame import Stamp
from riverrun.log.journal import Journal
from riverrun.log.rewrite import Pace, Piece, at_full_speed
from riverrun.log.segment import Segment, index_path, list_segments, snapshot_frame, write_index
from riverrun.log.segments import Entry

_WRITTEN = 4 << 20  # bytes collected for one write


def replace_segments(
    journal: Journal, replaced: Sequence[Entry], following: Entry, pieces: Iterable[Piece], step: str
) -> int:
    """Write the pieces as one segment in the place of those replaced, which are neighbours. Gives its size.

    It takes the name of the first. From the moment of the rename on the others are ignored, because its snapshot says
    how far it goes; they are unlinked then, or by the next upkeep.
    """
    first = replaced[0]
    snapshot = msgspec.structs.replace(
        first.snapshot,
        through=following.first_commit - 1,
        generation=max(entry.snapshot.generation for entry in replaced) + 1,
    )
    # Sequences and fences of the old frames are in the snapshot of the following segment, which must be there for good.
    journal.sync(following.first_commit)
    fresh = first.path + ".tmp"
    try:
        failpoint(f"{step}.begin")
        _write(fresh, Segment(first.directory, first.first_commit), snapshot_frame(snapshot), pieces)
        failpoint(f"{step}.written")
        durable.rename(fresh, first.path)
    except BaseException:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise
    failpoint(f"{step}.renamed")
    size = index_segment(first)
    failpoint(f"{step}.indexed")
    for entry in replaced[1:]:
        remove_segment(entry.path)
        failpoint(f"{step}.unlinked")
    return size


def index_segment(entry: Entry, pace: Pace = at_full_speed) -> int:
    """Write the index beside a segment that is durable; that makes it a sealed one. Gives the segment's size."""
    segment = Segment(entry.directory, entry.first_commit)
    size = segment.size
    write_index(entry.path, segment.head, size, segment.index(size, pace))
    return size


def remove_segment(path: str) -> None:
    """Remove a segment, then its index: without the segment, the index means nothing."""
    for name in (path, index_path(path)):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


def clear_leftovers(directory: str, entries: Sequence[Entry], active: int) -> None:
    """Remove what interrupted upkeep left: unfinished files, segments that are part of another, indexes of none."""
    named = {entry.first_commit for entry in entries if entry.directory == directory}
    for first_commit in list_segments(directory):
        if first_commit < active and first_commit not in named:
            remove_segment(f"{directory}/{first_commit:020d}.journal")
    for name in os.listdir(directory):
        stem, _, kind = name.partition(".")
        orphan = kind == "index" and not os.path.exists(f"{directory}/{stem}.journal")
        if orphan or name.endswith(".tmp"):
            os.unlink(f"{directory}/{name}")


def _write(path: str, old: Segment, head: frames.Frame, pieces: Iterable[Piece]) -> None:
    fd = durable.open_file(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        stamp, received = Stamp(old.head.commit, 1), old.head.received
        buffers: list[Any] = frames.encode(head, stamp, 0, 0, received, received)
        at, size = 0, head.frame_bytes
        for frame, commit in pieces:
            buffers += frames.encode(frame, Stamp(commit, 1), 0, frame.offset, frame.first_received, frame.received)
            size += frame.frame_bytes
            if size - at > _WRITTEN:
                durable.write_all(fd, buffers, at)
                at, buffers = size, []
        durable.write_all(fd, buffers, at)
        durable.sync(fd)
    finally:
        os.close(fd)
