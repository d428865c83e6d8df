"""Where the rows of every key are: the index of a topic with versions, derived from its journal.

What was appended since the last segment was begun is in memory; every earlier segment has a file in the directory `keys`:
the hashes of its keys in order, and the place of each row. A file that is missing, damaged, or of another version of the
segment is made again. Keys are hashed with a secret of the topic; who looks one up compares the key itself with the rows.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from riverrun import durable
from riverrun.checksums import checksum
from riverrun.columns import KEY, OFFSET, PARTITION
from riverrun.failpoints import failpoint
from riverrun.log.segments import Entry
from riverrun.log.siphash import Hashes, siphash, siphash_column

Places = np.ndarray[Any, np.dtype[np.int64]]
ReadKeys = Callable[[Mapping[int, int], Mapping[int, int]], Iterable[pa.RecordBatch]]

_log = logging.getLogger("riverrun.log")
_OFFSET_BITS = 47
_HEAD = struct.Struct("<8sIIqI")
_MAGIC = b"RRKEYS01"
_SECRET = "secret"
_FEW = 4096  # places in the dict of the newest rows


class KeyRun(NamedTuple):
    """Hashes in order, and the places of their rows; those of one hash are in log order."""

    hashes: Hashes
    places: Places

    @classmethod
    def of(cls, hashes: Hashes, places: Places) -> KeyRun:
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], places[order])

    def find(self, wanted: int) -> Places:
        begin, end = (np.searchsorted(self.hashes, np.uint64(wanted), side) for side in ("left", "right"))
        return self.places[begin:end]

    def counts(self, wanted: Hashes) -> Places:
        """How many rows each of these hashes has."""
        begin, end = (np.searchsorted(self.hashes, wanted, side) for side in ("left", "right"))
        return end - begin

    def merged(self, other: KeyRun) -> KeyRun:
        """With a run of rows that came later."""
        return KeyRun.of(np.concatenate([self.hashes, other.hashes]), np.concatenate([self.places, other.places]))


class FreshKeys:
    """The rows of a segment that grows: runs of which each is at least twice as long as the next, and a few in a dict."""

    def __init__(self) -> None:
        self._runs: list[KeyRun] = []
        self._few: dict[int, list[int]] = {}
        self._count = 0

    def add(self, hashes: Hashes, places: Places) -> None:
        if self._count + len(hashes) <= _FEW:
            for key, place in zip(hashes.tolist(), places.tolist(), strict=True):
                self._few.setdefault(key, []).append(place)
            self._count += len(hashes)
            return
        earlier = [(key, place) for key, found in self._few.items() for place in found]
        self._few, self._count = {}, 0
        run = KeyRun.of(hashes, places)
        if earlier:
            keys, at = zip(*earlier, strict=True)
            run = KeyRun.of(np.array(keys, np.uint64), np.array(at, np.int64)).merged(run)
        while self._runs and len(self._runs[-1].hashes) < 2 * len(run.hashes):
            run = self._runs.pop().merged(run)
        self._runs.append(run)

    def find(self, wanted: int) -> Iterator[Places]:
        for run in self._runs:
            yield run.find(wanted)
        yield np.array(self._few.get(wanted, ()), np.int64)

    def counts(self, wanted: Hashes) -> Places:
        found: Places = sum((run.counts(wanted) for run in self._runs), np.zeros(len(wanted), np.int64))
        return found + np.array([len(self._few.get(key, ())) for key in wanted.tolist()], np.int64)


class KeyIndex:
    """The index as one process has it; threads may share it. `read` gives partition, offset and key of rows in a range."""

    def __init__(self, directory: str, secret: bytes, read: ReadKeys) -> None:
        self._directory = directory
        self._secret = secret
        self._read = read
        self._lock = threading.Lock()
        self._earlier: dict[int, KeyRun] = {}  # by the first commit of a segment, oldest first
        self._segment = -1
        self._fresh = FreshKeys()
        self._reached: tuple[int, ...] = ()

    def catch_up(self, offsets: Sequence[int], entries: Sequence[Entry], is_end: bool = False) -> None:
        """Take in what lies before `offsets`, in these segments. Others may have come further meanwhile, unless it is known
        that this is the end."""
        with self._lock:
            if not is_end and self._is_behind(offsets, entries[-1]):
                return
            for entry, following in pairwise(entries):
                if entry.first_commit not in self._earlier:
                    self._earlier[entry.first_commit] = self._load(entry) or self._make(entry, following)
            newest = entries[-1]
            if newest.first_commit != self._segment or self._is_behind(
                offsets, newest
            ):  # an older copy is in its place
                self._segment, self._fresh, self._reached = newest.first_commit, FreshKeys(), newest.snapshot.offsets
            if any(end > reached for end, reached in zip(offsets, self._reached, strict=True)):
                for hashes, places in self._read_range(self._reached, offsets):
                    self._fresh.add(hashes, places)
                self._reached = tuple(offsets)

    def _is_behind(self, offsets: Sequence[int], newest: Entry) -> bool:
        """Whether more than this is known already."""
        return newest.first_commit < self._segment or any(
            end < reached for end, reached in zip(offsets, self._reached, strict=False)
        )

    def find(self, key: str, partition: int) -> Places:
        """The offsets of the rows that have this key in the partition, in order; now and then one of another key."""
        wanted = siphash(key.encode(), self._secret)
        with self._lock:
            parts = [run.find(wanted) for run in self._earlier.values()] + list(self._fresh.find(wanted))
        places = np.concatenate(parts)
        offsets: Places = places[places >> _OFFSET_BITS == partition] & ((1 << _OFFSET_BITS) - 1)
        return offsets

    def count(self, keys: Sequence[str]) -> list[int]:
        """How many rows each key has; now and then some more, of others."""
        hashes = siphash_column(pa.array(keys, pa.string()), self._secret)
        order = np.argsort(hashes)  # neighbours are found in the same part of a run
        found = np.empty(len(keys), np.int64)
        with self._lock:
            earlier = sum((run.counts(hashes[order]) for run in self._earlier.values()), np.zeros(len(keys), np.int64))
            found[order] = earlier + self._fresh.counts(hashes[order])
        return found.tolist()

    def note(self, since: Sequence[int], until: Sequence[int], rows: Iterable[pa.RecordBatch]) -> None:
        """Take in what this process has appended itself, if nothing before it is missing."""
        with self._lock:
            if self._reached == tuple(since):
                for hashes, places in map(self._placed, rows):
                    self._fresh.add(hashes, places)
                self._reached = tuple(until)

    def _read_range(self, start: Sequence[int], end: Sequence[int]) -> Iterator[tuple[Hashes, Places]]:
        return map(self._placed, self._read(dict(enumerate(start)), dict(enumerate(end))))

    def _placed(self, rows: pa.RecordBatch) -> tuple[Hashes, Places]:
        partitions = rows.column(PARTITION).to_numpy().astype(np.int64)
        places = partitions << _OFFSET_BITS | rows.column(OFFSET).to_numpy()
        return siphash_column(rows.column(KEY), self._secret), places

    def _make(self, entry: Entry, following: Entry) -> KeyRun:
        parts = list(self._read_range(entry.snapshot.offsets, following.snapshot.offsets))
        hashes = np.concatenate([np.empty(0, np.uint64), *(part for part, _ in parts)])
        places = np.concatenate([np.empty(0, np.int64), *(part for _, part in parts)])
        run = KeyRun.of(hashes, places)
        failpoint("keys.made")
        try:
            self._store(entry, run)
        except OSError as error:  # it can be made again
            _log.debug("%s cannot be written: %s", self._path(entry), error)
        return run

    def _store(self, entry: Entry, run: KeyRun) -> None:
        body = run.hashes.tobytes() + run.places.tobytes()
        head = _HEAD.pack(_MAGIC, entry.file[1], checksum(self._secret), len(run.hashes), checksum(body))
        durable.write_file(self._path(entry), head + body)

    def _load(self, entry: Entry) -> KeyRun | None:
        """The file of exactly this version of the segment, or None."""
        try:
            with open(self._path(entry), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if len(data) < _HEAD.size:
            return None
        magic, segment, secret, count, crc = _HEAD.unpack_from(data)
        if (magic, segment, secret) != (_MAGIC, entry.file[1], checksum(self._secret)):
            return None
        if len(data) != _HEAD.size + 16 * count or checksum(memoryview(data)[_HEAD.size :]) != crc:
            return None
        hashes = np.frombuffer(data, np.uint64, count, _HEAD.size)
        return KeyRun(hashes, np.frombuffer(data, np.int64, count, _HEAD.size + 8 * count))

    def _path(self, entry: Entry) -> str:
        return f"{self._directory}/{entry.first_commit:020d}"


def topic_secret(directory: str) -> bytes:
    """The secret that the keys of a topic are hashed with, made by whoever asks first. The caller keeps others out."""
    durable.make_directory(directory)
    path = f"{directory}/{_SECRET}"
    try:
        with open(path, "rb") as file:
            found = file.read()
    except FileNotFoundError:
        found = b""
    if len(found) != 16:
        found = os.urandom(16)
        durable.write_file(path, found)
    return found
