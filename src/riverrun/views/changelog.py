"""The changes of a view: as people see them, as blobs of Arrow that stores keep, and the cursors that name a place in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.checksums import with_checksum, without_checksum
from riverrun.errors import Corrupt, Invalid
from riverrun.views.columns import rows_of
from riverrun.views.layout import DELETE, INSERT, OLD, OP, layout_of
from riverrun.views.spec import ViewSpec

PART_ROWS, PART_BYTES = 1 << 15, 2 << 20  # about so much in a blob: who follows has one in memory
_ROWS = 1 << 10  # that are made into Python values at once
_CURSOR = re.compile(r"([0-9]{1,18})(?::([0-9]{1,18}))?")
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a view's row. `op` is "insert", "update" or "delete"; `cursor` is the place just after it."""

    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    cursor: str


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a view's changes: after the first `done` of a commit, or after all of it (`done` is None).

    >>> str(Cursor.parse("17:3")), str(Cursor.parse("17"))
    ('17:3', '17')
    """

    commit: int
    done: int | None = None

    def __str__(self) -> str:
        return str(self.commit) if self.done is None else f"{self.commit}:{self.done}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor that `str()` wrote."""
        parts = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if not parts:
            raise Invalid(f"not a cursor: {text!r}", hint="Give the .cursor of a change, as it was")
        return cls(int(parts[1]), None if parts[2] is None else int(parts[2]))


def count(changes: pa.RecordBatch | pa.Table) -> int:
    """How many changes there are; an update is one."""
    return int(changes.num_rows - (pc.sum(pc.equal(changes.column(OP), OLD)).as_py() or 0))


def pack(parts: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """The changes as blobs of a bounded number of them, each with its number. What is small goes together."""
    together: list[pa.RecordBatch] = []
    rows = 0
    for part in parts:
        if together and rows + part.num_rows > PART_ROWS:
            yield from _blobs(together)
            together, rows = [], 0
        together.append(part)
        rows += part.num_rows
    yield from _blobs(together)


def _blobs(parts: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    changes = pa.Table.from_batches(parts).combine_chunks() if parts else None
    start, end = 0, changes.num_rows if changes else 0
    most = min(PART_ROWS, max(1, PART_BYTES * end // max(changes.nbytes, 1))) if changes else 0
    while changes and start < end:
        length = min(most, end - start)
        if changes.column(OP)[start + length - 1].as_py() == OLD:  # an update is never split
            length += 1
        blob = changes.slice(start, length)
        start += length
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(out, blob.schema, options=_COMPRESSED) as writer:
            writer.write_table(blob)
        yield count(blob), with_checksum(out.getvalue().to_pybytes())


def unpack(blob: bytes, spec: ViewSpec) -> pa.Table:
    """The changes in a blob, as they are kept; what they are is in the last column. `Corrupt` when it is damaged."""
    content = without_checksum(blob)
    if content is None:
        raise Corrupt(f"the changes of view {spec.name!r} that are kept are damaged", hint="Rebuild the view")
    table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    return table.rename_columns([*layout_of(spec).columns, OP])


def changes_of(blob: bytes, spec: ViewSpec, commit: int, before: int, total: int, skip: int = 0) -> Iterator[Change]:
    """The changes in a blob of a commit of `total` changes, `before` of them in earlier blobs, after the first `skip`."""
    kept = unpack(blob, spec)
    if skip:
        ends = pc.indices_nonzero(pc.not_equal(kept.column(OP), OLD))
        kept = kept.slice(ends[skip - 1].as_py() + 1) if skip <= len(ends) else kept.slice(kept.num_rows)
    at = before + skip
    old: dict[str, Any] | None = None
    for op, row in _rows(kept, spec):
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


def _rows(kept: pa.Table, spec: ViewSpec) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What each row is, and the row; made as they are asked for."""
    for start in range(0, kept.num_rows, _ROWS):
        part = kept.slice(start, _ROWS)
        yield from zip(part.column(OP).to_pylist(), rows_of(layout_of(spec).give_back(part)), strict=True)
