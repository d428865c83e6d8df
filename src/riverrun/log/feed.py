"""The rows of some partitions of one topic, from given offsets on, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa

from riverrun.log.topic import Topic

# Small appends are put together up to this, so that a loop over single-row appends is not a loop over single rows.
_ROWS = 8 << 10
_BYTES = 4 << 20

# How far one partition may run ahead before the others get their turn again.
_STRETCH = 32 << 10


def warm_up() -> None:
    """Arrow's first value loads pandas where it is installed, 0.2 s: before anybody waits for a row, not then."""
    pa.scalar(0)


class Feed:
    """A reader of one topic. `next` is where it is: after everything that `take` has given."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.next: dict[int, int] = {}
        self._active: list[int] = []
        self._stretch: Iterator[pa.RecordBatch] | None = None
        self._end: dict[int, int] = {}
        self._held: pa.RecordBatch | None = None

    def seek(self, offsets: Mapping[int, int], paused: Collection[int] = ()) -> None:
        """Be at these offsets, and read from there, except the paused partitions."""
        self.next = dict(offsets)
        self._active = [partition for partition in offsets if partition not in paused]
        self._stretch = self._held = None

    def take(self) -> pa.RecordBatch | None:
        """The next rows, in offset order within a partition; None if there are none now.

        Raises OutOfRange when they are no longer, or not yet, there.
        """
        try:
            while self._stretch is not None or self._begin():
                batch = self._piece()
                if batch is not None:
                    return batch.replace_schema_metadata({b"topic": self.topic.name.encode()})
        except BaseException:
            self._stretch = self._held = None  # begin anew where `next` is
            raise
        return None

    def _piece(self) -> pa.RecordBatch | None:
        pieces: list[pa.RecordBatch] = []
        rows = size = 0
        while (batch := self._following()) is not None:
            if pieces and (rows + batch.num_rows > _ROWS or size + batch.nbytes > _BYTES):
                self._held = batch
                break
            pieces.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        whole = pa.concat_batches(pieces) if len(pieces) > 1 else pieces[0] if pieces else None
        if batch is None or whole is None:
            # Offsets without a row (promises, what compaction removed) lie after it too.
            self._stretch, reached = None, self._end
        else:
            reached = row_ends(whole)
        self.next |= reached
        return whole

    def _begin(self) -> bool:
        ends, start = self.topic.ends(), {p: self.next[p] for p in self._active}
        if all(ends[p] == offset for p, offset in start.items()):
            return False
        self._end = {p: min(ends[p], offset + _STRETCH) for p, offset in start.items()}
        self._stretch = self.topic.batches(start, self._end)
        return True

    def _following(self) -> pa.RecordBatch | None:
        held, self._held = self._held, None
        if held is not None or self._stretch is None:
            return held
        return next(self._stretch, None)


def row_ends(batch: pa.RecordBatch) -> dict[int, int]:
    """After the last row of each partition."""
    partitions, offsets = batch.column("_partition").to_numpy(), batch.column("_offset").to_numpy()
    ends = np.zeros(int(partitions.max()) + 1, np.int64)
    np.maximum.at(ends, partitions, offsets + 1)
    return {p: int(ends[p]) for p in np.unique(partitions).tolist()}
