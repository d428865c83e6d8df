"""What would happen if a flow were run now: which state is kept, which is computed again, and what stands in the way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from riverrun import ddl
from riverrun.errors import RiverrunError
from riverrun.flow import Flow
from riverrun.flow.analysis import topics_below
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.river import River
from riverrun.runtime.admission import admitted, check_declared, check_rule_tables, refuse_unusable
from riverrun.runtime.bucket_owner import refuse_foreign
from riverrun.runtime.compile.engines import plan_engines
from riverrun.runtime.heritage import GONE, was_left
from riverrun.runtime.manifest import Manifest, computation
from riverrun.runtime.status import ComputedBy
from riverrun.settings import Settings
from riverrun.views import Last, ViewSpec, identity_of_none

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
    name: str | None = None  # what the flow calls it


@dataclass(frozen=True)
class ViewPlan:
    """What becomes of a view, and of its columns and key: `+` there will be, `-` there will not be any more, `~` of another
    type."""

    view: str
    fate: Fate
    differences: list[str]


@dataclass(frozen=True)
class FlowPlan:
    """What a run would do: it `starts`, `resumes` behind its last epoch, `rebuilds` the views, or is `refused`, and why."""

    flow: str
    epoch: int
    run: What
    reason: str | None
    nodes: list[NodePlan]
    views: list[ViewPlan]
    expressions: list[ComputedBy]


def plan_flow(flow: Flow, river: River | None) -> FlowPlan:
    """The plan of a flow for a river, None for one that is not there yet. Looking changes nothing."""
    inputs = _inputs(flow, river)
    last = Last(0, 0, Position())
    run: What = "starts"
    reason = None
    # To look into a store that is not there would make it.
    there = river is not None and ("://" in river.views_address or os.path.exists(river.views_address))
    try:
        if river is not None and there:
            last = river.store.last(flow.name)
        refuse_unusable(flow)
        if river is not None:
            for name, topic in inputs.items():
                check_declared(flow.topics()[name], topic.spec)
            check_rule_tables(flow, {name: topic.spec for name, topic in inputs.items()})
            if there:
                shards = river.settings.shards
                anew = admitted(flow.name, flow, river.store, river.checkpoints, inputs, shards=shards).anew
            else:  # a run finds it empty
                refuse_foreign(river.checkpoints, lambda: identity_of_none(river.views_address))
                anew = GONE if was_left(river.checkpoints, flow.name, last) else None
            run = "rebuilds" if anew else "resumes" if last.epoch else "starts"
            if anew:
                reason = f"flow {flow.name} {anew}: its views are computed from the log again"
    except RiverrunError as error:
        run, reason = "refused", str(error)
    engine = river.settings.expressions if river is not None else Settings.load().expressions
    nodes = list(_nodes(flow, last, inputs, run))
    stored = {spec.name: spec for spec in river.store.views() if spec.flow == flow.name} if river and last.epoch else {}
    views = list(_views(flow, last, stored))
    return FlowPlan(flow.name, last.epoch, run, reason, nodes, views, plan_engines(flow, engine))


def _inputs(flow: Flow, river: River | None) -> dict[str, Topic]:
    """The topics that it reads, as far as they are there."""
    if river is None:
        return {}
    there = set(river.topics())
    return {name: river.topic(name) for name in flow.inputs if name in there}


def _nodes(flow: Flow, last: Last, inputs: dict[str, Topic], run: What) -> Iterator[NodePlan]:
    before = _fingerprints(last)
    names = flow.graph.names
    nodes = {node.id: node for node in flow.nodes}
    views = {view.id: view for view in flow.views.values()}
    now = computation(flow)
    kept = "state computed again with the others" if run == "rebuilds" else "state kept"
    for name, fingerprint in now.items():
        node, place = (nodes[name], nodes[name].place) if name in nodes else (views[name].node, views[name].place)
        if before.get(name) == fingerprint:
            if name in nodes:
                yield NodePlan(name, "unchanged", str(place), kept, names.get(name))
            continue
        if name in views and (not before or (node.id in now and before.get(node.id) != now[node.id])):
            continue  # its node says it
        removed = [topic for topic in topics_below(node) if topic in inputs and _begins_later(inputs[topic])]
        if removed and last.epoch:
            note = f"the beginning of {', '.join(removed)} was removed by retention"
            yield NodePlan(name, "refused", str(place), note, names.get(name))
        else:
            note = "not computed, the run is refused" if run == "refused" else "computed from the log"
            yield NodePlan(name, "changed" if name in before else "new", str(place), note, names.get(name))
    for name in sorted(set(before) - set(now)):
        yield NodePlan(name, "gone", None, "no longer kept up" if name.startswith("view-") else "state dropped")


def _views(flow: Flow, last: Last, stored: Mapping[str, ViewSpec]) -> Iterator[ViewPlan]:
    before, now = _fingerprints(last), computation(flow)
    for name, view in flow.views.items():
        if view.id not in before:
            yield ViewPlan(name, "new", [])
            continue
        node = view.node
        columns = {column: str(kind or "unknown") for column, kind in node.schema.columns}
        differences = _differences(stored[name], columns, view.key) if name in stored else []
        same = before[view.id] == now[view.id] and before.get(node.id) == now.get(node.id)
        yield ViewPlan(name, "unchanged" if same and not differences else "changed", differences)
    for id in sorted(set(before) - set(now)):
        if id.startswith("view-"):
            yield ViewPlan(id.removeprefix("view-"), "gone", [])


def _differences(stored: ViewSpec, now: Mapping[str, str], key: tuple[str, ...]) -> list[str]:
    """What is different about columns and key. Of which nobody knows the type before Spark runs, it may be the same."""
    before = {column.name: str(column.type) for column in ddl.parse(stored.shown_schema)}
    found = [f"+ {name} {kind}" for name, kind in now.items() if name not in before]
    found += [f"- {name} {kind}" for name, kind in before.items() if name not in now]
    found += [
        f"~ {name} {kind}, was {before[name]}"
        for name, kind in now.items()
        if name in before and kind not in ("unknown", before[name])
    ]
    shown, was = ([name for name in names if not name.startswith("_")] for names in (key, stored.key))
    return found if shown == was else [*found, f"~ key {', '.join(shown)}, was {', '.join(was)}"]


def _fingerprints(last: Last) -> Mapping[str, str]:
    return Manifest.decode(last.manifest).fingerprints if last.manifest else {}


def _begins_later(topic: Topic) -> bool:
    return any(offset > 0 for offset in topic.begins().values())
