"""Versions of keys in an embedded topic: how many rows a key has, and the rows themselves, without reading the topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import KEY, OFFSET, PARTITION
from riverrun.errors import VersionConflict
from riverrun.log.board import Ends
from riverrun.log.decoder import Decoder, decodable_runs
from riverrun.log.frame import LZ4, ROWS, Frame
from riverrun.log.key_index import KeyIndex, Places, topic_secret
from riverrun.log.partitioner import partition_of
from riverrun.log.producers import Claim
from riverrun.log.read_range import find_frames

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedBackend


class VersionedKeys:
    """Of one topic, as one process has opened it."""

    def __init__(self, backend: EmbeddedBackend) -> None:
        self._backend = backend
        self._journal = backend.journal

    @cached_property
    def _index(self) -> KeyIndex:
        directory = f"{self._backend.directory}/keys"
        with self._journal.exclusive():
            secret = topic_secret(directory)
        return KeyIndex(directory, secret, self._read_keys)

    def catch_up(self) -> None:
        """Know every row that is written by now."""
        ends, entries = self._journal.extent(written=True)
        self._index.catch_up(ends.offsets, entries)

    def append(self, frames: Sequence[Frame], claim: Claim | None, expected: Mapping[str, int]) -> tuple[int, ...]:
        """Append to the journal if every key has as many rows as expected; gives the ends after it."""
        others: dict[str, int] = {}
        while True:
            self.catch_up()  # so that little is left to do while others wait
            reached: list[Sequence[int]] = []
            try:
                ends, _ = self._journal.append(frames, claim, partial(self._check, expected, others, reached))
                self._note(frames, reached, ends)
                return ends
            except VersionConflict as conflict:
                # Keys whose hashes are the same are told apart here, by the rows; so rarely that it may take its time.
                exact = {key: self.rows_of(key, [KEY]).num_rows for key in conflict.versions}
                if any(exact[key] != expected[key] for key in exact):
                    raise VersionConflict.of(self._backend.name, expected, exact) from None
                others |= {key: others.get(key, 0) + conflict.versions[key] - exact[key] for key in exact}

    def _check(
        self, expected: Mapping[str, int], others: Mapping[str, int], reached: list[Sequence[int]], ends: Ends
    ) -> None:
        """While nobody else writes. Of the rows that are found for a key, so many are `others`; `reached` is told where
        the journal ends."""
        reached.append(ends.offsets)
        self._index.catch_up(ends.offsets, self._journal.segments.entries(ends.segment), is_end=True)
        keys = list(expected)
        found = [count - others.get(key, 0) for key, count in zip(keys, self._index.count(keys), strict=True)]
        differing = {key: count for key, count in zip(keys, found, strict=True) if count != expected[key]}
        if differing:
            raise VersionConflict.of(self._backend.name, expected, differing)

    def _note(self, frames: Sequence[Frame], reached: list[Sequence[int]], ends: Sequence[int]) -> None:
        """Know what was just appended without reading it; it was not if nobody asked where the journal ends."""
        if reached and not any(frame.flags & LZ4 for frame in frames):
            self._index.note(reached[0], ends, self._placed(frames, list(reached[0])))

    def _placed(self, frames: Sequence[Frame], offsets: list[int]) -> Iterator[pa.RecordBatch]:
        decoder = self._backend.decoder([PARTITION, OFFSET, KEY])
        for frame in frames:
            place = {"partition": frame.partition, "offset": offsets[frame.partition], "received": 0}
            known = {"schema": frame.schema, "flags": frame.flags, "span": frame.span}
            yield decoder.decode(place | known, frame.body)
            offsets[frame.partition] += frame.span

    def rows_of(self, key: str, columns: Sequence[str] | None = None, after: int = 0) -> pa.Table:
        """The rows of a key from an offset on."""
        self.catch_up()
        found = self._find(key)
        decoder = self._backend.decoder(None if columns is None else list(dict.fromkeys([*columns, KEY, OFFSET])))
        table = pa.Table.from_batches(self._take(decoder, self._partition(key), found[found >= after]), decoder.schema)
        table = table.filter(pc.equal(table.column(KEY), key))
        return table if columns is None else table.select(columns)

    def _find(self, key: str) -> Places:
        return self._index.find(key, self._partition(key))

    def _partition(self, key: str) -> int:
        return partition_of(key.encode(), self._backend.spec.partitions)

    def _take(self, decoder: Decoder, partition: int, offsets: Places) -> Iterator[pa.RecordBatch]:
        """Rows at some offsets, which ascend; frames that have none of them are not read."""
        if not len(offsets):
            return
        start, end = {partition: int(offsets[0])}, {partition: int(offsets[-1]) + 1}
        for segment, index, low, high in find_frames(self._journal, start, end, written=True):
            mine = index[index["kind"] == ROWS]
            at = np.searchsorted(mine["offset"], offsets, "right") - 1
            wanted = mine[np.unique(at[(at >= 0) & (offsets < high[partition])])]
            wanted = wanted[wanted["offset"] + wanted["span"] > low[partition]]
            self._backend.know_versions(wanted)
            for run in decodable_runs(wanted, np.zeros_like(low), np.full_like(high, np.iinfo(np.int64).max)):
                bodies = segment.known_bodies(run)
                rows = decoder.decode(run[0], bodies[0]) if len(run) == 1 else decoder.decode_run(run, bodies)
                there = rows.column(OFFSET).to_numpy()
                yield rows.take(pa.array(np.flatnonzero(np.isin(there, offsets, assume_unique=True))))

    def _read_keys(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        return self._backend.read(start, end, [PARTITION, OFFSET, KEY], written=True)
