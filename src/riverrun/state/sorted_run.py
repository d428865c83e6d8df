"""A run: rows of one table, sorted so that a few of many million are found without reading the rest.

Rows are cut into segments by bucket; inside a segment they are sorted by (hash of the probe columns, bucket). A segment
holds whole buckets, some thousand rows at least, and a run has a few dozen segments at most: a probe is a binary search
in the hashes, then in the buckets of equal hashes; a scan and a release go by segment.

A run is made of a frame, or read from an Arrow record batch with the table's columns, `_hash`, and `_gone`, which marks
a tombstone. The batch of a new run is made when it is stored; of a stored one, only what is asked for becomes a frame.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.state.frames import Mask, constant, frame_of, index, numbers, series, take
from riverrun.state.hashing import Hashes
from riverrun.state.order import Indexes, ascending, lexicographic, written_out
from riverrun.state.table import TableSpec

HASH = "_hash"
GONE = "_gone"
_METADATA = b"riverrun"
_SEGMENT_ROWS = 4096
_SEGMENTS = 64
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class RunSegment:
    """Rows [start, stop) of a run, with buckets in [lo, hi]."""

    start: int
    stop: int
    lo: int
    hi: int


class SortedRun:
    """Sorted rows, in memory or mapped from a file. `gone` marks tombstones; None: there are none."""

    def __init__(
        self,
        spec: TableSpec,
        hashes: Hashes,
        gone: Mask | None,
        segments: list[RunSegment],
        frame: pl.DataFrame | None = None,
        batch: pa.RecordBatch | None = None,
    ) -> None:
        self.spec = spec
        self.hashes = hashes
        self.gone = gone
        self.segments = segments
        self._frame = frame
        self._batch = batch
        self._columns: dict[str, pl.Series] = {}

    @classmethod
    def build(cls, rows: pl.DataFrame, spec: TableSpec, hashes: Hashes, gone: Mask | None = None) -> SortedRun:
        """Sort `rows`, which have the columns of the table."""
        buckets = numbers(rows.get_column(spec.bucket)) if spec.bucket else None
        order, segments = _arrange(hashes, buckets)
        if order is None:
            return cls(spec, hashes, gone, segments, frame=rows)
        return cls(spec, hashes[order], None if gone is None else gone[order], segments, frame=take(rows, order))

    @classmethod
    def read(cls, batch: pa.RecordBatch, spec: TableSpec) -> SortedRun:
        """A run that was stored. Its columns are mapped until they are needed."""
        described = json.loads(batch.schema.metadata[_METADATA])
        # not by Arrow's `to_numpy`, which imports pandas if there is one
        gone, hashes = (numbers(cast(pl.Series, pl.from_arrow(batch.column(name)))) for name in (GONE, HASH))
        return cls(
            spec,
            hashes=hashes,
            gone=gone if gone.any() else None,
            segments=[RunSegment(*bounds) for bounds in described["segments"]],
            batch=batch,
        )

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The run as it is stored."""
        if self._batch is not None:
            return self._batch
        gone = constant(GONE, False, pl.Boolean(), self.rows) if self.gone is None else series(GONE, self.gone)
        columns = [*(column.rechunk() for column in self.frame), gone, series(HASH, self.hashes)]
        arrays = [column.to_arrow(compat_level=pl.CompatLevel.oldest()) for column in columns]
        described = {"segments": [[s.start, s.stop, s.lo, s.hi] for s in self.segments]}
        schema = pa.schema(
            [(column.name, array.type) for column, array in zip(columns, arrays, strict=True)],
            metadata={_METADATA: json.dumps(described).encode()},
        )
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @property
    def frame(self) -> pl.DataFrame:
        """All rows, tombstones too."""
        if self._frame is None:
            assert self._batch is not None
            self._frame = frame_of([self._framed(name, self._batch.column(name)) for name in self.spec.schema])
        return self._frame

    @property
    def rows(self) -> int:
        return len(self.hashes)

    @property
    def lo(self) -> int:
        return min((segment.lo for segment in self.segments), default=0)

    @property
    def hi(self) -> int:
        return max((segment.hi for segment in self.segments), default=0)

    @cached_property
    def buckets(self) -> Indexes | None:
        return cast(Indexes, numbers(self.column(self.spec.bucket))) if self.spec.bucket else None

    def live(self, low: int | None) -> int:
        """Rows of the segments that are not wholly below `low`."""
        return sum(s.stop - s.start for s in self.segments if low is None or s.hi >= low)

    def reaches(self, lo: int | None, hi: int | None) -> bool:
        """Whether there can be rows with buckets in [lo, hi)."""
        return next(self._overlapping(lo, hi), None) is not None

    def find(self, hashes: Hashes, buckets: Indexes | None, lo: int | None, hi: int | None) -> tuple[Indexes, Indexes]:
        """Pairs (index into `hashes`, row) of equal hash and bucket, in [lo, hi); without `buckets`, any bucket in it.

        `hashes` ascend. Different keys can share a hash, so the caller compares the columns.
        """
        pairs = [self._find_in(segment, hashes, buckets, lo, hi) for segment in self._overlapping(lo, hi)]
        if len(pairs) == 1:
            return pairs[0]
        if not pairs:
            return _NO_ROWS, _NO_ROWS
        return np.concatenate([p for p, _ in pairs]), np.concatenate([r for _, r in pairs])

    def within(self, lo: int | None, hi: int | None) -> Indexes:
        """The rows with buckets in [lo, hi)."""
        parts = []
        for segment in self._overlapping(lo, hi):
            rows = np.arange(segment.start, segment.stop)
            if self.buckets is not None and not ((lo is None or segment.lo >= lo) and (hi is None or segment.hi < hi)):
                inside = self.buckets[segment.start : segment.stop]
                fits = np.ones(len(inside), np.bool_) if lo is None else inside >= lo
                rows = rows[fits if hi is None else fits & (inside < hi)]
            parts.append(rows)
        return np.concatenate(parts) if parts else _NO_ROWS

    def column(self, name: str) -> pl.Series:
        """One column of all rows."""
        if self._frame is not None:
            return self._frame.get_column(name)
        if name not in self._columns:
            assert self._batch is not None
            self._columns[name] = self._framed(name, self._batch.column(name))
        return self._columns[name]

    def take(self, rows: Indexes, names: Iterable[str] | None = None) -> pl.DataFrame:
        """Some columns of the rows at these places; of a mapped file, only their pages are read."""
        names = self.spec.schema if names is None else names
        chosen, wanted, found = index(rows), None, []
        for name in names:
            if self._frame is None and name not in self._columns and _is_copied(self.spec.schema[name]):
                wanted = _arrow_index(rows) if wanted is None else wanted
                assert self._batch is not None
                found.append(self._framed(name, self._batch.column(name).take(wanted)))
            else:
                found.append(self.column(name)[chosen])
        return frame_of(found)

    def _framed(self, name: str, values: pa.Array) -> pl.Series:
        column = cast(pl.Series, pl.from_arrow(values, rechunk=False)).alias(name)
        # Arrow has one list type and one null more than Polars; the spec's types are what everybody sees
        kind = self.spec.schema[name]
        return column if column.dtype == kind else column.cast(kind)

    def _overlapping(self, lo: int | None, hi: int | None) -> Iterator[RunSegment]:
        for segment in self.segments:
            if not self.spec.bucket or ((lo is None or segment.hi >= lo) and (hi is None or segment.lo < hi)):
                yield segment

    def _find_in(
        self, segment: RunSegment, hashes: Hashes, buckets: Indexes | None, lo: int | None, hi: int | None
    ) -> tuple[Indexes, Indexes]:
        probes = None
        if buckets is not None and self.spec.bucket:
            fits = (buckets >= (segment.lo if lo is None else max(lo, segment.lo))) & (buckets <= segment.hi)
            if not fits.all():
                probes = np.flatnonzero(fits)
                hashes, buckets = hashes[probes], buckets[probes]
        own = self.hashes[segment.start : segment.stop]
        first = np.searchsorted(own, hashes)
        hit = np.flatnonzero(own[np.minimum(first, len(own) - 1)] == hashes)
        first, wanted = first[hit], hashes[hit]
        last = first + 1
        several = np.flatnonzero(own[np.minimum(last, len(own) - 1)] == wanted)
        if len(several):
            last[several] = np.searchsorted(own, wanted[several], side="right")
        probes = hit if probes is None else probes[hit]
        if self.buckets is not None and segment.lo < segment.hi:
            times = self.buckets[segment.start : segment.stop]
            if buckets is not None:
                first, last = _narrow(times, first, last, buckets[hit], buckets[hit] + 1)
            else:
                bottom = np.full(len(hit), segment.lo if lo is None else lo)
                top = np.full(len(hit), segment.hi + 1 if hi is None else hi)
                first, last = _narrow(times, first, last, bottom, top)
        which, rows = written_out(first + segment.start, last - first)
        return probes[which], rows


