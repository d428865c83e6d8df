"""Writing segments again: with fewer rows, or with many small frames made into few.

Offsets, receive times, event times, tombstones, promises and producers' maxima stay as they are. Fences and sequences
go: they live on in the first frame of the following segment, which is therefore made durable before a file is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
from pyarrow import ipc

from riverrun.log.codec import HIDDEN, MOMENT, body_schema, encode_rows
from riverrun.log.frame import DELETED, LZ4, NO_TIME, PROMISE, ROWS, TIME, Frame
from riverrun.log.segment import Segment
from riverrun.log.stored_spec import StoredSpec

FRAME_ROWS = 8192
FRAME_BYTES = 1 << 20
_RUN_BYTES = 512 << 10  # decoded at a time
_PACED = 128  # small frames between two calls of pace()

# Called again and again by long work: a place to let others run, and to be stopped.
Pace = Callable[[], None]
# By number of a frame in its segment's index: which rows stay (for a promise: one value). What is left out stays whole.
Keep = Mapping[int, np.ndarray]


def at_full_speed() -> None:
    """The pace of somebody who waits for the result."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A segment to be written again."""

    segment: Segment
    index: np.ndarray
    keep: Keep


class Piece(NamedTuple):
    """A frame of the new segment, and the last commit that is in it."""

    frame: Frame
    commit: int


def rewrite_segment(
    segment: Segment, keep: Keep, spec: StoredSpec, schemas: Mapping[int, pa.Schema], pace: Pace = at_full_speed
) -> Iterator[Piece]:
    """The frames of a segment with only the rows that `keep` leaves, small ones merged."""
    return rewrite_segments([Rewritten(segment, segment.index(segment.size), keep)], spec, schemas, pace)


def rewrite_segments(
    sources: Sequence[Rewritten], spec: StoredSpec, schemas: Mapping[int, pa.Schema], pace: Pace = at_full_speed
) -> Iterator[Piece]:
    """The frames of one segment that takes the place of several."""
    for places in _groups(sources):
        pace()
        source, number = sources[places[0][0]], int(places[0][1])
        entry = source.index[number]
        if entry["kind"] == PROMISE or (len(places) == 1 and number not in source.keep):
            yield Piece(_unchanged(source.segment, entry), int(entry["commit"]))
            continue
        chosen = [(sources[i], places[places[:, 0] == i, 1]) for i in np.unique(places[:, 0]).tolist()]
        yield _merged(chosen, spec, schemas, pace)


def _groups(sources: Sequence[Rewritten]) -> list[np.ndarray]:
    """Which frames become one: pairs of (source, number), in the order of the first of each group."""
    index = np.concatenate([source.index for source in sources])
    places = np.concatenate(
        [np.stack([np.full(len(s.index), i), np.arange(len(s.index))], axis=1) for i, s in enumerate(sources)]
    )
    rows, size = index["rows"].astype(np.int64), np.maximum(index["raw_bytes"], index["body_bytes"]).astype(np.float64)
    stays = np.ones(len(index), np.bool_)
    begin = 0
    for source in sources:
        for number, mask in source.keep.items():
            left = int(np.count_nonzero(mask))
            size[begin + number] *= left / max(len(mask), 1)
            rows[begin + number] = left
            stays[begin + number] = left > 0
        begin += len(source.index)
    groups = [np.array([i]) for i in np.nonzero((index["kind"] == PROMISE) & stays)[0]]
    for partition in np.unique(index["partition"]).tolist():
        mine = np.nonzero((index["kind"] == ROWS) & (index["partition"] == partition) & stays)[0]
        groups += _cut(mine, np.cumsum(rows[mine]), np.cumsum(size[mine]))
    groups.sort(key=lambda group: int(group[0]))
    return [places[group] for group in groups]


def _cut(mine: np.ndarray, rows: np.ndarray, size: np.ndarray) -> list[np.ndarray]:
    groups, begin = [], 0
    while begin < len(mine):
        row_limit = FRAME_ROWS + (rows[begin - 1] if begin else 0)
        size_limit = FRAME_BYTES + (size[begin - 1] if begin else 0)
        end = min(int(np.searchsorted(rows, row_limit, "right")), int(np.searchsorted(size, size_limit, "right")))
        end = max(end, begin + 1)
        groups.append(mine[begin:end])
        begin = end
    return groups


def _unchanged(segment: Segment, entry: Any) -> Frame:
    return Frame(
        partition=int(entry["partition"]),
        rows=int(entry["rows"]),
        body=segment.stored_body(entry),
        body_crc=int(entry["body_crc"]),
        kind=int(entry["kind"]),
        flags=int(entry["flags"]),
        raw_bytes=int(entry["raw_bytes"]),
        schema=int(entry["schema"]),
        span=int(entry["span"]),
        min_time=int(entry["min_time"]),
        max_time=int(entry["max_time"]),
        extras=bytes(segment.extras(entry)),
        offset=int(entry["offset"]),
        first_received=int(entry["first_received"]),
        received=int(entry["received"]),
    )


