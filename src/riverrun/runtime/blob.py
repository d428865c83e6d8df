"""Rows between stages: Arrow blobs, each for one shard of one branch.

`PACKED` is what a stage's shuffle carries: rows for a branch, a control for a shard, or something for the driver.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from riverrun.columns import BRANCH, CARRIED, OFFSET, PARTITION, ROW_ID
from riverrun.errors import Invalid
from riverrun.runtime.branch import PATHS, WAY
from riverrun.runtime.job import CARRIED_FIELDS, HIDDEN_KEYS, Branch, base_name
from riverrun.state.hashing import hash_columns

PACKED = pa.schema([("shard", pa.int32()), ("branch", pa.int32()), ("blob", pa.binary())])
PACKED_DDL = "shard int, branch int, blob binary"

# Branch numbers of what is not rows of a branch.
CONTROL, MANIFEST, LEDGER, LATE, QUARANTINE, WORK = -1, -2, -3, -4, -5, -6


class Packer:
    """Collects blobs for one task."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._shard: list[int] = []
        self._branch: list[int] = []
        self._blob: list[bytes | pa.Buffer] = []

    def add(self, shard: int, branch: int, blob: bytes | pa.Buffer) -> None:
        self._shard.append(shard)
        self._branch.append(branch)
        self._blob.append(blob)

    def rows(self, branch: Branch, rows: pa.RecordBatch) -> None:
        """Rows of a branch, in the branch's schema: to the shards of their keys."""
        if not rows.num_rows:
            return
        if not branch.route or self._shards == 1:
            self.add(_home(branch, self._shards), branch.index, rows.serialize())
            return
        keys = pl.from_arrow(rows.select(list(branch.route)))
        assert isinstance(keys, pl.DataFrame)
        shard = (hash_columns(keys, branch.route) >> np.uint64(32)) % np.uint64(self._shards)
        shard = shard.astype(np.min_scalar_type(self._shards))  # small numbers are sorted by counting them
        counts = np.bincount(shard, minlength=self._shards)
        ordered = rows.take(pa.array(np.argsort(shard, kind="stable")))
        at = 0
        for number, count in enumerate(counts.tolist()):
            if count:
                self.add(number, branch.index, ordered.slice(at, count).serialize())
                at += count

    def batch(self) -> pa.RecordBatch:
        """What was collected."""
        shards, branches = pa.array(self._shard, pa.int32()), pa.array(self._branch, pa.int32())
        return pa.RecordBatch.from_arrays([shards, branches, _binary(self._blob)], schema=PACKED)


def _binary(blobs: Sequence[bytes | pa.Buffer]) -> pa.Array:
    """A column of blobs, each copied once."""
    sizes = np.fromiter(map(len, blobs), np.int64, len(blobs))
    if sizes.sum() >= 1 << 31:
        raise Invalid("an epoch has more than 2 GiB in one task", hint="Lower the settings epoch_bytes and epoch_rows")
    offsets = np.zeros(len(blobs) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.concatenate([np.frombuffer(blob, np.uint8) for blob in blobs]) if blobs else np.empty(0, np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(blobs), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _home(branch: Branch, shards: int) -> int:
    """Rows that need no key go anywhere; all rows of a node without one go to the same shard."""
    return 0 if branch.input else branch.index % shards


def unpack(blobs: Sequence[memoryview | bytes], schema: pa.Schema) -> pa.Table:
    """The rows of blobs of one branch."""
    return pa.Table.from_batches([ipc.read_record_batch(pa.py_buffer(blob), schema) for blob in blobs], schema=schema)


def rows_of(branch: Branch, blobs: Sequence[memoryview | bytes]) -> pa.Table:
    """The rows of a branch as its target gets them: told apart from those that came another way."""
    rows = unpack(blobs, branch.schema)
    if branch.path and rows.num_rows:
        at = rows.schema.get_field_index(PARTITION)
        moved = pc.add(rows.column(PARTITION).cast(pa.int64()), branch.path * WAY)
        rows = rows.set_column(at, rows.schema.field(at), pc.bit_wise_and(moved, (1 << 31) - 1).cast(pa.int32()))
    for name in branch.added:
        rows = _with_hidden(rows, name, branch)
    return rows


def _with_hidden(rows: pa.Table, name: str, branch: Branch) -> pa.Table:
    """Rows with a part of their key that is no column of theirs: which way of a union they came, where they stand."""
    if name == BRANCH:
        way = pa.array(np.full(rows.num_rows, branch.path, np.int32))
        if BRANCH in rows.column_names:
            # It came by another union before, unless it is a row of an outer join that this side has no part in.
            before = pc.multiply(pc.fill_null(pc.add(rows.column(BRANCH), 1), 0), PATHS)
            return rows.set_column(rows.schema.get_field_index(BRANCH), BRANCH, pc.add(before, way).cast(pa.int32()))
        return rows.append_column(BRANCH, way)
    if name == ROW_ID and branch.placed:
        place = [rows.column(part).cast(pa.string()) for part in (PARTITION, OFFSET)]
        return rows.append_column(name, pc.binary_join_element_wise(*place, ":"))
    return rows.append_column(name, pa.nulls(rows.num_rows, HIDDEN_KEYS[base_name(name)]))  # the others' of a union


def picked(rows: pa.RecordBatch, branch: Branch) -> pa.RecordBatch:
    """The columns of a trivial branch, from rows that have the origin's columns and the carried ones."""
    columns = []
    for item in branch.items:
        assert item.column is not None
        column = rows.column(item.column)
        wanted = branch.schema.field(item.name).type
        columns.append(column if column.type == wanted else column.cast(wanted))
    columns += [rows.column(name) for name in CARRIED]
    return pa.RecordBatch.from_arrays(columns, schema=branch.schema)


def to_arrow(rows: pl.DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    """Polars rows in an Arrow schema, as Spark and the stores want it: no large or view types."""
    table = rows.select(schema.names).to_arrow().cast(schema)
    if table.num_rows == 0:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return table.combine_chunks().to_batches()[0]


def carried(schema: pa.Schema) -> pa.Schema:
    """Value columns with the carried ones behind."""
    return pa.schema([*schema, *CARRIED_FIELDS])
