"""Arrow batches → frames. Pure: no files, no locks. The way back is in `decoder`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.checksums import checksum
from riverrun.log import frame as frames
from riverrun.log.frame import DELETED, LZ4, OFFSETS, RECEIVED, TIME, Frame
from riverrun.log.partitioner import partition_keys
from riverrun.log.rows import is_larger, key_text
from riverrun.log.stored_spec import StoredSpec

MOMENT = pa.timestamp("us", "UTC")
HIDDEN = {
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_time": MOMENT,
    "_received": MOMENT,
    "_key": pa.string(),
    "_deleted": pa.bool_(),
}
_BODY_COLUMNS = ((DELETED, "_deleted"), (RECEIVED, "_received"), (OFFSETS, "_offset"), (TIME, "_time"))

# A larger batch becomes several frames of one commit, so that readers can share it and memory stays bounded.
_FRAME_ROWS = 64 << 10
_FRAME_BYTES = 16 << 20


def body_schema(schema: pa.Schema, flags: int) -> pa.Schema:
    """Columns of a body: the topic's, then the hidden ones that the flags name."""
    extra = [pa.field(name, HIDDEN[name]) for flag, name in _BODY_COLUMNS if flags & flag]
    return pa.schema([*(field.with_nullable(True) for field in schema), *extra])


def encode_batch(batch: pa.RecordBatch, spec: StoredSpec, version: int, next_partition: int) -> list[Frame]:
    """Frames of a checked batch, by partition. Without a key the whole batch goes to `next_partition`."""
    out: list[Frame] = []
    for partition, part in by_partition(batch, spec, next_partition):
        for piece in _pieces(part):
            out.append(encode_rows(piece, spec, version, partition))
    return out


def by_partition(batch: pa.RecordBatch, spec: StoredSpec, next_partition: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each partition that has some, in their order. Without a key all go to `next_partition`."""
    partitions = spec.partitions
    if not spec.key:
        yield next_partition % partitions, batch
        return
    if batch.num_rows == 1 or partitions == 1:
        yield int(_chosen(batch.slice(0, 1), spec, partitions)[0]), batch
        return
    chosen = _chosen(batch, spec, partitions)
    counts = np.bincount(chosen, minlength=partitions)
    if counts.max() == batch.num_rows:
        yield int(chosen[0]), batch
        return
    # Of 16-bit numbers the sort is a radix sort.
    ordered = batch.take(pa.array(np.argsort(chosen.astype(np.uint16), kind="stable")))
    at = 0
    for partition, count in enumerate(counts.tolist()):
        if count:
            yield partition, ordered.slice(at, count)
            at += count


def _chosen(batch: pa.RecordBatch, spec: StoredSpec, partitions: int) -> np.ndarray:
    keys = key_text(batch, spec.key)
    return partition_keys(pc.fill_null(keys, "") if keys.null_count else keys, partitions)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if rows <= _FRAME_ROWS and not is_larger(batch, _FRAME_BYTES):
        yield batch
        return
    step = max(1, min(_FRAME_ROWS, int(rows * _FRAME_BYTES / max(batch.nbytes, 1))))
    for at in range(0, rows, step):
        yield batch.slice(at, step)


def encode_rows(
    batch: pa.RecordBatch, spec: StoredSpec, version: int, partition: int, received: tuple[int, int] = (0, 0)
) -> Frame:
    """One frame. `_received` and `_offset` columns are there when rows are written again; then offsets are theirs."""
    names = batch.schema.names
    flags = 0
    for flag, name in _BODY_COLUMNS:
        if name in names:
            flags |= flag
    offset, span = 0, batch.num_rows
    if flags & OFFSETS:
        offsets = batch.column("_offset")
        offset = offsets[0].as_py()
        span = offsets[-1].as_py() - offset + 1
        if span == batch.num_rows:  # nothing is missing between them: the first one says it all
            flags &= ~OFFSETS
            batch = batch.drop_columns(["_offset"])
    if flags & RECEIVED and received[0] == received[1]:
        flags &= ~RECEIVED
        batch = batch.drop_columns(["_received"])
    low, high = time_range(batch, spec)
    body = batch.serialize()
    raw = 0
    if spec.compression == "lz4":
        body, raw = frames.compressed(body)
        flags |= LZ4
    return Frame(
        partition=partition,
        rows=batch.num_rows,
        body=body,
        body_crc=checksum(body),
        flags=flags,
        raw_bytes=raw,
        schema=version,
        span=span,
        min_time=low,
        max_time=high,
        extras=frames.encode_maxima(producer_maxima(batch, spec)) if spec.producers else b"",
        offset=offset,
        first_received=received[0],
        received=received[1],
    )


def time_range(batch: pa.RecordBatch, spec: StoredSpec) -> tuple[int, int]:
    """Smallest and largest event time. Tombstones have none where a column holds it: they move no watermark."""
    name = spec.time or "_time"
    if name not in batch.schema.names:
        return frames.NO_TIME, frames.NO_TIME
    column = batch.column(name)
    if batch.num_rows == 1:
        low = high = column[0].value
    else:
        bounds = pc.min_max(column)
        low, high = bounds["min"].value, bounds["max"].value
    return (frames.NEVER, frames.NO_TIME) if low is None else (low, high)


def producer_maxima(batch: pa.RecordBatch, spec: StoredSpec) -> dict[str, int]:
    """Per producer the largest event time, so that watermarks are planned from headers alone."""
    if spec.producers is None:
        return {}
    time = spec.time or "_time"
    if time not in batch.schema.names:
        time = "_received"  # there when rows of several appends were merged
    if time not in batch.schema.names:
        # Event time is the receive time, the same for every row of the frame: naming the producers is enough.
        return dict.fromkeys(_texts(pc.unique(batch.column(spec.producers))), frames.NO_TIME)
    pairs = pa.table({"p": batch.column(spec.producers), "t": batch.column(time).cast(pa.int64())})
    largest = pairs.group_by("p").aggregate([("t", "max")])
    texts = _texts(largest.column("p"))
    return {name: t for name, t in zip(texts, largest.column("t_max").to_pylist(), strict=True) if t is not None}


def _texts(column: Any) -> list[str]:
    return ["" if value is None else str(value) for value in column.to_pylist()]
