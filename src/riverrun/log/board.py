"""The board: how far a topic's journal goes, in a small file that every process maps.

Two notices hang on it: what is *written* and what is *durable*. A notice has two slots and a number stored last,
with one aligned 8-byte store, so all partitions flip at once: readers take no lock, and a kill cannot leave half a notice.
"""

from __future__ import annotations

import mmap
import os
from typing import NamedTuple

from riverrun import durable
from riverrun.errors import Corrupt, NewerFormat, NotFound, Unavailable

_MAGIC = int.from_bytes(b"RRBOARD1", "little")
_PREFIX = _MAGIC & ((1 << 56) - 1)

# Words (8 bytes each) before the two notices.
_BOOT, _HOLDER, _STATE, _RECOVERIES, _PARTITIONS, _FIRST_NOTICE = 1, 3, 4, 5, 6, 8
_ACCEPTS, _SYNC_FAILED, _DROPPED = range(3)  # values of the word _STATE
_FIXED = 6  # words of a slot before the offsets


class Ends(NamedTuple):
    """One notice: everything before it is there."""

    commit: int  # number of the last append
    segment: int  # first commit of the segment it is in
    end: int  # byte after it
    begin: int  # byte where it begins
    received: int  # its receive time, which never goes back
    producers: int  # how many appends so far had a producer
    offsets: tuple[int, ...]  # next offset of each partition


def boot_id() -> int:
    """Changes with every start of the machine: what was only in memory before is in doubt after."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return int(file.read().strip().replace("-", ""), 16)
    except OSError:
        return 1


class Board:
    """The mapped file. Only the holder of the topic's lock publishes."""

    def __init__(self, path: str, partitions: int) -> None:
        size = 8 * (_FIRST_NOTICE + 2 * _notice_words(partitions))
        fd = durable.open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(fd).st_size < size:
                # Real bytes, not a hole: a store into a hole on a full disk would be a SIGBUS.
                os.pwrite(fd, bytes(size), 0)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._words = memoryview(self._map).cast("Q")
        self._partitions = partitions
        self._written = _FIRST_NOTICE
        self._durable = _FIRST_NOTICE + _notice_words(partitions)
        magic = self._words[0]
        if magic and magic & ((1 << 56) - 1) != _PREFIX:
            raise Corrupt(f"{path} is not a board", hint="Remove it while no process uses the topic; it is made again")
        if magic and magic != _MAGIC:
            raise NewerFormat(f"{path} was written by a newer Riverrun", hint="Upgrade Riverrun")

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever published on it."""
        return self._words[0] != _MAGIC

    @property
    def is_current(self) -> bool:
        """Whether it was published since this machine started."""
        words, boot = self._words, boot_id()
        return words[0] == _MAGIC and words[_BOOT] | words[_BOOT + 1] << 64 == boot

    def written(self) -> Ends:
        return self._read(self._written)

    def durable(self) -> Ends:
        return self._read(self._durable)

    def publish_written(self, ends: Ends) -> None:
        self._publish(self._written, ends)

    def publish_durable(self, ends: Ends) -> None:
        self._publish(self._durable, ends)

    def reset(self, ends: Ends) -> None:
        """After recovery: both notices say `ends`, and the board belongs to this boot."""
        self._publish(self._written, ends)
        self._publish(self._durable, ends)
        words, boot = self._words, boot_id()
        words[_PARTITIONS] = self._partitions
        words[_BOOT], words[_BOOT + 1] = boot & ((1 << 64) - 1), boot >> 64
        words[0] = _MAGIC
        words[_STATE] = _ACCEPTS
        words[_HOLDER] = 0

    @property
    def holder(self) -> int:
        """Process id of who is inside the append section, 0 when nobody is (or who died there)."""
        return self._words[_HOLDER]

    @holder.setter
    def holder(self, pid: int) -> None:
        self._words[_HOLDER] = pid

    @property
    def failed(self) -> bool:
        """An fsync failed: nobody knows what is on the disk, so nothing more is accepted."""
        return self._words[_STATE] == _SYNC_FAILED

    def mark_failed(self) -> None:
        self._words[_STATE] = _SYNC_FAILED

    @property
    def dropped(self) -> bool:
        """The topic was dropped, perhaps by another process: whoever has its files open writes to nowhere."""
        return self._words[_STATE] == _DROPPED

    def refuse_dropped(self, topic: str) -> None:
        """Whoever has the files of a dropped topic open must not write to nowhere."""
        if self.dropped:
            raise NotFound(f"topic {topic} was dropped", hint="Open it anew if it was made again")

    def refuse_failed(self, topic: str) -> None:
        """After a failed fsync nothing is accepted until somebody has looked; in a dropped topic nothing at all."""
        self.refuse_dropped(topic)
        if self.failed:
            raise Unavailable(
                f"topic {topic} accepts no writes: an fsync failed, so nobody knows what is on the disk",
                hint=f"Check the disk, then run: riverrun topic repair {topic}",
            )

    @property
    def recoveries(self) -> int:
        return self._words[_RECOVERIES]

    def count_recovery(self) -> None:
        self._words[_RECOVERIES] += 1

    def close(self) -> None:
        self._words.release()
        self._map.close()

    def _read(self, notice: int) -> Ends:
        words, size = self._words, _FIXED + self._partitions
        while True:
            number = words[notice]
            at = notice + 1 + (number & 1) * size
            slot = words[at : at + size].tolist()
            if words[notice] == number:
                return Ends._make((*slot[:_FIXED], tuple(slot[_FIXED:])))

    def _publish(self, notice: int, ends: Ends) -> None:
        words, number = self._words, self._words[notice] + 1
        at = notice + 1 + (number & 1) * (_FIXED + self._partitions)
        fixed = (ends.commit, ends.segment, ends.end, ends.begin, ends.received, ends.producers)
        for i, value in enumerate((*fixed, *ends.offsets)):
            words[at + i] = value
        words[notice] = number


def mark_dropped(path: str) -> None:
    """Tell every process that has mapped this board."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # nobody opened the topic yet, or the files were lost
    try:
        os.pwrite(fd, _DROPPED.to_bytes(8, "little"), 8 * _STATE)
    finally:
        os.close(fd)


def _notice_words(partitions: int) -> int:
    return 1 + 2 * (_FIXED + partitions)
