"""The next messages of every partition, decoded a stretch at a time, so that taking one costs no read of the log."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

from riverrun.log.topic import Topic

_STRETCH = 512
_BYTES = 8 << 20


class Record(NamedTuple):
    """A row of the log as a worker sees it."""

    row: dict[str, Any]
    key: str | None


@dataclass(frozen=True, slots=True)
class ScannedOffsets:
    """Offsets from `low` to before `high`, all of them looked at. Tombstones and gaps have no record."""

    low: int
    high: int
    offsets: list[int]
    records: list[Record]


class Lookahead:
    """One worker's view of what comes next."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._stretches: dict[int, ScannedOffsets] = {}
        self._columns = [*topic.schema.names, "_offset", "_key", "_deleted"]

    def following(self, partition: int, offset: int) -> tuple[int | None, int] | None:
        """The first message from `offset` on (None if the stretch has no more) and where to go on after it.

        None if that part of the log was not read yet: call `read`.
        """
        stretch = self._stretches.get(partition)
        if stretch is None or not stretch.low <= offset < stretch.high:
            return None
        at = bisect_left(stretch.offsets, offset)
        if at == len(stretch.offsets):
            return None, stretch.high
        return stretch.offsets[at], stretch.offsets[at] + 1

    def read(self, partition: int, offset: int) -> None:
        """Read a stretch. Raises OutOfRange when it is no longer there."""
        high = min(offset + _STRETCH, self._topic.ends()[partition])
        self._stretches[partition] = self._stretch(partition, offset, high)

    def record(self, partition: int, offset: int) -> Record | None:
        """One message; None if compaction removed it. Raises OutOfRange when it is no longer there."""
        stretch = self._stretches.get(partition)
        if stretch is None or not stretch.low <= offset < stretch.high:
            stretch = self._stretch(partition, offset, offset + 1)
        at = bisect_left(stretch.offsets, offset)
        found = at < len(stretch.offsets) and stretch.offsets[at] == offset
        return stretch.records[at] if found else None

    def _stretch(self, partition: int, low: int, high: int) -> ScannedOffsets:
        offsets: list[int] = []
        records: list[Record] = []
        size, names = 0, self._topic.schema.names
        for batch in self._topic.batches({partition: low}, {partition: high}, self._columns):
            size += batch.nbytes
            keys = batch.column("_key").to_pylist()
            deleted = batch.column("_deleted").to_pylist()
            rows = zip(
                batch.column("_offset").to_pylist(),
                batch.select(names).to_pylist(maps_as_pydicts="lossy"),
                keys,
                deleted,
                strict=True,
            )
            for offset, row, key, is_tombstone in rows:
                if not is_tombstone:
                    offsets.append(offset)
                    records.append(Record(row, key))
            if size > _BYTES:
                return ScannedOffsets(low, batch.column("_offset")[-1].as_py() + 1, offsets, records)
        return ScannedOffsets(low, high, offsets, records)
