"""What follows from a flow's graph: the topics it reads, how far watermarks lag, how long time alone changes results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from riverrun.flow.operators.clock import ClockCorrection
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.source import Source


def below(node: Node) -> Iterator[Node]:
    """A node and everything it is computed from, each once."""
    seen = {node.id}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        for part in one.inputs:
            if part.id not in seen:
                seen.add(part.id)
                waiting.append(part)


def sources(nodes: Sequence[Node]) -> list[Source]:
    """Those of the nodes that read a topic."""
    return [node for node in nodes if isinstance(node, Source)]


def topics_below(node: Node) -> set[str]:
    """The topics a node is computed from."""
    return {source.topic for source in sources(list(below(node)))}


def depth(node: Node) -> int:
    """The stage of a node, from 1: how many stateful nodes its rows pass, itself included."""
    stages = (depth(part) for number, part in enumerate(node.inputs) if not node.reads_versions(number))
    return max(stages, default=0) + node.stateful


def lags(node: Node) -> dict[str, int]:
    """For each node below whose watermark is planned, how far this node's watermark lags that one's, in microseconds.

    The node's watermark is the smallest of (planned watermark − lag), if no node below holds it back.
    """
    return _lags(node, frozenset())


def followed(node: Node) -> dict[str, int]:
    """The same, and in the place of what is below a node that holds its watermark back, that node."""
    return _lags(node, frozenset(part.id for part in below(node) if part.holds_watermark))


def _lags(node: Node, holding: frozenset[str]) -> dict[str, int]:
    if node.plans_watermark:
        return {node.id: 0}
    worst: dict[str, int] = {}
    for part in node.timed_by:
        reached = {root: lag + part.delay for root, lag in _lags(part, holding).items()}
        for root, lag in ({part.id: 0} if part.id in holding else reached).items():
            worst[root] = max(worst.get(root, 0), lag)
    return worst


def holds(node: Node) -> dict[str, int]:
    """For each node below whose watermark is planned, how long after a row of it time alone may change something here."""
    if node.plans_watermark:
        return {node.id: 0}
    longest: dict[str, int] = {}
    for part in node.timed_by:
        for root, held in holds(part).items():
            longest[root] = max(longest.get(root, 0), held + node.hold)
    return longest


def clocks(source: Source, nodes: Sequence[Node]) -> list[ClockCorrection]:
    """The corrections of a source's clock."""
    return [node for node in nodes if isinstance(node, ClockCorrection) and source in below(node)]
