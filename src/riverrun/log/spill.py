"""Rows that wait on disk: a file, added to at its end and taken from at its front, with a limit.

It survives the end of its process, not a power cut: it is not synced. Its owner holds a lock on it, so whoever gets the
lock later has found what a crash left behind.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from riverrun import durable
from riverrun.checksums import checksum
from riverrun.errors import Corrupt
from riverrun.log.lock import try_lock

log = logging.getLogger("riverrun.log")

SUFFIX = ".spill"
_RECORD = struct.Struct("<IIq")  # bytes of the row, checksum of number and row, number
_NUMBER = struct.Struct("<q")


class SpilledRows(NamedTuple):
    """Some rows from the front, the number of the last one, and the place after it."""

    rows: list[bytes]
    number: int
    end: int


class Spill:
    """One file. Numbers rise from row to row; what they mean is the owner's affair."""

    def __init__(self, path: str, fd: int, limit: int) -> None:
        self.path = path
        self._fd = fd
        self._limit = limit
        self._begin = 0
        self._end = os.fstat(fd).st_size

    @classmethod
    def create(cls, directory: str, name: str, limit: int) -> Spill:
        """A new file. It gets its name when it is locked, so that nobody takes it for a leftover."""
        durable.make_directory(directory)
        path = f"{directory}/{name}{SUFFIX}"
        fd = durable.open_file(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(f"{path}.new", path)
        return cls(path, fd, limit)

    @classmethod
    def leftovers(cls, directory: str, prefix: str) -> Iterator[Spill]:
        """Files whose owner is gone, oldest name first."""
        try:
            names = sorted(os.listdir(directory))
        except FileNotFoundError:
            return
        for name in names:
            if not (name.startswith(prefix) and name.endswith(SUFFIX)):
                continue
            try:
                fd = os.open(f"{directory}/{name}", os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            if try_lock(fd) and os.fstat(fd).st_nlink:
                yield cls(f"{directory}/{name}", fd, 0)
            else:
                os.close(fd)

    @property
    def name(self) -> str:
        return os.path.basename(self.path).removesuffix(SUFFIX)

    @property
    def is_empty(self) -> bool:
        return self._begin == self._end

    def add(self, number: int, row: bytes) -> bool:
        """Put a row after the others. False, and nothing is written, when the limit is reached or the disk full."""
        if self._end and self._end + _RECORD.size + len(row) > self._limit:
            return False
        head = _RECORD.pack(len(row), checksum(_NUMBER.pack(number) + row), number)
        try:
            durable.write_all(self._fd, [head, row], self._end)
        except OSError:
            os.ftruncate(self._fd, self._end)
            return False
        self._end += len(head) + len(row)
        return True

    def front(self, size: int, after: int = -1) -> SpilledRows:
        """Rows from the front, about `size` bytes of them, but only those numbered above `after`."""
        data = os.pread(self._fd, min(size, self._end - self._begin), self._begin)
        need = _RECORD.size + (_RECORD.unpack_from(data)[0] if len(data) >= _RECORD.size else 0)
        if len(data) < need:
            data = os.pread(self._fd, need, self._begin)
        rows: list[bytes] = []
        at, number = 0, after
        while at + _RECORD.size <= len(data):
            length, crc, row_number = _RECORD.unpack_from(data, at)
            row = data[at + _RECORD.size : at + _RECORD.size + length]
            if len(row) < length:
                break
            if checksum(_NUMBER.pack(row_number) + row) != crc:
                raise Corrupt(f"{self.path} is damaged at byte {self._begin + at}", hint="Rows after it were not sent")
            if row_number > after:
                rows.append(row)
                number = row_number
            at += _RECORD.size + length
        if at == 0 and data:
            log.warning("%s: left out %d bytes of a row that was not finished", self.path, self._end - self._begin)
            at = self._end - self._begin
        return SpilledRows(rows, number, self._begin + at)

    def release(self, end: int) -> None:
        """Rows up to `end` are in the topic. An empty file begins again at its start."""
        self._begin = end
        if self.is_empty:
            os.ftruncate(self._fd, 0)
            self._begin = self._end = 0

    def let_go(self) -> None:
        """Close it as it is. Never unlocks: after a fork the lock is the parent's."""
        os.close(self._fd)

    def close(self) -> None:
        """Close it, and remove it if it is empty."""
        if self.is_empty:
            os.unlink(self.path)
        self.let_go()
