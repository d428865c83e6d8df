"""Input positions as stores keep them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from riverrun.errors import Invalid
from riverrun.position import Position

Positions = Mapping[str, Mapping[int, int]]


def as_position(value: Positions | str) -> Position:
    """The position somebody means: one, its text, or a plain dictionary."""
    if isinstance(value, Position):
        return value
    if isinstance(value, str):
        return Position.parse(value)
    if not isinstance(value, Mapping):
        raise Invalid(f"not a position: {value!r}", hint='Give what append returned, or write "orders@0:17,1:4"')
    return Position(value)


def to_json(positions: Positions) -> str:
    """A position as JSON, topics and partitions in order.

    >>> to_json({"orders": {1: 4, 0: 17}})
    '{"orders":{"0":17,"1":4}}'
    """
    plain = {topic: {str(p): at for p, at in parts.items()} for topic, parts in Position(positions).items()}
    return msgspec.json.encode(plain).decode()


def from_json(text: str) -> Position:
    """The way back from `to_json`."""
    return Position(msgspec.json.decode(text, type=dict[str, dict[int, int]]))
