"""What would happen if a flow were run now: which state is kept, which is new, and what stands in the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from riverrun.errors import RiverrunError
from riverrun.flow import Flow
from riverrun.flow.nodes import Node, Source
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.runtime.admission import ANEW, check_declared, resumable
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.manifest import Manifest
from riverrun.views import Last

Fate = Literal["unchanged", "new", "changed", "refused", "gone"]


@dataclass(frozen=True)
class NodePlan:
    """A stateful node: `unchanged` keeps its state; `new` and `changed` ones have to be computed from the log, and are
    `refused` where the log no longer has it all; the state of a node that is `gone` is dropped."""

    node: str
    fate: Fate
    place: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class FlowPlan:
    """What a run would do: it `starts`, `resumes` behind its last epoch, or is `refused`, and why."""

    flow: str
    epoch: int
    run: Literal["starts", "resumes", "refused"]
    reason: str | None
    nodes: list[NodePlan]


def plan_flow(flow: Flow, river: River | None) -> FlowPlan:
    """The plan of a flow for a river, None for one that is not there yet. Looking changes nothing."""
    inputs = _inputs(flow, river)
    last, known, reason = Last(0, 0, {}), None, None  # type: ignore[arg-type]
    if river is not None:
        try:
            for name, topic in inputs.items():
                check_declared(flow.topics()[name], topic.spec)
            if "://" in river.views_address or os.path.exists(river.views_address):
                last = river.store.last(flow.name)
                known = Manifest.decode(last.manifest) if last.manifest else None
                resumable(flow.name, river.store, Checkpoint(f"{river.checkpoints}/{flow.name}", flow.name), inputs)
        except RiverrunError as error:
            reason = str(error)
    nodes = list(_nodes(flow, known, inputs))
    other = [node.node for node in nodes if node.fate in ("new", "changed", "refused")]
    if reason is None and known is not None and other:
        reason = f"flow {flow.name} has changed since its last epoch: {', '.join(other)}. {ANEW}"
    return FlowPlan(
        flow.name, last.epoch, "refused" if reason else "resumes" if last.epoch else "starts", reason, nodes
    )


def _inputs(flow: Flow, river: River | None) -> dict[str, Topic]:
    """The topics that are there."""
    if river is None:
        return {}
    there = set(river.topics())
    return {name: river.topic(name) for name in flow.topics() if name in there}


def _nodes(flow: Flow, known: Manifest | None, inputs: dict[str, Topic]) -> Iterator[NodePlan]:
    before = known.fingerprints if known else {}
    nodes = {node.id: node for node in flow.nodes}
    now = flow.fingerprint()
    for node, fingerprint in now.items():
        place = str(nodes[node].place)
        if before.get(node) == fingerprint:
            yield NodePlan(node, "unchanged", place, "state kept")
            continue
        removed = [topic for topic in _topics(nodes[node]) if topic in inputs and _begins_later(inputs[topic])]
        if removed:
            yield NodePlan(node, "refused", place, f"the beginning of {', '.join(removed)} was removed by retention")
        else:
            yield NodePlan(node, "changed" if node in before else "new", place, "computed from the log")
    for node in sorted(set(before) - set(now)):
        yield NodePlan(node, "gone", None, "state dropped")


def _topics(node: Node) -> set[str]:
    """The topics a node is computed from."""
    if isinstance(node, Source):
        return {node.topic}
    return {topic for below in node.inputs for topic in _topics(below)}


def _begins_later(topic: Topic) -> bool:
    return any(offset > 0 for offset in topic.earliest[topic.name].values())
