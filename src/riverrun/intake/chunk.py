"""A chunk: some consecutive records of an input, and which of them a topic accepts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from riverrun.errors import Invalid

if TYPE_CHECKING:
    from riverrun.log.topic import Topic


class Chunk(ABC):
    """Records `0 … size-1`, still as they were read. `behind` is how many records of the input end with this chunk,
    `bytes` how much of it was read."""

    size: int
    behind: int
    bytes: int

    @abstractmethod
    def rows(self, low: int, high: int) -> Any:
        """Records [low, high) as `Topic.append` takes them; Invalid when one of them cannot be read."""

    @abstractmethod
    def place(self, record: int) -> str:
        """Where a record is in the input, as "line 17"."""


@dataclass(frozen=True)
class Bad:
    """A record that was refused, and why. `record` counts the input's records before it."""

    place: str
    why: str
    record: int

    def __str__(self) -> str:
        return f"{self.place}{', ' if self.why.startswith('column ') else ': '}{self.why}"


def sift(chunk: Chunk, topic: Topic, begin: int = 0) -> tuple[pa.Table, list[Bad]]:
    """The rows from `begin` that the topic accepts, and those it does not. Halves are tried: a bad one costs little."""
    good: list[pa.RecordBatch] = []
    bad: list[Bad] = []
    for low, result in _sifted(chunk, topic, begin, chunk.size):
        if isinstance(result, Invalid):
            bad.append(_bad(chunk, topic, low, result))
        else:
            good.append(result)
    return pa.concat_tables(map(_table, good), promote_options="default"), bad


def until_bad(chunk: Chunk, topic: Topic, begin: int = 0) -> tuple[pa.Table, Bad | None]:
    """The rows from `begin` up to the first one that the topic does not accept, and that one."""
    whole = _try(chunk, topic, begin, chunk.size)
    if not isinstance(whole, Invalid):
        return _table(whole), None
    low, high = begin, chunk.size  # the rows before `low` are good, one of [low, high) is bad
    while high - low > 1:
        middle = (low + high) // 2
        found = _try(chunk, topic, low, middle)
        if isinstance(found, Invalid):
            high, whole = middle, found
        else:
            low = middle
    alone = _try(chunk, topic, low, high)
    return _table(topic.checked(chunk.rows(begin, low))), _bad(chunk, topic, low, alone)


def _sifted(chunk: Chunk, topic: Topic, low: int, high: int) -> Iterator[tuple[int, pa.RecordBatch | Invalid]]:
    result = _try(chunk, topic, low, high)
    if not isinstance(result, Invalid) or high - low <= 1:
        yield low, result
        return
    middle = (low + high) // 2
    yield from _sifted(chunk, topic, low, middle)
    yield from _sifted(chunk, topic, middle, high)


def _try(chunk: Chunk, topic: Topic, low: int, high: int) -> pa.RecordBatch | Invalid:
    try:
        return topic.checked(chunk.rows(low, high))
    except Invalid as error:
        return error


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _bad(chunk: Chunk, topic: Topic, record: int, error: Invalid | pa.RecordBatch) -> Bad:
    """The reason without the topic's own count of rows, which begins with what it was given."""
    text = str(error)
    for prefix in (f"topic {topic.name}, row 0, ", f"topic {topic.name}, row 0: ", f"topic {topic.name}: "):
        text = text.removeprefix(prefix)
    return Bad(chunk.place(record), text, chunk.behind - chunk.size + record)
