"""A segment: one file of a topic's journal, as a reader sees it. Headers come from the index, bodies from the mapping.

A sealed segment has its index in a file beside it. The file is derived: when it is missing, or belongs to an earlier
version of the segment, the headers are scanned instead.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from riverrun import durable
from riverrun.checksums import checksum
from riverrun.errors import Corrupt, NewerFormat
from riverrun.log import frame as frames
from riverrun.log.frame import HEADER_BYTES, INDEX, NO_SEQUENCE, SNAPSHOT, Frame, Header

SUFFIX = ".journal"
_INDEX_HEAD = struct.Struct("<8sqII")
_INDEX_MAGIC = b"RRINDEX1"
_PLACE = ("at", "header_bytes", "body_bytes", "body_crc")
_SMALL = 256 << 10  # below this a pread is cheaper than a new mapping


class RememberedAppend(msgspec.Struct, array_like=True):
    """One remembered append of a producer: its sequence, and the ends of all partitions after it."""

    sequence: int
    offsets: tuple[int, ...]


class ProducerMemory(msgspec.Struct, array_like=True):
    """What is remembered of a producer, the newest sequence last."""

    fence: int = 0
    received: int = 0
    recent: list[RememberedAppend] = []

    @property
    def last_sequence(self) -> int:
        return self.recent[-1].sequence if self.recent else NO_SEQUENCE


class SegmentSnapshot(msgspec.Struct):
    """The first frame of every segment: all that was known before it, so that nothing older is needed to go on."""

    offsets: tuple[int, ...]
    producers: dict[bytes, ProducerMemory]
    appends: int  # how many appends with a producer came before
    received: int
    previous: int = 0  # first commit of the segment before, so that a missing file is noticed
    through: int = 0  # last commit in it, when the segment was written again (merge, compaction)
    generation: int = 0  # how often it was written again


def segment_path(directory: str, first_commit: int) -> str:
    return f"{directory}/{first_commit:020d}{SUFFIX}"


def list_segments(directory: str) -> list[int]:
    """First commits of the segments in a directory, in order."""
    names = (name.removesuffix(SUFFIX) for name in os.listdir(directory) if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if name.isdigit())


def snapshot_frame(snapshot: SegmentSnapshot) -> Frame:
    body = msgspec.msgpack.encode(snapshot)
    return Frame(partition=0, rows=0, body=body, body_crc=checksum(body), kind=SNAPSHOT)


class Segment:
    """Reading of one file. Safe to use while the file grows, and after it was replaced or removed."""

    _fd = -1

    def __init__(self, directory: str, first_commit: int) -> None:
        self.path = segment_path(directory, first_commit)
        self.first_commit = first_commit
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._view = memoryview(b"")
        self._index: np.ndarray = np.empty(0, INDEX)  # with room for more
        self._count = 0
        self._scanned = 0
        self._known: set[int] = set()  # frames whose bodies were verified
        self._lock = threading.Lock()
        header = frames.parse(memoryview(self.pread(0, min(self.size, HEADER_BYTES))), 0)
        if header is None or header.kind != SNAPSHOT:
            raise Corrupt(f"{self.path} at byte 0: the segment does not begin with a snapshot")
        if header.version > frames.VERSION:
            raise NewerFormat(f"{self.path} was written by a newer Riverrun", hint="Upgrade Riverrun")
        self.head = header
        body = self.bytes_at(header.header_bytes, header.body_bytes)
        if checksum(bytes(body)) != header.body_crc:
            raise self.damaged(0)
        self.snapshot = msgspec.msgpack.decode(body, type=SegmentSnapshot)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def data_begin(self) -> int:
        """Byte after the snapshot, where rows begin."""
        return self.head.frame_bytes

    def pread(self, at: int, size: int) -> bytes:
        return os.pread(self._fd, size, at)

    def bytes_at(self, at: int, size: int) -> memoryview:
        """`size` bytes at `at`, mapped where that pays. They stay valid as long as they are referred to."""
        if at + size > len(self._view):
            if size < _SMALL:
                data = self.pread(at, size)
                if len(data) < size:
                    raise self.damaged(at)
                return memoryview(data)
            length = self.size
            if at + size > length:
                raise self.damaged(at)
            # The old mapping lives on while batches refer to it.
            self._view = memoryview(mmap.mmap(self._fd, length, access=mmap.ACCESS_READ))
        return self._view[at : at + size]

    def index(self, end: int, pace: Callable[[], None] | None = None) -> np.ndarray:
        """One row for every frame before byte `end`: where it begins, and its header."""
        with self._lock:
            return self._indexed(end, pace)

    def _indexed(self, end: int, pace: Callable[[], None] | None) -> np.ndarray:
        if self._scanned == 0 and not self._load_index():
            self._scanned = self.data_begin
        if self._scanned < end:
            self._scan(end, pace)
        index = self._index[: self._count]
        return index[: int(np.searchsorted(index["at"], end))] if self._scanned > end else index

    def _scan(self, end: int, pace: Callable[[], None] | None) -> None:
        begin = self._scanned
        data = self.bytes_at(begin, end - begin)
        if end - begin > _SMALL:
            added = frames.scan_index(data, pace)
        else:
            added = np.array([(at, *header) for at, header in frames.scan(data)], INDEX)
        if len(added):
            added["at"] += begin
            self._add(added)
            last = added[-1]
            self._scanned = int(last["at"]) + int(last["header_bytes"]) + frames.padded(int(last["body_bytes"]))
        if self._scanned < end:
            raise self.damaged(self._scanned)

    def _add(self, added: np.ndarray) -> None:
        """Room doubles, so following a file that grows costs what was appended, not what is there."""
        count = self._count + len(added)
        if count > len(self._index):
            room = np.empty(max(count, 2 * self._count), INDEX)
            room[: self._count] = self._index[: self._count]
            self._index = room
        self._index[self._count : count] = added  # after everything that was given out
        self._count = count

    def _load_index(self) -> bool:
        loaded = read_index(self.path, self.head, self.size)
        if loaded is None:
            return False
        self._index, self._count, self._scanned = loaded, len(loaded), self.size
        return True

    def extras(self, entry: Any) -> memoryview:
        """The bytes between the fixed header and the body."""
        return self.bytes_at(int(entry["at"]) + HEADER_BYTES, int(entry["header_bytes"]) - HEADER_BYTES)

    def stored_body(self, entry: Any) -> pa.Buffer:
        """The body of a frame as it is on the disk, its checksum verified."""
        return self._verified(*(int(entry[name]) for name in _PLACE))

    def body(self, entry: Any) -> pa.Buffer:
        """The body of a frame as Arrow reads it, its checksum verified."""
        return _plain(self.stored_body(entry), int(entry["flags"]), int(entry["raw_bytes"]))

    def expect(self, index: np.ndarray) -> None:
        """These frames are going to be read: map the file if they are so much that this is cheaper."""
        if int(index["body_bytes"].sum()) >= _SMALL:
            begin, last = int(index["at"][0]), index[-1]
            self.bytes_at(begin, int(last["at"]) + int(last["header_bytes"]) + int(last["body_bytes"]) - begin)

    def bodies(self, index: np.ndarray) -> list[pa.Buffer]:
        """The bodies of some frames as Arrow reads them. Of many at once, each costs little."""
        stored = map(self._verified, *(index[name].tolist() for name in _PLACE))
        return list(map(_plain, stored, index["flags"].tolist(), index["raw_bytes"].tolist()))

    def known_bodies(self, index: np.ndarray) -> list[pa.Buffer]:
        """The same for rows here and there, of which the same frames are read again and again: verified the first time."""
        places = index["at"].tolist()
        if any(at not in self._known for at in places):
            bodies = self.bodies(index)
            self._known.update(places)
            return bodies
        sizes = zip(places, index["header_bytes"].tolist(), index["body_bytes"].tolist(), strict=True)
        stored = [pa.py_buffer(self.bytes_at(at + header, body)) for at, header, body in sizes]
        return list(map(_plain, stored, index["flags"].tolist(), index["raw_bytes"].tolist()))

    def _verified(self, at: int, header_bytes: int, body_bytes: int, crc: int) -> pa.Buffer:
        buffer = pa.py_buffer(self.bytes_at(at + header_bytes, body_bytes))
        if checksum(buffer) != crc:
            raise self.damaged(at)
        return buffer

    def damaged(self, at: int) -> Corrupt:
        return Corrupt(
            f"{self.path} is damaged at byte {at}",
            hint="Restore the file from a copy. Nothing was skipped; rows before that byte can still be read",
        )


def _plain(body: pa.Buffer, flags: int, raw_bytes: int) -> pa.Buffer:
    return pa.decompress(body, decompressed_size=raw_bytes, codec="lz4_raw") if flags & frames.LZ4 else body


def index_path(path: str) -> str:
    return path.removesuffix(SUFFIX) + ".index"


def write_index(path: str, head: Header, size: int, index: np.ndarray) -> None:
    """Write the index beside a sealed segment; readers see the old one or the new one."""
    body = index.tobytes()
    described = _INDEX_HEAD.pack(_INDEX_MAGIC, size, head.header_crc, checksum(body))
    durable.write_file(index_path(path), described + body)


def read_index(path: str, head: Header, size: int) -> np.ndarray | None:
    """The index of exactly this version of the segment, or None."""
    try:
        with open(index_path(path), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    if len(data) < _INDEX_HEAD.size:
        return None
    magic, length, crc, body_crc = _INDEX_HEAD.unpack_from(data)
    body = data[_INDEX_HEAD.size :]
    if magic != _INDEX_MAGIC or (length, crc) != (size, head.header_crc) or checksum(body) != body_crc:
        return None
    return np.frombuffer(body, INDEX)
