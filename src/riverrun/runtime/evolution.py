"""What would happen if a flow were run now: which state is kept, which is computed again, and what stands in the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from riverrun.errors import RiverrunError
from riverrun.flow import Flow
from riverrun.flow.analysis import topics_below
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.runtime.admission import admitted, check_declared, refuse_unusable
from riverrun.runtime.compile.engines import plan_engines
from riverrun.runtime.manifest import Manifest, computation
from riverrun.runtime.status import ComputedBy
from riverrun.settings import Settings
from riverrun.views import Last

Fate = Literal["unchanged", "new", "changed", "refused", "gone"]
What = Literal["starts", "resumes", "rebuilds", "refused"]


@dataclass(frozen=True)
class NodePlan:
    """A stateful node, or a view that changed by itself: `unchanged` ones keep their state; `new` and `changed` ones have
    to be computed from the log, the others with them, and are `refused` where the log no longer has it all; the state of
    a node that is `gone` is dropped."""

    node: str
    fate: Fate
    place: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class FlowPlan:
    """What a run would do: it `starts`, `resumes` behind its last epoch, `rebuilds` the views, or is `refused`, and why."""

    flow: str
    epoch: int
    run: What
    reason: str | None
    nodes: list[NodePlan]
    expressions: list[ComputedBy]


def plan_flow(flow: Flow, river: River | None) -> FlowPlan:
    """The plan of a flow for a river, None for one that is not there yet. Looking changes nothing."""
    inputs = _inputs(flow, river)
    last = Last(0, 0, {})  # type: ignore[arg-type]
    run: What = "starts"
    reason = None
    try:
        refuse_unusable(flow)
        if river is not None:
            for name, topic in inputs.items():
                check_declared(flow.topics()[name], topic.spec)
            if "://" in river.views_address or os.path.exists(river.views_address):
                last = river.store.last(flow.name)
                admission = admitted(flow.name, flow, river.store, river.checkpoints, inputs)
                run = "rebuilds" if admission.anew else "resumes" if last.epoch else "starts"
                if admission.anew:
                    reason = f"flow {flow.name} {admission.anew}: its views are computed from the log again"
    except RiverrunError as error:
        run, reason = "refused", str(error)
    engine = river.settings.expressions if river is not None else Settings.load().expressions
    nodes = list(_nodes(flow, last, inputs, run))
    return FlowPlan(flow.name, last.epoch, run, reason, nodes, plan_engines(flow, engine))


def _inputs(flow: Flow, river: River | None) -> dict[str, Topic]:
    """The topics that it reads, as far as they are there."""
    if river is None:
        return {}
    there = set(river.topics())
    return {name: river.topic(name) for name in flow.inputs if name in there}


def _nodes(flow: Flow, last: Last, inputs: dict[str, Topic], run: What) -> Iterator[NodePlan]:
    before = Manifest.decode(last.manifest).fingerprints if last.manifest else {}
    nodes = {node.id: node for node in flow.nodes}
    views = {view.id: view for view in flow.views.values()}
    now = computation(flow)
    kept = "state computed again with the others" if run == "rebuilds" else "state kept"
    for name, fingerprint in now.items():
        node, place = (nodes[name], nodes[name].place) if name in nodes else (views[name].node, views[name].place)
        if before.get(name) == fingerprint:
            if name in nodes:
                yield NodePlan(name, "unchanged", str(place), kept)
            continue
        if name in views and (not before or (node.id in now and before.get(node.id) != now[node.id])):
            continue  # its node says it
        removed = [topic for topic in topics_below(node) if topic in inputs and _begins_later(inputs[topic])]
        if removed and last.epoch:
            note = f"the beginning of {', '.join(removed)} was removed by retention"
            yield NodePlan(name, "refused", str(place), note)
        else:
            yield NodePlan(name, "changed" if name in before else "new", str(place), "computed from the log")
    for name in sorted(set(before) - set(now)):
        yield NodePlan(name, "gone", None, "no longer kept up" if name.startswith("view-") else "state dropped")


def _begins_later(topic: Topic) -> bool:
    return any(offset > 0 for offset in topic.begins().values())
