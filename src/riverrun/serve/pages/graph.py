"""A flow's graph laid out from left to right: columns by distance from the sources, few crossings, straight where it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, ACROSS, BETWEEN, MARGIN = 168, 64, 80, 24, 8


@dataclass(frozen=True)
class Place:
    """Where a node's box is; its upper left corner."""

    x: float
    y: float


@dataclass(frozen=True)
class Layout:
    """Boxes by node, and the size of the whole."""

    places: Mapping[str, Place]
    width: float
    height: float


def layout(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place nodes of a graph without cycles; `nodes` in an order in which inputs come first."""
    above = {node: [a for a, b in edges if b == node] for node in nodes}
    below = {node: [b for a, b in edges if a == node] for node in nodes}
    column: dict[str, int] = {}
    for node in nodes:
        column[node] = max((column[one] + 1 for one in above[node]), default=0)
    for node in reversed(nodes):  # a source stands right before the first that needs it
        if not above[node] and below[node]:
            column[node] = min(column[one] for one in below[node]) - 1
    last = max(column.values(), default=0)
    for node in nodes:
        if not below[node] and above[node]:
            column[node] = last  # ends stand in one line, where the eye looks for results
    columns = [[node for node in nodes if column[node] == number] for number in range(last + 1)]
    rank = {node: float(place) for nodes in columns for place, node in enumerate(nodes)}
    for sweep in range(8):
        near = above if sweep % 2 == 0 else below
        for group in columns if sweep % 2 == 0 else reversed(columns):
            group.sort(key=lambda node: (_middle([rank[one] for one in near[node]], rank[node]), rank[node]))
            rank.update({node: float(place) for place, node in enumerate(group)})
    return _placed(columns, above)


def _placed(columns: list[list[str]], above: Mapping[str, list[str]]) -> Layout:
    step = HEIGHT + BETWEEN
    top: dict[str, float] = {}
    for group in columns:
        wanted = [
            _middle([top[one] for one in above[node] if one in top], place * step) for place, node in enumerate(group)
        ]
        free = float("-inf")
        for node, ideal in zip(group, wanted, strict=True):
            top[node] = free = max(ideal, free)
            free += step
    first = min(top.values(), default=0.0)
    places = {
        node: Place(MARGIN + number * (WIDTH + ACROSS), MARGIN + top[node] - first)
        for number, group in enumerate(columns)
        for node in group
    }
    height = max((place.y for place in places.values()), default=0.0) + HEIGHT + MARGIN
    return Layout(places, 2 * MARGIN + len(columns) * (WIDTH + ACROSS) - ACROSS, height)


def _middle(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def curve(start: Place, end: Place) -> str:
    """The path of an edge, from the right side of one box to the left side of another."""
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT / 2
    bend = max((x2 - x1) / 2, 24)
    return f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
