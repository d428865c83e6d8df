"""Compaction: of every key the newest row stays. Offsets do not change, so positions keep their meaning.

Sealed segments are read newest first, once, by partition, for the keys alone; then they are rewritten, oldest first.
So a tombstone never goes before the rows it deletes. What a compaction has left behind is clean: each of its keys is
there once, and the next one only has to look for the keys that were appended since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from riverrun import durable
from riverrun.durations import wall_clock
from riverrun.failpoints import failpoint
from riverrun.log.replacement import replace_segments
from riverrun.log.rewrite import Pace, Rewritten, at_full_speed, rewrite_segments
from riverrun.log.sealing import seal
from riverrun.log.segment import Segment
from riverrun.log.segments import Entry
from riverrun.log.survivors import Survivors

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedBackend

_MARK = "compacted"


def compact_topic(backend: EmbeddedBackend) -> dict[str, int]:
    """Keep the newest row of every key, and tombstones for the grace period. Gives what was kept and removed."""
    with backend.upkeep.alone():
        if backend.journal.roll():
            failpoint("compact.rolled")
        result = compact_sealed(backend)
        seal(backend)
    return result


def compact_if_dirty(backend: EmbeddedBackend, pace: Pace) -> None:
    """Compact when at least half of the sealed bytes came after the last compaction, so bytes are rewritten rarely."""
    sealed, _ = _sealed(backend)
    clean = _read_mark(backend)
    sizes = {entry.first_commit: os.path.getsize(entry.path) for entry in sealed}
    dirty = sum(size for first_commit, size in sizes.items() if first_commit > clean)
    if dirty and 2 * dirty >= sum(sizes.values()):
        compact_sealed(backend, pace)


def compact_sealed(backend: EmbeddedBackend, pace: Pace = at_full_speed) -> dict[str, int]:
    """Compact every segment but the active one, for somebody who has the upkeep lock."""
    sealed, active = _sealed(backend)
    before = sum(os.path.getsize(entry.path) for entry in sealed)
    indexes = []
    for entry in sealed:
        segment = Segment(entry.directory, entry.first_commit)
        indexes.append(segment.index(segment.size, pace))
        backend.know_versions(indexes[-1])
    horizon = wall_clock() - backend.settings.tombstone_grace
    survivors = Survivors(backend.spec, backend.schemas, horizon, pace)
    keeps = survivors.choose(sealed, indexes, _read_mark(backend))

    segments = len(sealed)
    left = [survivors.share(index, keep) for index, keep in zip(indexes, keeps, strict=True)]
    for first, last in _runs(sealed, left, [bool(keep) for keep in keeps], backend.settings.segment_bytes):
        run = sealed[first:last]
        opened = [Segment(entry.directory, entry.first_commit) for entry in run]
        sources = [Rewritten(s, i, k) for s, i, k in zip(opened, indexes[first:last], keeps[first:last], strict=True)]
        following = sealed[last] if last < len(sealed) else active
        pieces = rewrite_segments(sources, backend.spec, backend.schemas, pace)
        replace_segments(backend.journal, run, following, pieces, "compact")
        segments -= len(run) - 1
    if sealed:
        _write_mark(backend, active.first_commit - 1)
    after = sum(os.path.getsize(entry.path) for entry in _sealed(backend)[0])
    return {**survivors.counts, "segments": segments, "bytes": before - after}


def _sealed(backend: EmbeddedBackend) -> tuple[list[Entry], Entry]:
    """The segments that may be rewritten, and the active one. What is in the archive stays as it is."""
    mine = [entry for entry in backend.journal.extent()[1] if entry.directory == backend.directory]
    return mine[:-1], mine[-1]


def _runs(
    sealed: Sequence[Entry], left: Sequence[float], touched: Sequence[bool], limit: int
) -> Iterator[tuple[int, int]]:
    """Neighbours that become one segment. What loses no row and is large is left alone."""
    begin, size = 0, 0.0
    for i, (entry, share) in enumerate(zip(sealed, left, strict=True)):
        expected = os.path.getsize(entry.path) * share
        alone = not touched[i] and expected >= limit / 2
        if i > begin and (alone or size + expected > limit):
            if i - begin > 1 or touched[begin]:
                yield begin, i
            begin, size = i, 0.0
        size += expected
        if alone:
            begin, size = i + 1, 0.0
    if len(sealed) - begin > 1 or (begin < len(sealed) and touched[begin]):
        yield begin, len(sealed)


def _read_mark(backend: EmbeddedBackend) -> int:
    """The last commit of the part in which every key is there once. Without the mark, compaction reads everything."""
    try:
        with open(f"{backend.directory}/{_MARK}", encoding="ascii") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 0


def _write_mark(backend: EmbeddedBackend, commit: int) -> None:
    durable.write_file(f"{backend.directory}/{_MARK}", str(commit))
    failpoint("compact.marked")
