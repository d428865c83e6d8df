"""A flow's graph laid out from left to right: columns by distance from the sources, few crossings, no line through a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

WIDTH, HEIGHT, ACROSS, BETWEEN, MARGIN = 168, 64, 80, 24, 8
_LANE = 16  # what a line takes that passes a column
_SWEEPS = 8

Edge = tuple[str, str]


@dataclass(frozen=True)
class BoxCorner:
    """Where a node's box is; its upper left corner."""

    x: float
    y: float


@dataclass(frozen=True)
class GraphLayout:
    """Boxes by node, paths by edge, and the size of the whole."""

    places: Mapping[str, BoxCorner]
    paths: Mapping[Edge, str]
    width: float
    height: float


@dataclass(frozen=True)
class _Lane:
    """A place in a column that an edge passes."""

    edge: Edge
    column: int


_Item = str | _Lane


@lru_cache(maxsize=16)
def lay_out(nodes: tuple[str, ...], edges: tuple[Edge, ...]) -> GraphLayout:
    """Place nodes of a graph without cycles; `nodes` in an order in which inputs come first."""
    column = _columns(nodes, edges)
    ways: dict[Edge, list[_Item]] = {}
    for start, end in edges:
        lanes = [_Lane((start, end), number) for number in range(column[start] + 1, column[end])]
        ways[start, end] = [start, *lanes, end]
    above: dict[_Item, list[_Item]] = {}
    below: dict[_Item, list[_Item]] = {}
    for way in ways.values():
        for one, other in pairwise(way):
            above.setdefault(other, []).append(one)
            below.setdefault(one, []).append(other)
    columns: list[list[_Item]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for node in nodes:
        columns[column[node]].append(node)
    for way in ways.values():
        for item in way[1:-1]:
            assert isinstance(item, _Lane)
            columns[item.column].append(item)
    _order(columns, above, below)
    top = _tops(columns, above)
    places = {
        node: BoxCorner(MARGIN + column[node] * (WIDTH + ACROSS), MARGIN + top[node] - min(top.values()))
        for node in nodes
    }
    lowest = min(top.values(), default=0.0)
    height = max((top[item] + _height(item) for item in top), default=0.0) - lowest + 2 * MARGIN
    paths = {edge: _path(way, places, top, lowest) for edge, way in ways.items()}
    return GraphLayout(places, paths, 2 * MARGIN + len(columns) * (WIDTH + ACROSS) - ACROSS, height)


def _columns(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    above = {node: [a for a, b in edges if b == node] for node in nodes}
    below = {node: [b for a, b in edges if a == node] for node in nodes}
    column: dict[str, int] = {}
    for node in nodes:
        column[node] = max((column[one] + 1 for one in above[node]), default=0)
    last = max(column.values(), default=0)
    for node in nodes:
        if not above[node] and below[node]:  # a source stands right before the first that needs it
            column[node] = min(column[one] for one in below[node]) - 1
        elif not below[node] and above[node]:
            column[node] = last  # ends stand in one line, where the eye looks for results
    return column


def _order(columns: list[list[_Item]], above: Mapping[_Item, list[_Item]], below: Mapping[_Item, list[_Item]]) -> None:
    """Sort every column by the middle of its neighbours, from left to right and back, a few times."""
    rank = {item: float(place) for group in columns for place, item in enumerate(group)}
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for group in columns if sweep % 2 == 0 else reversed(columns):
            wanted = {item: _middle([rank[one] for one in near.get(item, ())], rank[item]) for item in group}
            group.sort(key=lambda item, wanted=wanted: (wanted[item], rank[item]))  # type: ignore[misc]
            rank.update({item: float(place) for place, item in enumerate(group)})


def _tops(columns: list[list[_Item]], above: Mapping[_Item, list[_Item]]) -> dict[_Item, float]:
    """As near to their inputs as there is room. Those that have to move aside do so together, up and down alike."""
    top: dict[_Item, float] = {}
    for group in columns:
        placed: dict[_Item, float] = {}
        moved: list[float] = []
        free = floor = 0.0
        for item in group:
            half = _height(item) / 2
            centres = [top[one] + _height(one) / 2 for one in above.get(item, ())]
            ideal = _middle(centres, floor + half) - half
            placed[item] = max(ideal, free) if placed else ideal
            moved += [placed[item] - ideal] if centres else []
            free = floor = placed[item] + _height(item) + BETWEEN
        shift = _middle(moved, 0.0)
        top.update({item: place - shift for item, place in placed.items()})
    return top


def _height(item: _Item) -> float:
    return _LANE if isinstance(item, _Lane) else HEIGHT


def _middle(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _path(way: list[_Item], places: Mapping[str, BoxCorner], top: Mapping[_Item, float], lowest: float) -> str:
    """From the right side of one box to the left side of another, straight through the lanes between."""
    start = places[str(way[0])]
    x, y = start.x + WIDTH, start.y + HEIGHT / 2
    drawn = f"M{x:g} {y:g}"
    for item in way[1:]:
        if isinstance(item, _Lane):
            at = BoxCorner(MARGIN + item.column * (WIDTH + ACROSS), MARGIN + top[item] - lowest)
        else:
            at = places[item]
        end = at.y + _height(item) / 2
        drawn += f"C{x + ACROSS / 2:g} {y:g} {at.x - ACROSS / 2:g} {end:g} {at.x:g} {end:g}"
        x, y = at.x, end
        if isinstance(item, _Lane):
            x += WIDTH
            drawn += f"H{x:g}"
    return drawn