def _arrow_index(rows: Indexes) -> pa.Array:
    # `pa.array` imports pandas, if there is one, to ask whether this is a part of it
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])


def _is_copied(kind: pl.DataType) -> bool:
    """Whether Polars has another layout for values of this type, so that a whole column would have to be converted."""
    return not (kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean) or kind.is_decimal()


def _arrange(hashes: Hashes, buckets: Indexes | None) -> tuple[Indexes | None, list[RunSegment]]:
    """The order of the rows in the run (None: as they are), and the segments it falls into."""
    count = len(hashes)
    if not count:
        return None, []
    if buckets is None:
        return _order(hashes), [RunSegment(0, count, 0, 0)]
    lo, hi = int(buckets.min()), int(buckets.max())
    if lo == hi:
        return _order(hashes), [RunSegment(0, count, lo, hi)]
    if count <= _SEGMENT_ROWS:
        return lexicographic(hashes, buckets), [RunSegment(0, count, lo, hi)]
    # a segment begins with the bucket of every so many-th row
    cuts = np.unique(np.sort(buckets)[:: max(_SEGMENT_ROWS, -(-count // _SEGMENTS))])
    number = (np.searchsorted(cuts, buckets, side="right") - 1).astype(np.uint8)
    order = lexicographic(number, hashes, buckets)
    segments, start = [], 0
    for size in np.bincount(number).tolist():
        inside = buckets[order[start : start + size]]
        segments.append(RunSegment(start, start + size, int(inside.min()), int(inside.max())))
        start += size
    return order, segments


def _order(hashes: Hashes) -> Indexes | None:
    return None if (hashes[1:] >= hashes[:-1]).all() else ascending(hashes)


def _narrow(times: Indexes, first: Indexes, last: Indexes, bottom: Indexes, top: Indexes) -> tuple[Indexes, Indexes]:
    """Of each range [first, last) of ascending `times`, the part in [bottom, top)."""
    first = _bisect(times, first, last, bottom)
    return first, _bisect(times, first, last, top)


def _bisect(times: Indexes, first: Indexes, last: Indexes, wanted: Indexes) -> Indexes:
    """For each range [first, last) of ascending `times`, where `wanted` would be inserted from the left."""
    first, last = first.copy(), last.copy()
    open_ = np.flatnonzero(first < last)
    while len(open_):
        middle = (first[open_] + last[open_]) >> 1
        below = times[middle] < wanted[open_]
        first[open_[below]] = middle[below] + 1
        last[open_[~below]] = middle[~below]
        open_ = open_[first[open_] < last[open_]]
    return first
