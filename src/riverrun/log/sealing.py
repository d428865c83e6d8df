"""Sealing: once a segment is no longer written to, its small frames are merged and its index is put beside it.

A sealed segment is durable and whole; recovery trusts its index, and readers find a row in it without a scan.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from riverrun.failpoints import failpoint
from riverrun.log.frame import ROWS
from riverrun.log.replacement import index_segment, replace_segments
from riverrun.log.rewrite import Pace, at_full_speed, rewrite_segment
from riverrun.log.segment import Segment, read_index
from riverrun.log.segments import Entry

if TYPE_CHECKING:
    from riverrun.log.embedded import EmbeddedBackend

# Segments with more and smaller frames than this are merged; larger frames cost readers next to nothing.
_FRAMES = 64
_ROWS = 512


def seal(backend: EmbeddedBackend, pace: Pace = at_full_speed) -> int:
    """Seal every segment but the active one, the newest first, as it is read the most. Gives how many were sealed."""
    sealed = 0
    entries = backend.journal.extent()[1]
    for entry, following in reversed(list(pairwise(entries))):
        pace()
        if entry.directory == backend.directory and not is_sealed(backend, entry):
            _seal(backend, entry, following, pace)
            sealed += 1
    return sealed


def is_sealed(backend: EmbeddedBackend, entry: Entry) -> bool:
    """Whether the segment has its own, undamaged index. Looked up once for every version of a segment."""
    if entry.file not in backend.upkeep.sealed:
        segment = Segment(entry.directory, entry.first_commit)
        if read_index(entry.path, segment.head, segment.size) is None:
            return False
        backend.upkeep.sealed.add(entry.file)
    return True


def _seal(backend: EmbeddedBackend, entry: Entry, following: Entry, pace: Pace) -> None:
    segment = Segment(entry.directory, entry.first_commit)
    index = segment.index(segment.size, pace)
    if _is_fragmented(index):
        backend.know_versions(index)
        pieces = rewrite_segment(segment, {}, backend.spec, backend.schemas, pace)
        replace_segments(backend.journal, [entry], following, pieces, "seal")
    else:
        backend.journal.sync(following.first_commit)
        failpoint("seal.synced")
        index_segment(entry, pace)
        failpoint("seal.indexed")


def _is_fragmented(index: np.ndarray) -> bool:
    rows = index["rows"][index["kind"] == ROWS]
    return len(rows) > _FRAMES and rows.mean() < _ROWS
