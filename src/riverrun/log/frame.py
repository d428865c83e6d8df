"""The frame: what one append puts into the journal for one partition.

A frame is a fixed header, extras, and a body, each padded to 8 bytes. The header's checksum covers the extras and the
body's checksum, so headers can be trusted, and watermarks planned, without touching a body. Integers are little endian.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import google_crc32c
import msgspec
import numpy as np
import pyarrow as pa

from riverrun.checksums import checksum

MAGIC = b"RRF1"
VERSION = 1

# What a frame is.
ROWS, SNAPSHOT, PROMISE, FENCE = range(4)

# What the body holds beside the topic's columns, in this order.
DELETED, RECEIVED, OFFSETS, TIME = 1, 2, 4, 8
LZ4 = 16

NO_PRODUCER = bytes(16)
NO_SEQUENCE = -1
NO_TIME = -(1 << 63)
NEVER = (1 << 63) - 1  # the smallest time, with NO_TIME as the largest, of tombstones and promises: they have none

_FIELDS = (
    ("magic", "4s"),
    ("version", "B"),
    ("kind", "B"),
    ("flags", "H"),
    ("header_bytes", "I"),
    ("body_bytes", "I"),
    ("raw_bytes", "I"),
    ("schema", "I"),
    ("partition", "I"),
    ("rows", "I"),
    ("offset", "q"),
    ("span", "q"),
    ("min_time", "q"),
    ("max_time", "q"),
    ("first_received", "q"),
    ("received", "q"),
    ("commit", "q"),
    ("part", "I"),
    ("parts", "I"),
    ("producer", "16s"),
    ("fence", "q"),
    ("sequence", "q"),
    ("body_crc", "I"),
    ("header_crc", "I"),
)
_STRUCT = struct.Struct("<" + "".join(code for _, code in _FIELDS))
HEADER_BYTES = _STRUCT.size
_U32 = struct.Struct("<I")
_SIZES, _SIZES_AT = struct.Struct("<II"), 8  # header and body bytes
_STEP = 512
_NUMPY = {"4s": "S4", "16s": "V16", "B": "u1", "H": "<u2", "I": "<u4", "q": "<i8"}

# One row of a segment's index: where the frame begins, and its fixed header.
INDEX = np.dtype([("at", "<i8"), *((name, _NUMPY[code]) for name, code in _FIELDS)])


class Header(NamedTuple):
    """The fixed header, field by field as on disk."""

    magic: bytes
    version: int
    kind: int
    flags: int
    header_bytes: int
    body_bytes: int
    raw_bytes: int
    schema: int
    partition: int
    rows: int
    offset: int
    span: int
    min_time: int
    max_time: int
    first_received: int
    received: int
    commit: int
    part: int
    parts: int
    producer: bytes
    fence: int
    sequence: int
    body_crc: int
    header_crc: int

    @property
    def frame_bytes(self) -> int:
        return self.header_bytes + padded(self.body_bytes)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame before it has its place: all that can be computed outside the lock."""

    partition: int
    rows: int
    body: Any  # bytes-like and read-only, so that pwritev and the checksum take it without a copy
    body_crc: int
    kind: int = ROWS
    flags: int = 0
    raw_bytes: int = 0
    schema: int = 0
    span: int = 0
    min_time: int = NO_TIME
    max_time: int = NO_TIME
    extras: bytes = b""
    # Set when a frame is written again by a merge or a compaction, which keep offsets and receive times.
    offset: int = 0
    first_received: int = 0
    received: int = 0

    @property
    def frame_bytes(self) -> int:
        return HEADER_BYTES + padded(len(self.extras)) + padded(len(self.body))


class Stamp(NamedTuple):
    """What a commit gives to each of its frames."""

    commit: int
    parts: int
    producer: bytes = NO_PRODUCER
    fence: int = 0
    sequence: int = NO_SEQUENCE


def padded(size: int) -> int:
    return size + (-size % 8)


def encode(frame: Frame, stamp: Stamp, part: int, offset: int, first_received: int, received: int) -> list[Any]:
    """The buffers of a frame in its place, ready for pwritev."""
    extras = frame.extras + bytes(-len(frame.extras) % 8)
    # A topic without a time column takes the receive time, which is known only now.
    takes_received = frame.min_time == NO_TIME and frame.kind == ROWS
    min_time, max_time = (first_received, received) if takes_received else (frame.min_time, frame.max_time)
    fixed = _STRUCT.pack(
        MAGIC,
        VERSION,
        frame.kind,
        frame.flags,
        HEADER_BYTES + len(extras),
        len(frame.body),
        frame.raw_bytes,
        frame.schema,
        frame.partition,
        frame.rows,
        offset,
        frame.span,
        min_time,
        max_time,
        first_received,
        received,
        stamp.commit,
        part,
        stamp.parts,
        stamp.producer,
        stamp.fence,
        stamp.sequence,
        frame.body_crc,
        0,
    )[:-4]
    header = fixed + _U32.pack(checksum(fixed + extras)) + extras
    padding = -len(frame.body) % 8
    return [header, frame.body, bytes(padding)] if padding else [header, frame.body]


