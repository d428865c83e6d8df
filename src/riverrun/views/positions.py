"""Input positions as plain data: {topic: {partition: next offset}}.

>>> read_positions("orders@0:17,1:4;users@0:3")
{'orders': {0: 17, 1: 4}, 'users': {0: 3}}
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from riverrun.errors import Invalid

Positions = Mapping[str, Mapping[int, int]]


def read_positions(value: Positions | str) -> dict[str, dict[int, int]]:
    """Plain dictionaries of a position, or of its text."""
    if isinstance(value, str):
        return _parse(value)
    if not isinstance(value, Mapping):
        raise Invalid(f"not a position: {value!r}", hint='Write "orders@0:17,1:4" or give what append returned')
    return {str(topic): {int(part): int(at) for part, at in parts.items()} for topic, parts in value.items()}


def _parse(text: str) -> dict[str, dict[int, int]]:
    positions: dict[str, dict[int, int]] = {}
    try:
        for piece in filter(None, text.strip().split(";")):
            topic, at, offsets = piece.rpartition("@")
            if not at:
                raise ValueError(piece)
            pairs = (pair.split(":") for pair in filter(None, offsets.split(",")))
            positions[topic] = {int(part): int(offset) for part, offset in pairs}
    except ValueError:
        raise Invalid(f"not a position: {text!r}", hint='Write "orders@0:17,1:4;users@0:3"') from None
    return positions


def covers(have: Positions, want: Positions) -> bool:
    """Whether everything before `want` lies before `have`; a partition that is not named counts as offset 0."""
    return all(have.get(topic, {}).get(part, 0) >= at for topic, parts in want.items() for part, at in parts.items())


def same(one: Positions, other: Positions) -> bool:
    """Whether two positions name the same place."""
    return covers(one, other) and covers(other, one)


def to_json(positions: Positions) -> str:
    """One text for one place: topics and partitions sorted, offsets of 0 left out."""
    plain = {
        topic: {str(part): at for part, at in sorted(parts.items()) if at}
        for topic, parts in sorted(read_positions(positions).items())
    }
    return msgspec.json.encode(plain).decode()


def from_json(text: str) -> dict[str, dict[int, int]]:
    """The way back from `to_json`."""
    return msgspec.json.decode(text, type=dict[str, dict[int, int]])


def to_text(positions: Positions) -> str:
    """A position as people read and write it.

    >>> to_text({"users": {0: 3}, "orders": {1: 4, 0: 17}})
    'orders@0:17,1:4;users@0:3'
    """
    plain = read_positions(positions)
    return ";".join(
        f"{topic}@{','.join(f'{part}:{at}' for part, at in sorted(plain[topic].items()))}" for topic in sorted(plain)
    )
