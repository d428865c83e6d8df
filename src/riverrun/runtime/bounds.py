"""How far the planner of a home may read: positions in small files, put there by whoever drives it."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun import durable
from riverrun.position import Position


def until(home: str) -> str:
    """The file with the positions where a rebuild stops, while it is one."""
    return f"{home}/until"


def together(home: str) -> str:
    """The file with the positions that the first epoch after a rebuild reads up to."""
    return f"{home}/together"


def read_positions(path: str) -> Position | None:
    """What `write_positions` wrote; None when there is nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            return Position.parse(file.read())
    except FileNotFoundError:
        return None


def write_positions(path: str, positions: Mapping[str, Mapping[int, int]]) -> None:
    """Readers see the old positions or the new ones."""
    durable.write_file(path, str(Position(positions)))
