"""Position: how far something has come in each partition of each topic.

>>> p = Position.parse("orders@0:17,1:4;users@0:3")
>>> p["orders"][0], str(p)
(17, 'orders@0:17,1:4;users@0:3')
>>> Position.parse("orders@0:17") <= p
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from riverrun.errors import Invalid

_PART = re.compile(r"([A-Za-z0-9._-]{1,200})@((?:[0-9]{1,9}:[0-9]{1,18})(?:,[0-9]{1,9}:[0-9]{1,18})*)")


class Position(Mapping[str, Mapping[int, int]]):
    """An immutable {topic: {partition: next offset}}. Everything before the offsets is covered.

    A partition that is not named is covered up to 0, so positions are partially ordered: `a <= b` when `b` is at least
    as far in every partition that `a` names. `a | b` is the furthest of both.
    """

    __slots__ = ("_topics",)

    def __init__(self, topics: Mapping[str, Mapping[int, int]] | None = None) -> None:
        self._topics = {
            topic: dict(sorted((int(p), int(offset)) for p, offset in partitions.items()))
            for topic, partitions in sorted((topics or {}).items())
        }

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `str()` printed."""
        if not isinstance(text, str):
            raise Invalid(f"not a position: {text!r}", hint='Give a string such as "orders@0:17,1:4"')
        topics: dict[str, dict[int, int]] = {}
        for part in filter(None, text.strip().split(";")):
            found = _PART.fullmatch(part.strip())
            if not found or found[1] in topics:
                raise Invalid(f"not a position: {text!r}", hint='A position looks like "orders@0:17,1:4"')
            topics[found[1]] = {int(p): int(o) for p, o in (pair.split(":") for pair in found[2].split(","))}
        return cls(topics)

    def __getitem__(self, topic: str) -> Mapping[int, int]:
        return self._topics[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __str__(self) -> str:
        return ";".join(
            f"{topic}@" + ",".join(f"{p}:{offset}" for p, offset in partitions.items())
            for topic, partitions in self._topics.items()
            if partitions
        )

    def __repr__(self) -> str:
        return f"Position.parse({str(self)!r})"

    def _flat(self) -> dict[tuple[str, int], int]:
        return {(t, p): offset for t, partitions in self._topics.items() for p, offset in partitions.items() if offset}

    def __le__(self, other: Mapping[str, Mapping[int, int]]) -> bool:
        return all(offset <= other.get(t, {}).get(p, 0) for (t, p), offset in self._flat().items())

    def __ge__(self, other: Mapping[str, Mapping[int, int]]) -> bool:
        return Position(other) <= self

    def __lt__(self, other: Mapping[str, Mapping[int, int]]) -> bool:
        return self <= other and self != other

    def __gt__(self, other: Mapping[str, Mapping[int, int]]) -> bool:
        return self >= other and self != other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._flat() == Position(other)._flat()

    def __hash__(self) -> int:
        return hash(frozenset(self._flat().items()))

    def __or__(self, other: Mapping[str, Mapping[int, int]]) -> Position:
        merged = {topic: dict(partitions) for topic, partitions in self.items()}
        for topic, partitions in other.items():
            mine = merged.setdefault(topic, {})
            for p, offset in partitions.items():
                mine[p] = max(mine.get(p, 0), offset)
        return Position(merged)
