"""Which rows a compaction leaves: of every key the newest, and of tombstones those that are not too old.

One partition at a time, so memory holds the keys of one, and of those only the ones appended since the last compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.log.codec import HIDDEN
from riverrun.log.frame import DELETED, PROMISE, ROWS, decode_maxima
from riverrun.log.rewrite import Keep, Pace, read_frames
from riverrun.log.rows import key_text
from riverrun.log.segment import Segment
from riverrun.log.segments import Entry
from riverrun.log.stored_spec import StoredSpec

_CHUNK_ROWS = 1 << 20
_CHUNK_BYTES = 128 << 20


class Survivors:
    """The choice for one compaction. Tombstones received up to `horizon` go."""

    def __init__(self, spec: StoredSpec, schemas: Mapping[int, pa.Schema], horizon: int, pace: Pace) -> None:
        self._key = list(spec.key)
        self._schemas = schemas
        self._horizon = horizon
        self._pace = pace
        first = schemas[min(schemas)]  # key columns are there from the beginning
        self._wanted = pa.schema(
            [*(first.field(name) for name in self._key), *(pa.field(n, HIDDEN[n]) for n in ("_deleted", "_received"))]
        )
        self.counts = {"kept": 0, "removed": 0, "tombstones": 0}

    def choose(self, entries: Sequence[Entry], indexes: Sequence[np.ndarray], clean: int) -> list[Keep]:
        """For every segment the frames that lose rows. Segments up to commit `clean` have each key once."""
        keeps: list[dict[int, np.ndarray]] = [{} for _ in entries]
        partitions = sorted({int(p) for index in indexes for p in np.unique(index["partition"])})
        for partition in partitions:
            seen: list[pa.Array] = []
            said: dict[str, int] = {}
            for entry, index, keep in reversed(list(zip(entries, indexes, keeps, strict=True))):
                segment = Segment(entry.directory, entry.first_commit)
                self._choose_promises(segment, index, partition, said, keep)
                if entry.first_commit > clean:
                    self._choose_newest(segment, index, partition, seen, keep)
                else:
                    self._choose_unseen(segment, index, partition, seen, keep)
        return list(keeps)

    @staticmethod
    def share(index: np.ndarray, keep: Keep) -> float:
        """About which part of the segment's bytes is left."""
        sizes = index["body_bytes"].astype(np.float64)
        total = float(sizes.sum())
        lost = sum(float(sizes[n]) * (1 - np.count_nonzero(mask) / len(mask)) for n, mask in keep.items())
        return 1 - lost / total if total else 1.0

    def _choose_newest(
        self, segment: Segment, index: np.ndarray, partition: int, seen: list[pa.Array], keep: dict[int, np.ndarray]
    ) -> None:
        """Rows appended since the last compaction: the last of each key, unless a newer segment has the key."""
        numbers = np.nonzero((index["kind"] == ROWS) & (index["partition"] == partition))[0]
        for chunk in _chunks_from_the_end(index, numbers):
            table = read_frames(segment, index[chunk], self._schemas, self._wanted, self._pace)
            coded = self._keys(table).dictionary_encode(null_encoding="encode")
            codes, distinct = coded.indices.to_numpy(), coded.dictionary
            last = np.empty(len(distinct), np.int64)
            last[codes] = np.arange(len(codes))  # of equal codes the last one stands
            unseen = _is_new(distinct, seen)
            newest = np.zeros(len(codes), np.bool_)
            newest[last[unseen]] = True
            seen.append(distinct.filter(pa.array(unseen)))
            self._note(index, chunk, table, newest, keep)

    def _choose_unseen(
        self, segment: Segment, index: np.ndarray, partition: int, seen: list[pa.Array], keep: dict[int, np.ndarray]
    ) -> None:
        """Rows that a compaction left: they stay unless their key came again, or their time as tombstones is over."""
        wanted = (index["kind"] == ROWS) & (index["partition"] == partition)
        if not any(len(keys) for keys in seen):
            self.counts["kept"] += int(index["rows"][wanted & (index["flags"] & DELETED == 0)].sum())
            wanted &= index["flags"] & DELETED != 0
        for chunk in _chunks_from_the_end(index, np.nonzero(wanted)[0]):
            table = read_frames(segment, index[chunk], self._schemas, self._wanted, self._pace)
            self._note(index, chunk, table, _is_new(self._keys(table), seen), keep)

    def _choose_promises(
        self, segment: Segment, index: np.ndarray, partition: int, said: dict[str, int], keep: dict[int, np.ndarray]
    ) -> None:
        """A promise goes when a later one of the same producers says as much."""
        numbers = np.nonzero((index["kind"] == PROMISE) & (index["partition"] == partition))[0]
        for number in numbers[::-1].tolist():
            maxima = decode_maxima(segment.extras(index[number]))
            if all(said.get(producer, time - 1) >= time for producer, time in maxima.items()):
                keep[number] = np.zeros(1, np.bool_)
            said.update({p: max(t, said.get(p, t)) for p, t in maxima.items()})

    def _keys(self, table: pa.Table) -> pa.Array:
        one = table.column(self._key[0]) if len(self._key) == 1 else key_text(table, self._key)
        return one.combine_chunks()

    def _note(
        self, index: np.ndarray, chunk: np.ndarray, table: pa.Table, stays: np.ndarray, keep: dict[int, np.ndarray]
    ) -> None:
        deleted = pc.fill_null(table.column("_deleted"), False).to_numpy()
        if deleted.any():
            received = table.column("_received").cast(pa.int64()).to_numpy()
            stays = stays & ~(deleted & (received <= self._horizon))
        left = int(np.count_nonzero(stays))
        self.counts["kept"] += left
        self.counts["removed"] += len(stays) - left
        self.counts["tombstones"] += int(np.count_nonzero(stays & deleted))
        if left == len(stays):
            return
        begin = 0
        for number, rows in zip(chunk.tolist(), index["rows"][chunk].tolist(), strict=True):
            mask = stays[begin : begin + rows]
            begin += rows
            if not mask.all():
                # One value for a whole frame costs no memory; the rest must not keep the chunk alive.
                keep[number] = mask.copy() if mask.any() else np.broadcast_to(np.False_, rows)


def _is_new(keys: pa.Array, seen: Sequence[pa.Array]) -> np.ndarray:
    if not seen:
        return np.ones(len(keys), np.bool_)
    known = pc.is_in(keys, value_set=pa.chunked_array(seen))
    return np.asarray(~known.to_numpy(zero_copy_only=False))


def _chunks_from_the_end(index: np.ndarray, numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Frames in order, cut into chunks that fit into memory, the last chunk first."""
    rows = np.cumsum(index["rows"][numbers][::-1].astype(np.int64)) // _CHUNK_ROWS
    size = np.maximum(index["raw_bytes"], index["body_bytes"])[numbers][::-1]
    cut = np.maximum.accumulate(rows + np.cumsum(size.astype(np.int64)) // _CHUNK_BYTES)
    edges = np.nonzero(np.diff(cut))[0] + 1
    for chunk in np.split(numbers[::-1], edges):
        if len(chunk):
            yield chunk[::-1]
