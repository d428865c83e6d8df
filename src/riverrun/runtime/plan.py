"""The plan of an epoch: what it reads, and what time it is. It is the epoch's identity: repeated, it is the same."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Plan:
    """One epoch, as it is kept in Spark's offset log."""

    epoch: int
    received: int
    positions: Mapping[str, Mapping[int, int]]
    watermarks: Mapping[str, tuple[int, int]]
    memory: str | None
    final: bool = False
    begin: Mapping[str, Mapping[int, int]] | None = None  # of the first epoch: where it starts to read
    settled: int | None = None  # up to when silence means something, where rows that were received may be hidden

    def to_json(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "received": self.received,
            "positions": _plain(self.positions),
            "watermarks": {source: list(pair) for source, pair in self.watermarks.items()},
            "memory": self.memory,
            "final": self.final,
            **({} if self.begin is None else {"begin": _plain(self.begin)}),
            **({} if self.settled is None else {"settled": self.settled}),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Plan:
        return cls(
            epoch=plain["epoch"],
            received=plain["received"],
            positions=_numbered(plain["positions"]),
            watermarks={source: (pair[0], pair[1]) for source, pair in plain["watermarks"].items()},
            memory=plain["memory"],
            final=plain["final"],
            begin=_numbered(plain["begin"]) if "begin" in plain else None,
            settled=plain.get("settled"),
        )


def _plain(positions: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in positions.items()}


def _numbered(plain: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in plain.items()}


@dataclass(frozen=True)
class Limit:
    """What an epoch takes of a backlog, about: it ends behind the frame that reaches one of them."""

    rows: int = 500_000
    size: int = 256 << 20  # bytes


UNLIMITED = Limit(sys.maxsize, sys.maxsize)