def parse(data: memoryview, at: int) -> Header | None:
    """The header at `at`, or None when there is no whole, undamaged header there."""
    if at + HEADER_BYTES > len(data):
        return None
    header = Header._make(_STRUCT.unpack_from(data, at))
    if header.magic != MAGIC or at + header.header_bytes > len(data) or header.header_bytes < HEADER_BYTES:
        return None
    covered = bytes(data[at : at + HEADER_BYTES - 4]) + bytes(data[at + HEADER_BYTES : at + header.header_bytes])
    return header if checksum(covered) == header.header_crc else None


def body_is_good(data: memoryview, at: int, header: Header) -> bool:
    """Whether the frame's body is all there and its checksum and padding are right."""
    begin = at + header.header_bytes
    end = begin + header.body_bytes
    stop = begin + padded(header.body_bytes)
    if stop > len(data):
        return False
    return checksum(data[begin:end]) == header.body_crc and not any(data[end:stop])


def scan(data: memoryview, at: int = 0) -> Iterator[tuple[int, Header]]:
    """Frames from `at` on, until the first one whose header is damaged or incomplete. Bodies are not looked at."""
    while (header := parse(data, at)) is not None and at + header.frame_bytes <= len(data):
        yield at, header
        at += header.frame_bytes


def scan_index(data: memoryview, pace: Callable[[], None] | None = None) -> np.ndarray:
    """The same as `scan`, as rows of an index: many frames at a time, for segments that hold a great many.

    `pace` is called between small steps, so that a thread in the background does not keep others waiting.
    """
    places: list[int] = []
    at, last = 0, len(data) - HEADER_BYTES
    while at <= last:
        if pace and len(places) % _STEP == 0:
            pace()
        header_bytes, body_bytes = _SIZES.unpack_from(data, at + _SIZES_AT)
        size = header_bytes + padded(body_bytes)
        if header_bytes < HEADER_BYTES or at + size > len(data):
            break
        places.append(at)
        at += size
    index = np.zeros(len(places), INDEX)
    if not places:
        return index
    index["at"] = places
    plain = np.frombuffer(data, np.uint8)
    fixed = index.view(np.uint8).reshape(len(places), INDEX.itemsize)[:, 8:]
    for i in range(0, len(places), _STEP):
        some = index["at"][i : i + _STEP, None]
        fixed[i : i + _STEP] = plain[some + np.arange(HEADER_BYTES)]
        if pace:
            pace()
    buffer = pa.py_buffer(data)
    good = index["magic"] == MAGIC
    checks = zip(places, index["header_bytes"].tolist(), index["header_crc"].tolist(), good.tolist(), strict=True)
    for i, (at, size, crc, fits) in enumerate(checks):
        actual = google_crc32c.value(buffer.slice(at, HEADER_BYTES - 4))
        if size > HEADER_BYTES:
            actual = google_crc32c.extend(actual, bytes(data[at + HEADER_BYTES : at + size]))
        if actual != crc or not fits:
            return index[:i]
        if pace and i % _STEP == 0:
            pace()
    return index


def producer_id(name: str) -> bytes:
    """The 16 bytes under which a producer's sequences are kept."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def encode_maxima(maxima: Mapping[str, int]) -> bytes:
    """Extras of a frame: the largest event time of each producer in it."""
    if not maxima:
        return b""
    packed = msgspec.msgpack.encode(maxima)
    return _U32.pack(len(packed)) + packed  # the length, because padding follows


def decode_maxima(extras: memoryview) -> dict[str, int]:
    """The largest event time of each producer, from a frame's extras."""
    if not len(extras):
        return {}
    (size,) = _U32.unpack_from(extras)
    return msgspec.msgpack.decode(extras[4 : 4 + size], type=dict[str, int])


def compressed(body: pa.Buffer) -> tuple[pa.Buffer, int]:
    """The body as one lz4 block, and its size before."""
    return pa.compress(body, codec="lz4_raw"), body.size
