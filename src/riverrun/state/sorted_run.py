"""A run: rows of one table, sorted so that a few of many million are found without reading the rest.

Rows are cut into segments by bucket; inside a segment they are sorted by (hash of the probe columns, bucket). A segment
holds whole buckets, at least `_SEGMENT_ROWS` rows, and a run has a few dozen segments at most: a probe is a binary
search in the hashes, then in the buckets of equal hashes; a scan and a release go by segment.
A run is an Arrow record batch with the table's columns, `_hash`, and `_gone`, which marks a tombstone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.state.hashing import Hashes, hash_columns
from riverrun.state.table import TableSpec

HASH = "_hash"
GONE = "_gone"
_METADATA = b"riverrun"
_SEGMENT_ROWS = 4096
_SEGMENTS = 64

Indexes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RunSegment:
    """Rows [start, stop) of a run, with buckets in [lo, hi]."""

    start: int
    stop: int
    lo: int
    hi: int


class SortedRun:
    """A sorted record batch, in memory or mapped from a file."""

    def __init__(self, batch: pa.RecordBatch, spec: TableSpec) -> None:
        self.spec = spec
        self.batch = batch
        described = json.loads(batch.schema.metadata[_METADATA])
        self.segments = [RunSegment(*numbers) for numbers in described["segments"]]
        self.hashes = cast(Hashes, batch.column(HASH).to_numpy())
        self.buckets = cast(Indexes, batch.column(spec.bucket).to_numpy()) if spec.bucket else None
        self._values = batch.select([*spec.schema, GONE])

    @classmethod
    def build(cls, rows: pl.DataFrame, spec: TableSpec, hashes: Hashes | None = None) -> SortedRun:
        """Sort `rows`, which have the columns of the table and `_gone`. Known hashes need not be computed again."""
        hashes = hash_columns(rows, spec.probe) if hashes is None else hashes
        buckets = rows[spec.bucket].to_numpy() if spec.bucket else None
        order, segments = _arrange(hashes, buckets)
        columns = rows.select(*spec.schema, GONE)[order].rechunk()
        table = columns.with_columns(pl.Series(HASH, hashes[order])).to_arrow(compat_level=pl.CompatLevel.oldest())
        batch = table.combine_chunks().to_batches()[0] if len(rows) else _no_rows(table.schema)
        described = {"segments": [[s.start, s.stop, s.lo, s.hi] for s in segments]}
        return cls(batch.replace_schema_metadata({_METADATA: json.dumps(described).encode()}), spec)

    @property
    def rows(self) -> int:
        return cast(int, self.batch.num_rows)

    @property
    def lo(self) -> int:
        return min((segment.lo for segment in self.segments), default=0)

    @property
    def hi(self) -> int:
        return max((segment.hi for segment in self.segments), default=0)

    @property
    def tombstones(self) -> bool:
        return bool(pc.any(self.batch.column(GONE)).as_py())

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
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([p for p, _ in pairs]), np.concatenate([r for _, r in pairs])

    def take(self, rows: Indexes) -> pl.DataFrame:
        """The rows with these indexes, tombstones marked; only their pages are read."""
        return self._framed(self._values.take(pa.array(rows)))

    def scan(self, lo: int | None, hi: int | None) -> pl.DataFrame:
        """The rows with buckets in [lo, hi), tombstones marked."""
        parts = []
        for segment in self._overlapping(lo, hi):
            part = self._framed(self._values.slice(segment.start, segment.stop - segment.start))
            if self.spec.bucket and lo is not None and segment.lo < lo:
                part = part.filter(pl.col(self.spec.bucket) >= lo)
            if self.spec.bucket and hi is not None and segment.hi >= hi:
                part = part.filter(pl.col(self.spec.bucket) < hi)
            parts.append(part)
        return pl.concat(parts) if parts else self._framed(self._values.slice(0, 0))

    def _framed(self, values: pa.RecordBatch) -> pl.DataFrame:
        frame = cast(pl.DataFrame, pl.from_arrow(values, rechunk=False))
        # Arrow has one list type and one null more than Polars; the spec's types are what everybody sees
        wrong = {name: kind for name, kind in self.spec.schema.items() if frame.schema[name] != kind}
        return frame.cast(wrong) if wrong else frame  # type: ignore[arg-type]

    def _overlapping(self, lo: int | None, hi: int | None) -> Iterator[RunSegment]:
        for segment in self.segments:
            if self.buckets is None or ((lo is None or segment.hi >= lo) and (hi is None or segment.lo < hi)):
                yield segment

    def _find_in(
        self, segment: RunSegment, hashes: Hashes, buckets: Indexes | None, lo: int | None, hi: int | None
    ) -> tuple[Indexes, Indexes]:
        probes = None
        if buckets is not None and self.buckets is not None:
            fits = (buckets >= (segment.lo if lo is None else max(lo, segment.lo))) & (buckets <= segment.hi)
            if not fits.all():
                probes = np.flatnonzero(fits)
                hashes, buckets = hashes[probes], buckets[probes]
        own = self.hashes[segment.start : segment.stop]
        first = np.searchsorted(own, hashes)
        hit = np.flatnonzero(own[np.minimum(first, len(own) - 1)] == hashes)
        first, last = first[hit], np.searchsorted(own, hashes[hit], side="right")
        probes = hit if probes is None else probes[hit]
        if self.buckets is not None and segment.lo < segment.hi:
            times = self.buckets[segment.start : segment.stop]
            if buckets is not None:
                first, last = _narrow(times, first, last, buckets[hit], buckets[hit] + 1)
            else:
                bottom = np.full(len(hit), segment.lo if lo is None else lo)
                top = np.full(len(hit), segment.hi + 1 if hi is None else hi)
                first, last = _narrow(times, first, last, bottom, top)
        return _pairs(probes, first + segment.start, last - first)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def _arrange(hashes: Hashes, buckets: Indexes | None) -> tuple[Indexes, list[RunSegment]]:
    """The order of the rows in the file, and the segments it falls into."""
    if not len(hashes):
        return np.empty(0, np.int64), []
    if buckets is None:
        return ascending(hashes), [RunSegment(0, len(hashes), 0, 0)]
    if buckets.min() == buckets.max():
        only = int(buckets[0])
        return ascending(hashes), [RunSegment(0, len(hashes), only, only)]
    cuts = _cuts(buckets)
    number = (np.searchsorted(cuts, buckets, side="right") - 1).astype(np.uint8)
    by_segment = np.argsort(number, kind="stable")
    stops = np.cumsum(np.bincount(number, minlength=len(cuts)))
    segments, start = [], 0
    for stop in map(int, stops):
        part = by_segment[start:stop]
        inside = buckets[part]
        lo, hi = int(inside.min()), int(inside.max())
        order = ascending(hashes[part]) if lo == hi else np.lexsort((inside, hashes[part]))
        by_segment[start:stop] = part[order]
        segments.append(RunSegment(start, stop, lo, hi))
        start = stop
    return by_segment, segments


def ascending(values: Hashes | Indexes) -> Indexes:
    """The order of integers; Polars sorts them in half of NumPy's time."""
    return pl.Series(values).arg_sort().to_numpy().astype(np.int64)


def _cuts(buckets: Indexes) -> Indexes:
    """The smallest bucket of each segment."""
    counted = pl.Series("bucket", buckets).value_counts(name="n").sort("bucket")
    values, before = counted["bucket"].to_numpy(), counted["n"].cum_sum().shift(1, fill_value=0).to_numpy()
    # all but the last segment get at least this many rows
    least = max(_SEGMENT_ROWS, -(-len(buckets) // _SEGMENTS))
    cuts, filled = [0], 0
    while True:
        following = int(np.searchsorted(before, filled + least))
        if following >= len(values):
            return cast(Indexes, values[cuts])
        cuts.append(following)
        filled = int(before[following])


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


def _pairs(probes: Indexes, first: Indexes, counts: Indexes) -> tuple[Indexes, Indexes]:
    """Each range of rows written out, beside the probe it belongs to."""
    if (counts == 1).all():
        return probes, first
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    rows = np.repeat(first - before, counts) + np.arange(total)
    return np.repeat(probes, counts), rows
