"""The log in memory as if it were Kafka: nobody knows what time rows have before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

from riverrun.log.memory_backend import MemoryBackend
from riverrun.log.topic_backend import Contents, PromiseMade


def take_headers_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, topics in memory have none."""
    monkeypatch.setattr(MemoryBackend, "has_headers", False)
    monkeypatch.setattr(MemoryBackend, "contents", _contents)
    monkeypatch.setattr(MemoryBackend, "settled", lambda self: self._stored.clock())


def _contents(
    self: MemoryBackend, start: Mapping[int, int], end: Mapping[int, int], columns: Sequence[str] | None = None
) -> Iterator[Contents]:
    promises = [
        PromiseMade(part.partition, part.offset, part.received, part.maxima)
        for part in self.summaries(start, end)
        if not part.rows
    ]
    yield Contents(pa.RecordBatch.from_pylist([], self.decoder(columns).schema), promises)
    for rows in self.batches(start, end, columns):
        yield Contents(rows)
