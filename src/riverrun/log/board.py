"""The board: how far a topic's journal goes, in a small file that every process maps.

Two notices hang on it: what is *written* and what is *durable*. A notice has two slots and a number stored last,
with one aligned 8-byte store, so all partitions flip at once: readers take no lock, and a kill cannot leave half a notice.

It is never synced, so it is believed only where it was written: in this file, since this machine started. Everything it
says is found from the journal again.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

import google_crc32c

from riverrun import durable
from riverrun.errors import Corrupt, NewerFormat, NotFound, Unavailable

_MAGIC = int.from_bytes(b"RRBOARD2", "little")
_NUMBER = (1 << 56) - 1  # what is before the format's number

# Words (8 bytes each) before the two notices.
_BOOT, _HOLDER, _STATE, _RECOVERIES, _DEVICE, _INODE, _FIRST_NOTICE = 1, 3, 4, 5, 6, 7, 8
_ACCEPTS, _SYNC_FAILED, _DROPPED = range(3)  # values of the word _STATE
_FIXED = 6  # words of a slot before the offsets; behind them is the checksum


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
    except FileNotFoundError:
        return 1


class Board:
    """The mapped file. Only the holder of the topic's lock publishes."""

    def __init__(self, path: str, partitions: int) -> None:
        self._path = path
        self._slot = struct.Struct(f"<{_FIXED + partitions + 1}Q")  # a slot
        notice_bytes = 8 + 2 * self._slot.size
        size = 8 * _FIRST_NOTICE + 2 * notice_bytes
        fd = durable.open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            status = os.fstat(fd)
            self._place = (status.st_dev, status.st_ino)
            if status.st_size < size:
                # Real bytes, not a hole: a store into a hole on a full disk would be a SIGBUS.
                os.pwrite(fd, bytes(size), 0)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._words = memoryview(self._map).cast("Q")
        self._written = _FIRST_NOTICE
        self._durable = _FIRST_NOTICE + notice_bytes // 8
        self._seen: dict[int, tuple[int, Ends]] = {}  # by notice: the newest that was read, with its number
        magic = self._words[0]
        if magic and magic & _NUMBER != _MAGIC & _NUMBER:
            raise Corrupt(f"{path} is not a board", hint="Remove it while no process uses the topic; it is made again")
        if magic > _MAGIC:  # an older one is made again
            raise NewerFormat(f"{path} was written by a newer Riverrun", hint="Upgrade Riverrun")

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever published on it."""
        return self._words[0] != _MAGIC

    @property
    def is_current(self) -> bool:
        """Whether it was published since this machine started, is no copy, and is undamaged."""
        words = self._words
        if words[0] != _MAGIC or words[_BOOT] | words[_BOOT + 1] << 64 != boot_id():
            return False
        if (words[_DEVICE], words[_INODE]) != self._place:
            return False
        try:
            self.written()
            self.durable()
        except Corrupt:
            return False
        return True

    def written(self) -> Ends:
        return self._read(self._written)

    def durable(self) -> Ends:
        return self._read(self._durable)

    def publish_written(self, ends: Ends) -> None:
        self._publish(self._written, ends)

    def publish_durable(self, ends: Ends) -> None:
        self._publish(self._durable, ends)

    def reset(self, ends: Ends) -> None:
        """After recovery: both notices say `ends`, and the board belongs to this boot and this file."""
        self._publish(self._written, ends)
        self._publish(self._durable, ends)
        words, boot = self._words, boot_id()
        words[_BOOT], words[_BOOT + 1] = boot & ((1 << 64) - 1), boot >> 64
        words[_DEVICE], words[_INODE] = self._place
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
        words = self._words
        while True:
            number = words[notice]
            seen = self._seen.get(notice)
            if seen is not None and seen[0] == number:  # no two notices have the same
                return seen[1]
            at = self._at(notice, number)
            slot = self._map[at : at + self._slot.size]
            if words[notice] != number:
                continue
            if _checksum(slot[:-8], number) != int.from_bytes(slot[-8:], "little"):
                raise Corrupt(
                    f"{self._path} is damaged", hint="Open the topic again; it is made again from the journal"
                )
            values = self._slot.unpack(slot)
            ends = Ends._make((*values[:_FIXED], values[_FIXED:-1]))
            self._seen[notice] = (number, ends)
            return ends

    def _publish(self, notice: int, ends: Ends) -> None:
        number = self._words[notice] + 1
        at = self._at(notice, number)
        packed = self._slot.pack(*ends[:_FIXED], *ends.offsets, 0)[:-8]
        self._map[at : at + self._slot.size] = packed + _checksum(packed, number).to_bytes(8, "little")
        self._words[notice] = number
        self._seen[notice] = (number, ends)

    def _at(self, notice: int, number: int) -> int:
        """The byte at which the slot of a notice with this number begins."""
        return 8 * (notice + 1) + (number & 1) * self._slot.size


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


def _checksum(slot: bytes, number: int) -> int:
    """Of a notice and its number, so that the older slot does not pass for the newer one."""
    return int(google_crc32c.extend(number & 0xFFFFFFFF, slot))
