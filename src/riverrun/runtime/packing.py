"""Rows on their way between tasks: for each shard of each branch a record batch, and messages beside them.

`PACKED` is what Spark carries from task to task and to the driver. Inside one task rows stay as they are (`Shards`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.runtime.compile.job import Branch
from riverrun.runtime.compile.row_id import tell_apart, with_key_part
from riverrun.runtime.control import Control
from riverrun.runtime.exchange import Exchange
from riverrun.state.frames import from_arrow
from riverrun.state.shards import shard_numbers

PACKED = pa.schema([("shard", pa.int32()), ("branch", pa.int32()), ("blob", pa.binary())])
PACKED_DDL = "shard int, branch int, blob binary"

# In the place of a branch: what is sent is no rows of one, but a message.
CONTROL, REPORT, LATE, QUARANTINE, ERROR = -1, -2, -3, -4, -5

Part: TypeAlias = "pa.RecordBatch | pa.Buffer"
"""Rows of one branch for one shard, or their blob, which is not opened before they are needed."""


class Dispatch(Protocol):
    """Where the rows of branches and messages are put."""

    def rows(self, branch: Branch, rows: pa.RecordBatch) -> None:
        """Rows in the branch's schema: to the shards of their keys."""

    def message(self, shard: int, kind: int, content: bytes) -> None:
        """A message for a shard, or for the driver."""


class Shard:
    """What was sent to one shard: its control, rows by branch, and messages for the driver."""

    def __init__(self) -> None:
        self.control: Control | None = None
        self.parts: dict[int, list[Part]] = {}
        self.messages: list[tuple[int, bytes | pa.Buffer]] = []


class Shards:
    """An outbox in memory, for tasks that do everything themselves."""

    def __init__(self, count: int) -> None:
        self.shards = [Shard() for _ in range(count)]

    def rows(self, branch: Branch, rows: pa.RecordBatch) -> None:
        for number, part in split(branch, rows, len(self.shards)):
            self.shards[number].parts.setdefault(branch.index, []).append(part)

    def message(self, shard: int, kind: int, content: bytes) -> None:
        self.shards[shard].messages.append((kind, content))


class Packer:
    """An outbox that makes `PACKED` batches; rows go through the exchange."""

    def __init__(self, shards: int, exchange: Exchange) -> None:
        self._shards = shards
        self._exchange = exchange
        self._shard: list[int] = []
        self._branch: list[int] = []
        self._blob: list[bytes | pa.Buffer] = []

    def rows(self, branch: Branch, rows: pa.RecordBatch) -> None:
        for number, part in split(branch, rows, self._shards):
            self.part(number, branch.index, part)

    def part(self, shard: int, branch: int, part: Part) -> None:
        """Rows that are known to belong to a shard; a blob is passed on as it came."""
        blob = part if isinstance(part, pa.Buffer) else self._exchange.put(part)
        self.message(shard, branch, blob)

    def message(self, shard: int, kind: int, content: bytes | pa.Buffer) -> None:
        self._shard.append(shard)
        self._branch.append(kind)
        self._blob.append(content)

    def batch(self) -> pa.RecordBatch:
        """What was put in so far, which is taken out."""
        shards, branches = pa.array(self._shard, pa.int32()), pa.array(self._branch, pa.int32())
        packed = pa.RecordBatch.from_arrays([shards, branches, _binary(self._blob)], schema=PACKED)
        self._shard, self._branch, self._blob = [], [], []
        return packed


def split(branch: Branch, rows: pa.RecordBatch, shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each shard that gets any, in their order."""
    if not rows.num_rows:
        return
    if not branch.route or shards == 1:
        yield _home(branch, shards), rows
        return
    numbers = shard_numbers(from_arrow(rows.select(list(branch.route))), branch.route, shards)
    counts = np.bincount(numbers, minlength=shards)
    ordered = rows.take(pa.array(np.argsort(numbers, kind="stable")))
    at = 0
    for number, count in enumerate(counts.tolist()):
        if count:
            yield number, ordered.slice(at, count)
            at += count


def _home(branch: Branch, shards: int) -> int:
    """Rows that need no key go anywhere; all rows of a node without one go to the same shard."""
    return 0 if branch.input else branch.index % shards


def _binary(blobs: Sequence[bytes | pa.Buffer]) -> pa.Array:
    """A column of blobs, each copied once."""
    sizes = np.fromiter(map(len, blobs), np.int64, len(blobs))
    if sizes.sum() >= 1 << 31:
        raise Invalid("an epoch has more than 2 GiB in one task", hint="Lower the settings epoch_bytes and epoch_rows")
    offsets = np.zeros(len(blobs) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.concatenate([np.frombuffer(blob, np.uint8) for blob in blobs]) if blobs else np.empty(0, np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(blobs), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer]]:
    """(shard, branch, blob) of packed batches."""
    for batch in batches:
        shards, branches, blobs = batch.column(0).to_pylist(), batch.column(1).to_pylist(), batch.column(2)
        for row, (shard, branch) in enumerate(zip(shards, branches, strict=True)):
            yield shard, branch, blobs[row].as_buffer()


def gather(batches: Iterable[pa.RecordBatch]) -> dict[int, Shard]:
    """What a task was sent, by shard."""
    shards: dict[int, Shard] = {}
    for number, branch, blob in unpack(batches):
        shard = shards.setdefault(number, Shard())
        if branch == CONTROL:
            shard.control = msgspec.msgpack.decode(blob, type=Control)
        elif branch < 0:
            shard.messages.append((branch, blob))
        else:
            shard.parts.setdefault(branch, []).append(blob)
    return shards


def arrived(branch: Branch, parts: Sequence[Part], exchange: Exchange) -> pa.Table:
    """The rows of a branch as its target gets them: told apart from those that came another way."""
    rows = pa.Table.from_batches([_opened(branch, part, exchange) for part in parts], schema=branch.schema)
    rows = tell_apart(rows, branch.way)
    for name in branch.added:
        rows = with_key_part(rows, name, branch.way, branch.by_position)
    return rows.select(branch.arriving.names) if branch.hidden else rows


def _opened(branch: Branch, part: Part, exchange: Exchange) -> pa.RecordBatch:
    return exchange.get(part, branch.schema) if isinstance(part, pa.Buffer) else part


def as_stream(table: pa.Table) -> bytes:
    """A table as an Arrow stream, for messages."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return bytes(sink.getvalue())
