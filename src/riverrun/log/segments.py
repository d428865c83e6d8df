"""The segments of a topic, oldest first: those in its archive, then those in its directory."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from itertools import pairwise
from typing import NamedTuple

from riverrun.errors import Corrupt, RiverrunError, from_system
from riverrun.log.segment import Segment, SegmentSnapshot, list_segments, segment_path

_OPEN = 64  # segments kept open; each holds a descriptor and a mapping
# Two changes of a directory this close together may leave it with the same modification time.
_TICK = 20_000_000
_TRIES = 1000


class Entry(NamedTuple):
    """A segment without its descriptor."""

    directory: str
    first_commit: int
    file: tuple[int, int]  # inode and header checksum: a rewritten segment is another file
    stat: tuple[int, int]  # inode and time of change: numbers of removed files are given out again
    snapshot: SegmentSnapshot

    @property
    def path(self) -> str:
        return segment_path(self.directory, self.first_commit)

    @property
    def through(self) -> int:
        """A segment that begins with this commit or an earlier one is part of this one, or a leftover of it."""
        return max(self.snapshot.through, self.first_commit)


class Segments:
    """What is there now. Looking again costs one stat while nothing was rolled, rewritten or removed."""

    def __init__(self, directory: str, archive: str | None = None) -> None:
        self.archive = archive
        self._directories = [*([archive] if archive else []), directory]
        self._seen: tuple[int, ...] = ()
        self._entries: list[Entry] = []
        self._open: OrderedDict[tuple[int, tuple[int, int]], Segment] = OrderedDict()
        self._lock = threading.Lock()

    def entries(self, active: int) -> list[Entry]:
        """All segments up to the one that begins with commit `active`, without leftovers of an interrupted rewrite."""
        with self._lock:
            seen = tuple(_changed(directory) for directory in self._directories)
            if seen != self._seen or not self._entries or self._entries[-1].through < active:
                try:
                    self._entries = self._look(active)
                except OSError as error:
                    raise self._unreadable(error) from error
                self._seen = seen if time.time_ns() - max(seen) > _TICK else ()
                # A file that was rewritten or removed keeps its space on the disk as long as it is open.
                live = {(entry.first_commit, entry.file) for entry in self._entries}
                for key in self._open.keys() - live:
                    del self._open[key]
            return self._entries

    def forget(self) -> None:
        """Look again the next time, whatever the directory says."""
        with self._lock:
            self._seen = ()

    def open(self, entry: Entry) -> Segment:
        """The segment for reading. FileNotFoundError when it was rewritten or removed meanwhile."""
        key = (entry.first_commit, entry.file)
        with self._lock:
            segment = self._open.get(key)
            if segment is None:
                try:
                    segment = Segment(entry.directory, entry.first_commit)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise self._unreadable(error) from error
                if segment.head.header_crc != entry.file[1]:
                    raise FileNotFoundError(entry.path)
                self._open[key] = segment
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return segment

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    def _unreadable(self, error: OSError) -> RiverrunError:
        return from_system(error, f"{self._directories[-1]} cannot be read")

    def _look(self, active: int) -> list[Entry]:
        for _ in range(_TRIES):
            entries = self._list(active)
            if entries is not None:
                break  # otherwise a file went away between listing and opening, so another process made progress
        else:
            raise Corrupt(f"{self._directories[-1]} lists segments that cannot be opened")
        for before, entry in pairwise(entries):
            if entry.snapshot.previous > before.through:
                raise Corrupt(
                    f"{segment_path(before.directory, entry.snapshot.previous)} is missing",
                    hint="Rows in the middle of the topic were in it; restore it from a copy",
                )
        if not entries or entries[-1].through < active:
            raise Corrupt(
                f"{segment_path(self._directories[-1], active)} is missing",
                hint="The topic's newest rows were in it; restore it from a copy",
            )
        return entries

    def _list(self, active: int) -> list[Entry] | None:
        seen = {(entry.directory, entry.first_commit, entry.stat): entry for entry in self._entries}
        # The topic's own directory is listed first: what has left it since is in the archive by then.
        listed = [(d, list_segments(d)) for d in reversed(self._directories) if os.path.isdir(d)]
        entries: list[Entry] = []
        for directory, commits in reversed(listed):
            for first_commit in commits:
                if first_commit > active:
                    continue  # rolled, but not published yet
                if entries and first_commit <= entries[-1].through:
                    continue  # already part of the one before, or archived and not yet removed here
                entry = _entry(directory, first_commit, seen)
                if entry is None:
                    return None
                entries.append(entry)
        return entries


def _entry(directory: str, first_commit: int, seen: dict[tuple[str, int, tuple[int, int]], Entry]) -> Entry | None:
    try:
        status = os.stat(segment_path(directory, first_commit))
        stat = (status.st_ino, status.st_mtime_ns)
        same = seen.get((directory, first_commit, stat))
        if same:
            return same
        segment = Segment(directory, first_commit)
    except FileNotFoundError:
        return None
    try:
        return Entry(directory, first_commit, (stat[0], segment.head.header_crc), stat, segment.snapshot)
    finally:
        segment.close()


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except FileNotFoundError:
        return 0
