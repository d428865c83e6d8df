"""The changes of a view, kept per commit as Arrow blobs, and the cursors that name a place among them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.views.columns import rows_of
from riverrun.views.layout import Layout
from riverrun.views.ops import DELETE, INSERT, OLD, OP
from riverrun.views.spec import ViewSpec

if TYPE_CHECKING:
    import polars as pl

PART_ROWS = 1 << 15
_CURSOR = re.compile(r"([0-9]{1,18})(?::([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a view's row. `op` is "insert", "update" or "delete"; `cursor` is the place just behind it."""

    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    cursor: str


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a view's changes: behind the first `done` of a commit, or behind all of it (`done` is None).

    >>> str(Cursor.parse("17:3")), str(Cursor.parse("17"))
    ('17:3', '17')
    """

    commit: int
    done: int | None = None

    def __str__(self) -> str:
        return str(self.commit) if self.done is None else f"{self.commit}:{self.done}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if not found:
            raise Invalid(f"not a cursor: {text!r}", hint="Give the .cursor of a change, as it was")
        return cls(int(found[1]), None if found[2] is None else int(found[2]))


def pack(changes: pl.DataFrame) -> tuple[int, Iterator[tuple[int, bytes]]]:
    """How many changes there are, and blobs of a bounded number of them, each with its number."""
    return _count(changes), _parts(changes)


def _count(changes: pl.DataFrame) -> int:
    return changes.height - int((changes[OP] == OLD).sum())


def _parts(changes: pl.DataFrame) -> Iterator[tuple[int, bytes]]:
    import polars as pl

    start = 0
    while start < changes.height:
        part = changes.slice(start, PART_ROWS)
        if part[OP][-1] == OLD:  # an update is never split
            part = changes.slice(start, PART_ROWS + 1)
        start += part.height
        out = io.BytesIO()
        part.write_ipc(out, compression="lz4", compat_level=pl.CompatLevel.oldest())
        yield _count(part), out.getvalue()


def changes_of(blob: bytes, spec: ViewSpec, commit: int, before: int, total: int) -> Iterator[Change]:
    """The changes in a blob of a commit of `total` changes, `before` of them in earlier blobs."""
    kept = pa.ipc.open_file(pa.BufferReader(blob)).read_all()
    at = before
    old: dict[str, Any] | None = None
    for op, row in zip(kept.column(OP).to_pylist(), rows_of(Layout.of(spec).give_back(kept)), strict=True):
        if op == OLD:
            old = row
            continue
        at += 1
        cursor = str(Cursor(commit, None if at == total else at))
        if op == INSERT:
            yield Change("insert", None, row, cursor)
        elif op == DELETE:
            yield Change("delete", row, None, cursor)
        else:
            yield Change("update", old, row, cursor)
