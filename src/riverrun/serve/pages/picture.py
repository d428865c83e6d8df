"""A flow as boxes and lines: from its declaration where it runs here, else from what the store knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from riverrun.serve.pages.health import BEHIND, BUSY, OK, STOPPED, UNKNOWN, WAITING, health
from riverrun.serve.pages.history import FlowHistory, History, declared_sources
from riverrun.serve.pages.rates import edge_rates

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


def picture(history: History, name: str, known: FlowHistory) -> Picture:
    """The flow as it is now."""
    graph = history.graph(name)
    return _declared(history, name, known, graph) if graph else _stored(history, name, known)


def _declared(history: History, name: str, known: FlowHistory, graph: Flow) -> Picture:
    suffix = name.removeprefix(graph.name)
    said = graph.to_json()
    sources = {id: source.topic for id, source in declared_sources(graph).items()}
    boxes = []
    for node in said["nodes"]:
        topic = sources.get(node["id"])
        state, word = _of_source(known, node["id"], topic) if topic else _of_flow(known)
        boxes.append(
            Box(
                id=node["id"],
                shape=SOURCE if topic else OPERATOR,
                title=topic or node["kind"],
                label=node["label"],
                state=state,
                word=word,
                target=topic,
                place=f"{node['file']}:{node['line']}",
                described=node,
            )
        )
    for end in said["ends"]:
        state, word = _of_flow(known)
        target = end["name"] + suffix if end["kind"] != "alert" else f"{name}.alerts.{end['name']}"
        place = f"{end['file']}:{end['line']}"
        boxes.append(Box(end["id"], _SHAPE[end["kind"]], end["name"], end["kind"], state, word, target, place, end))
    rates = edge_rates(history, name, known, graph)
    edges = [(edge["from"], edge["to"]) for edge in said["edges"]]
    return Picture(tuple(boxes), tuple(EdgeLine(*edge, rates.get(edge)) for edge in edges))


def _stored(history: History, name: str, known: FlowHistory) -> Picture:
    """Topics, the flow as one box, and its views."""
    status = known.status
    state, word = _of_flow(known)
    boxes = [Box(f"flow {name}", OPERATOR, name, "in another process", state, word)]
    lines = []
    for topic in status.get("lag", {}).get("topics", {}):
        boxes.insert(0, Box(f"topic {topic}", SOURCE, topic, "topic", *_of_lag(known, topic), target=topic))
        lines.append(EdgeLine(f"topic {topic}", f"flow {name}", history.topic_rate(topic)))
    for view in _views(history, name):
        boxes.append(Box(f"view {view}", VIEW, view, "view", state, word, target=view))
        lines.append(EdgeLine(f"flow {name}", f"view {view}", known.view_rate(view)))
    return Picture(tuple(boxes), tuple(lines))


def _views(history: History, flow: str) -> Iterator[str]:
    if history.backend.has_views():
        yield from (spec.name for spec in history.backend.store().views() if spec.flow == flow)


def _of_flow(known: FlowHistory) -> tuple[str, str]:
    judged = health(known.status)
    return (judged.kind, judged.word) if judged.kind in _QUIET else (OK, "ok")


def _of_source(known: FlowHistory, source: str, topic: str) -> tuple[str, str]:
    judged = _of_lag(known, topic)
    if judged[0] != OK:
        return judged
    marks = {one["source"]: one for one in known.status.get("sources", ())}
    if source in marks and marks[source]["watermark"] is None and known.status.get("state") == "running":
        return OK, "no time yet"
    return judged


def _of_lag(known: FlowHistory, topic: str) -> tuple[str, str]:
    judged = health(known.status)
    if judged.kind in _QUIET:
        return judged.kind, judged.word
    lag = known.status["lag"]
    waiting = lag["topics"].get(topic, 0)
    return (BUSY, "behind") if waiting and lag["seconds"] >= BEHIND else (OK, "ok")
