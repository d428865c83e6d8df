"""The segments of a topic, oldest first: those in its archive, then those in its directory."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import NamedTuple

from riverrun.errors import Corrupt
from riverrun.log.segment import Segment, Snapshot, list_segments, segment_path

_OPEN = 64  # segments kept open; each holds a descriptor and a mapping


class Entry(NamedTuple):
    """A segment without its descriptor."""

    directory: str
    first_commit: int
    file: tuple[int, int]  # inode and header checksum: a rewritten segment is another file
    snapshot: Snapshot

    @property
    def path(self) -> str:
        return segment_path(self.directory, self.first_commit)


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
            if seen != self._seen or not self._entries or self._entries[-1].first_commit < active:
                self._entries = self._look(active)
                self._seen = seen
            return self._entries

    def open(self, entry: Entry) -> Segment:
        """The segment for reading. FileNotFoundError when it was removed meanwhile."""
        key = (entry.first_commit, entry.file)
        with self._lock:
            segment = self._open.get(key)
            if segment is None:
                segment = Segment(entry.directory, entry.first_commit)
                self._open[key] = segment
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return segment

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    def _look(self, active: int) -> list[Entry]:
        known = {(entry.directory, entry.first_commit, entry.file[0]): entry for entry in self._entries}
        found: list[Entry] = []
        for directory in self._directories:
            if not os.path.isdir(directory):
                continue
            for first_commit in list_segments(directory):
                if first_commit > active:
                    continue  # rolled, but not published yet
                if found and first_commit <= max(found[-1].snapshot.through, found[-1].first_commit):
                    continue  # already part of the one before, or archived and not yet removed here
                entry = self._entry(directory, first_commit, known)
                if entry:
                    found.append(entry)
        if not found or found[-1].first_commit != active:
            raise Corrupt(
                f"{segment_path(self._directories[-1], active)} is missing",
                hint="The topic's newest rows were in it; restore it from a copy",
            )
        return found

    def _entry(self, directory: str, first_commit: int, known: dict[tuple[str, int, int], Entry]) -> Entry | None:
        try:
            inode = os.stat(segment_path(directory, first_commit)).st_ino
            same = known.get((directory, first_commit, inode))
            if same:
                return same
            segment = Segment(directory, first_commit)
        except FileNotFoundError:
            return None
        try:
            return Entry(directory, first_commit, (inode, segment.head.header_crc), segment.snapshot)
        finally:
            segment.close()


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except FileNotFoundError:
        return 0