def _merged(
    chosen: Sequence[tuple[Rewritten, np.ndarray]], spec: StoredSpec, schemas: Mapping[int, pa.Schema], pace: Pace
) -> Piece:
    """One frame of one partition. Rows of an older schema get the newest one of the group, with nulls."""
    every = np.concatenate([source.index[numbers] for source, numbers in chosen])
    version, flags = int(every["schema"].max()), int(np.bitwise_or.reduce(every["flags"]))
    hidden = ["_deleted"] * bool(flags & DELETED) + ["_received", "_offset"] + ["_time"] * bool(flags & TIME)
    wanted = pa.schema([*body_schema(schemas[version], 0), *(pa.field(name, HIDDEN[name]) for name in hidden)])
    tables = []
    for source, numbers in chosen:
        table = read_frames(source.segment, source.index[numbers], schemas, wanted, pace)
        masks = [source.keep.get(n) for n in numbers.tolist()]
        if any(mask is not None for mask in masks):
            counts = source.index["rows"][numbers].tolist()
            whole = [np.ones(c, np.bool_) if m is None else m for m, c in zip(masks, counts, strict=True)]
            table = table.combine_chunks().filter(pa.array(np.concatenate(whole)))
        tables.append(table)
    batch = pa.concat_tables(tables).combine_chunks().to_batches()[0]
    if flags & DELETED and not batch.column("_deleted").true_count:
        batch = batch.drop_columns(["_deleted"])
    received = batch.column("_received")
    span = (received[0].value, received[-1].value)
    frame = encode_rows(batch, spec, version, int(every["partition"][0]), span)
    if frame.min_time == NO_TIME:  # the receive times of the rows, which need not be those of the frames
        frame = replace(frame, min_time=span[0], max_time=span[1])
    return Piece(frame, int(every["commit"].max()))


def read_frames(
    segment: Segment, entries: np.ndarray, schemas: Mapping[int, pa.Schema], wanted: pa.Schema, pace: Pace
) -> pa.Table:
    """Some columns of some frames, in order. Frames of a kind are read as one Arrow stream, so small ones are cheap."""
    tables = [wanted.empty_table()]
    for run in _runs(entries):
        version, flags = int(run["schema"][0]), int(run["flags"][0])
        schema = body_schema(schemas[version], flags)
        stream = b"".join([schema.serialize(), *_bodies(segment, run, pace)])
        table = ipc.open_stream(stream).read_all()
        arrays = [_column(field, table, run) for field in wanted]
        tables.append(pa.Table.from_arrays(arrays, schema=wanted))
    return pa.concat_tables(tables)


def _runs(entries: np.ndarray) -> Iterator[np.ndarray]:
    """Neighbours with the same body schema, a few megabytes at a time."""
    sizes = np.cumsum(np.maximum(entries["raw_bytes"], entries["body_bytes"]).astype(np.int64)) // _RUN_BYTES
    changes = [np.diff(entries["schema"]) != 0, np.diff(entries["flags"]) != 0, np.diff(sizes) != 0]
    cuts = np.nonzero(np.logical_or.reduce(changes))[0] + 1
    yield from (run for run in np.split(entries, cuts) if len(run))


def _bodies(segment: Segment, run: np.ndarray, pace: Pace) -> list[Any]:
    view = segment.bytes_at(0, segment.size)
    data = pa.py_buffer(view)
    raw = run["raw_bytes"].tolist() if int(run["flags"][0]) & LZ4 else None
    begins, sizes = (run["at"] + run["header_bytes"]).tolist(), run["body_bytes"].tolist()
    bodies: list[Any] = []
    for i, (begin, size, crc) in enumerate(zip(begins, sizes, run["body_crc"].tolist(), strict=True)):
        body = data.slice(begin, size)
        if google_crc32c.value(body) != crc:
            raise segment.damaged(int(run["at"][i]))
        bodies.append(pa.decompress(body, decompressed_size=raw[i], codec="lz4_raw") if raw else body)
        if i % _PACED == 0:
            pace()
    return bodies


def _column(field: pa.Field, table: pa.Table, run: np.ndarray) -> Any:
    if field.name in table.column_names:
        return table.column(field.name)
    rows = run["rows"].astype(np.int64)
    total = int(rows.sum())
    if field.name == "_deleted":
        return pa.array(np.zeros(total, np.bool_))
    if field.name in ("_received", "_time"):
        if field.name == "_time" and "_received" in table.column_names:
            return table.column("_received")
        return pa.array(np.repeat(run["received"], rows)).view(MOMENT)
    if field.name == "_offset":
        return pa.array(np.arange(total) + np.repeat(run["offset"] - (np.cumsum(rows) - rows), rows))
    return pa.nulls(total, field.type)  # a column that came with a later version of the schema
