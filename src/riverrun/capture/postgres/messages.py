"""pgoutput's messages, those that come seldom: what a relation looks like, where transactions begin and end. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_BEGIN = struct.Struct(">xQqI")
_COMMIT = struct.Struct(">xBQQq")
_EPOCH = 946_684_800_000_000  # 2000-01-01, in microseconds since 1970


@dataclass(frozen=True)
class RelationColumn:
    """A column as the stream has it. Those of the replica identity are `key`."""

    name: str
    type: int
    modifier: int
    key: bool


@dataclass(frozen=True)
class RelationMessage:
    """A table as it is from here on."""

    oid: int
    schema: str
    table: str
    identity: str  # d: by its key, i: by an index, f: by all columns, n: none
    columns: tuple[RelationColumn, ...]

    @property
    def id(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True)
class BeginMessage:
    """A transaction begins: the position of its commit, when that was, and the low half of its number."""

    position: int
    at: int
    xid: int


@dataclass(frozen=True)
class CommitMessage:
    """It ends; what is to be confirmed is `end`."""

    position: int
    end: int
    at: int


def parse_begin(payload: bytes) -> BeginMessage:
    position, at, xid = _BEGIN.unpack_from(payload)
    return BeginMessage(position, at + _EPOCH, xid)


def parse_commit(payload: bytes) -> CommitMessage:
    _, position, end, at = _COMMIT.unpack_from(payload)
    return CommitMessage(position, end, at + _EPOCH)


def parse_relation(payload: bytes) -> RelationMessage:
    (oid,) = struct.unpack_from(">I", payload, 1)
    schema, at = _text(payload, 5)
    table, at = _text(payload, at)
    identity = chr(payload[at])
    (count,) = struct.unpack_from(">H", payload, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = payload[at]
        name, at = _text(payload, at + 1)
        kind, modifier = struct.unpack_from(">Ii", payload, at)
        at += 8
        columns.append(RelationColumn(name, kind, modifier, bool(flags & 1)))
    return RelationMessage(oid, schema or "pg_catalog", table, identity, tuple(columns))


def parse_truncate(payload: bytes) -> tuple[int, ...]:
    """The relations that were emptied."""
    (count,) = struct.unpack_from(">I", payload, 1)
    return struct.unpack_from(f">{count}I", payload, 6)


def _text(payload: bytes, at: int) -> tuple[str, int]:
    end = payload.index(0, at)
    return payload[at:end].decode(), end + 1


def show_lsn(position: int) -> str:
    """A position as PostgreSQL writes it.

    >>> show_lsn((1 << 32) + 0xABC)
    '1/ABC'
    """
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """The way back."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def whole_xid(low: int, near: int) -> int:
    """A transaction's number in 64 bits, of its low 32 and of another one that is less than 2^31 away.

    >>> whole_xid(7, (1 << 32) - 2) == (1 << 32) + 7
    True
    """
    found = (near & ~0xFFFFFFFF) | low
    if found - near > 1 << 31:
        return found - (1 << 32)
    return found + (1 << 32) if near - found > 1 << 31 else found


@dataclass(frozen=True)
class Visibility:
    """`pg_current_snapshot()`: which transactions a view of the database sees."""

    lowest: int
    highest: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Visibility:
        lowest, highest, running = text.split(":")
        return cls(int(lowest), int(highest), frozenset(int(xid) for xid in running.split(",") if xid))

    def sees(self, xid: int) -> bool:
        """Whether it has what a committed transaction did."""
        return xid < self.lowest or (xid < self.highest and xid not in self.running)
