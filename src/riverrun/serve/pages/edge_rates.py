"""Rows per second along the edges of a flow: what was counted, and what follows from that. Nothing is guessed.

Every edge out of a node carries all of its rows, so one that is counted tells of the others. A projection gives as many
rows as it gets, a union those of all its inputs. What a condition lets pass is known only from what comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from riverrun.serve.pages.history import FlowHistory, History

if TYPE_CHECKING:
    from riverrun.flow import Flow
    from riverrun.flow.operators.node import Node

Edge = tuple[str, str]


def measure_edges(history: History, past: FlowHistory, graph: Flow) -> dict[Edge, float]:
    """Rows per second by edge, where they are known. Into a view go the rows of it that change."""
    given = _measure_nodes(past, graph)
    into = _measure_ends(history, past, graph)
    for end in graph.ends:
        if end.id in into and end.kind != "view" and not (end.node.is_table or end.node.retracts):
            given.setdefault(end.node.id, into[end.id])
    _follow(given, graph.nodes)
    edges = {(below.id, node.id): given[below.id] for node in graph.nodes for below in node.inputs if below.id in given}
    return edges | {(end.node.id, end.id): into[end.id] for end in graph.ends if end.id in into}


def _measure_nodes(past: FlowHistory, graph: Flow) -> dict[str, float]:
    """Rows per second that nodes give, from the ledger: what sources accepted, and what stateful nodes read of others."""
    from riverrun.flow.operators.source import StreamSource

    rates: dict[str, float | None] = {}
    for node in graph.nodes:
        if isinstance(node, StreamSource):
            rates[node.id] = past.accepted_rate(node.id, "topic")
        elif node.stateful:
            names = ("in",) if len(node.inputs) == 1 else ("left", "right")
            for below, input in zip(node.inputs, names, strict=False):
                rates[below.id] = past.rate(node.id, input)
    return {node: rate for node, rate in rates.items() if rate is not None}


def _measure_ends(history: History, past: FlowHistory, graph: Flow) -> dict[str, float]:
    suffix = past.name.removeprefix(graph.name)
    rates = {
        **{end.id: past.view_rate(end.name + suffix) for end in graph.views.values()},
        **{end.id: history.topic_rate(end.name + suffix) for end in graph.derived.values()},
        **{end.id: history.topic_rate(f"{past.name}.alerts.{end.name}") for end in graph.alerts.values()},
    }
    return {end: rate for end, rate in rates.items() if rate is not None}


def _follow(given: dict[str, float], nodes: list[Node]) -> None:
    """Add what follows from what is there, until nothing does any more."""
    from riverrun.flow.operators.rows import Drop, Select, Union, WithColumns

    before = -1
    while len(given) > before:
        before = len(given)
        for node in nodes:
            above = [below.id for below in node.inputs]
            if isinstance(node, Select | WithColumns | Drop | Union) and all(one in given for one in above):
                given.setdefault(node.id, sum(given[one] for one in above))
            if isinstance(node, Select | WithColumns | Drop) and node.id in given:
                given.setdefault(above[0], given[node.id])
