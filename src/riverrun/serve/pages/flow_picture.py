"""A flow as boxes and lines: from its declaration where it runs here, else from what the store knows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from riverrun.serve.pages.edge_rates import measure_edges
from riverrun.serve.pages.flow_health import BEHIND, BUSY, OK, STOPPED, UNKNOWN, WAITING, judge
from riverrun.serve.pages.history import FlowHistory, History, declared_sources

if TYPE_CHECKING:
    from riverrun.flow import Flow

SOURCE, OPERATOR, VIEW, TOPIC, ALERT = "source", "operator", "view", "topic", "alert"
_SHAPE = {"view": VIEW, "topic": TOPIC, "alert": ALERT}
_QUIET = (STOPPED, WAITING, UNKNOWN)


@dataclass(frozen=True)
class Box:
    """A node. `name` is what the ledger and the status call it; `target` the topic or view it stands for."""

    id: str
    shape: str
    title: str
    label: str
    state: str
    word: str
    target: str | None = None
    place: str | None = None
    described: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeLine:
    """An edge, with the rows per second that go along it where that is known; into a view, those that change."""

    start: str
    end: str
    rate: float | None


@dataclass(frozen=True)
class Picture:
    """All of a flow."""

    boxes: tuple[Box, ...]
    lines: tuple[EdgeLine, ...]


def picture_flow(history: History, past: FlowHistory) -> Picture:
    """The flow as it is now."""
    graph = history.graph(past.name)
    return _picture_declared(history, past, graph) if graph else _picture_stored(history, past)


def _picture_declared(history: History, past: FlowHistory, graph: Flow) -> Picture:
    suffix = past.name.removeprefix(graph.name)
    said = graph.to_json()
    sources = {id: source.topic for id, source in declared_sources(graph).items()}
    titles = _name_nodes(graph, {node["id"]: node.get("name") for node in said["nodes"]})
    boxes = []
    for node in said["nodes"]:
        topic = sources.get(node["id"])
        state, word = _judge_source(past, node["id"], topic) if topic else _judge_flow(past)
        boxes.append(
            Box(
                id=node["id"],
                shape=SOURCE if topic else OPERATOR,
                title=node["name"] or topic or titles[node["id"]],
                label=node["label"],
                state=state,
                word=word,
                target=topic,
                place=f"{node['file']}:{node['line']}",
                described=node,
            )
        )
    for end in said["ends"]:
        state, word = _judge_flow(past)
        target = end["name"] + suffix if end["kind"] != "alert" else f"{past.name}.alerts.{end['name']}"
        place = f"{end['file']}:{end['line']}"
        boxes.append(Box(end["id"], _SHAPE[end["kind"]], end["name"], end["kind"], state, word, target, place, end))
    rates = measure_edges(history, past, graph)
    edges = [(edge["from"], edge["to"]) for edge in said["edges"]]
    return Picture(tuple(boxes), tuple(EdgeLine(*edge, rates.get(edge)) for edge in edges))


def _name_nodes(graph: Flow, given: Mapping[str, str | None]) -> dict[str, str]:
    """What people call the nodes: the name they gave, else what they wrote; numbered where several would be called alike."""
    named = {node.id: given[node.id] or node.word or node.kind for node in graph.nodes}
    often, seen = Counter(named.values()), Counter[str]()
    titles = {}
    for id, name in named.items():
        seen[name] += 1
        titles[id] = f"{name} {seen[name]}" if often[name] > 1 else name
    return titles


def _picture_stored(history: History, past: FlowHistory) -> Picture:
    """Topics, the flow as one box, and its views."""
    name = past.name
    state, word = _judge_flow(past)
    boxes = [Box(f"flow {name}", OPERATOR, name, "flow", state, word)]
    lines = []
    for topic in past.status.lag.topics:
        boxes.insert(0, Box(f"topic {topic}", SOURCE, topic, "topic", *_judge_topic(past, topic), target=topic))
        lines.append(EdgeLine(f"topic {topic}", f"flow {name}", history.topic_rate(topic)))
    for view in _views(history, name):
        boxes.append(Box(f"view {view}", VIEW, view, "view", state, word, target=view))
        lines.append(EdgeLine(f"flow {name}", f"view {view}", past.view_rate(view)))
    return Picture(tuple(boxes), tuple(lines))


def _views(history: History, flow: str) -> Iterator[str]:
    if history.backend.has_views():
        yield from (spec.name for spec in history.backend.store().views() if spec.flow == flow)


def _judge_flow(past: FlowHistory) -> tuple[str, str]:
    health = judge(past.status)
    return (health.kind, health.word) if health.kind in _QUIET else (OK, "ok")


def _judge_source(past: FlowHistory, source: str, topic: str) -> tuple[str, str]:
    kind, word = _judge_topic(past, topic)
    timeless = any(one.source == source and one.watermark is None for one in past.status.sources)
    return (OK, "no time yet") if kind == OK and timeless and past.status.state == "running" else (kind, word)


def _judge_topic(past: FlowHistory, topic: str) -> tuple[str, str]:
    health, lag = judge(past.status), past.status.lag
    if health.kind in _QUIET:
        return health.kind, health.word
    return (BUSY, "behind") if lag.topics.get(topic, 0) and lag.seconds >= BEHIND else (OK, "ok")
