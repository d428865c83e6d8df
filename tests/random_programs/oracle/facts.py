"""Rows as the oracle has them, and the nodes that hold them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from random_programs.values import canonical

NEVER, END = -(10**18), 10**18
"""Watermarks before anything is known, and at the end of the input."""

SECOND = 1_000_000


@dataclass(frozen=True)
class Fact:
    """A row: what tells it apart, its columns, its event time, where it stands in the log and when it came in."""

    id: Hashable
    values: Mapping[str, Any]
    time: int
    place: tuple[Any, ...] = ()
    received: int = 0

    @cached_property
    def content(self) -> Hashable:
        """Equal for rows that look the same."""
        return canonical(dict(self.values))

    @property
    def log_order(self) -> tuple[Any, ...]:
        return (self.received, self.place)


@dataclass(frozen=True)
class Version:
    """What a changelog says of a key from a time on; no values mean that there is no row."""

    key: Hashable
    values: Mapping[str, Any] | None
    time: int
    order: tuple[int, int, int]
    """When it was received, and its partition and offset."""


@dataclass
class Epoch:
    """What one epoch reads: per topic the rows that are new, and the promises; `received` is its cut."""

    number: int
    received: int
    final: bool
    rows: Mapping[str, list[Fact]] = field(default_factory=dict)
    tombstones: Mapping[str, list[Fact]] = field(default_factory=dict)
    promises: Mapping[str, list[tuple[str, int, int]]] = field(default_factory=dict)


class Node(ABC):
    """A stream or a table: all rows that it has after an epoch, computed anew from those of its inputs."""

    inputs: tuple[Node, ...] = ()
    delay = 0

    def __init__(self) -> None:
        self.rows: dict[Hashable, Fact] = {}
        self.came: list[Fact] = []
        self.went: list[Fact] = []
        self.versions: list[Version] = []
        self.watermarks = (NEVER, NEVER)
        self.counts: dict[str, Counter[str]] = {}

    def step(self, epoch: Epoch) -> None:
        """What there is after this epoch."""
        self.watermarks = self._watermarks()
        self.counts = {}
        rows = {row.id: row for row in self.after(epoch)}
        self.came = [row for id, row in rows.items() if not _same(self.rows.get(id), row)]
        self.went = [row for id, row in self.rows.items() if not _same(rows.get(id), row)]
        self.rows = rows

    @abstractmethod
    def after(self, epoch: Epoch) -> Iterable[Fact]:
        """All rows after the epoch."""

    def _watermarks(self) -> tuple[int, int]:
        """At the start and at the end of the epoch: the smallest of the inputs'."""
        start, end = self.judged
        return delayed(start, self.delay), delayed(end, self.delay)

    @property
    def judged(self) -> tuple[int, int]:
        """The watermarks by which the node judges its rows."""
        return (
            min(node.watermarks[0] for node in self.inputs),
            min(node.watermarks[1] for node in self.inputs),
        )

    def count(self, input: str, read: int, **places: int) -> None:
        """A line of the ledger; what is in no other place was accepted."""
        self.counts[input] = Counter({"read": read, "accepted": read - sum(places.values()), **places})


def delayed(watermark: int, delay: int) -> int:
    return watermark if watermark in (NEVER, END) else watermark - delay


def _same(one: Fact | None, other: Fact | None) -> bool:
    if one is None or other is None:
        return False
    return one is other or (one.time == other.time and one.content == other.content)
