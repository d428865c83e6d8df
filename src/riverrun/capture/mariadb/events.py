"""What the binary log says, as the assembly wants it. Plain data, so that it is tested without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from riverrun.capture.mariadb.catalog import BinlogColumn
from riverrun.capture.mariadb.places import BinlogPlace, Gtid

STANDALONE, PREPARED, COMPLETED = 1, 64, 128
"""Flags of a group: it is one statement and has no end of its own; it is the first, or the second half of an XA
transaction."""


@dataclass(frozen=True)
class GroupBegin:
    """A transaction begins."""

    gtid: Gtid
    flags: int
    file: str
    offset: int  # behind the event that says so
    at: int  # microseconds


@dataclass(frozen=True)
class GroupEnd:
    """A transaction is committed, at a time in microseconds."""

    at: int
    place: BinlogPlace


@dataclass(frozen=True)
class RowsRead:
    """Rows of a table that a statement has written, updated or deleted."""

    table: str
    op: int
    columns: Sequence[BinlogColumn]
    missing: Sequence[str]  # columns that the rows do not have
    after: Sequence[dict[str, Any]]  # of a DELETE what was there
    before: Sequence[dict[str, Any]] = ()  # of an UPDATE


@dataclass(frozen=True)
class RowsUnreadable:
    """Rows of a table that cannot be decoded."""

    table: str
    reason: str


@dataclass(frozen=True)
class StatementRead:
    """A statement, as its text."""

    database: str
    text: str


BinlogEvent = GroupBegin | GroupEnd | RowsRead | RowsUnreadable | StatementRead
