"""What a run of a flow refuses before it starts: what cannot be gone on with, or would not be right."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun import ddl
from riverrun.errors import Conflict, Corrupt, did_you_mean
from riverrun.flow.graph import InputTopic
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.job import Job
from riverrun.runtime.manifest import Manifest
from riverrun.views import Last, Store

ANEW = "Run it under another name, or replay into other outputs with suffix="


def resumable(flow: str, store: Store, checkpoint: Checkpoint, inputs: Mapping[str, Topic]) -> Manifest | None:
    """What the flow's last epoch left, None before the first. Refused: a checkpoint that does not fit the views, a flow
    that was drained, other topics than before, and a position that its topic does not hold (any more)."""
    while True:
        last = store.last(flow)
        try:
            checkpoint.check(last)
            break
        except (Conflict, Corrupt):
            if store.last(flow).epoch == last.epoch:  # else somebody runs the flow, and was faster
                raise
    refuse_drained(flow, last, inputs)
    if last.epoch == 0 or last.manifest is None:
        return None
    if set(last.positions) != set(inputs):
        raise Conflict(
            f"flow {flow} reads {', '.join(sorted(inputs))} now;"
            f" its views were computed from {', '.join(sorted(last.positions))}",
            hint=ANEW,
        )
    for name, topic in inputs.items():
        topic.check_range(last.positions[name], topic.earliest[name], topic.latest[name])
    return Manifest.decode(last.manifest)


def refuse_drained(flow: str, last: Last, inputs: Mapping[str, Topic]) -> None:
    """A drained flow may be asked for its status; it takes in nothing more."""
    if last.manifest is None or not Manifest.decode(last.manifest).final:
        return
    behind = [name for name, topic in inputs.items() if not topic.latest <= last.positions]
    if behind:
        raise Conflict(
            f"flow {flow} was drained: its input was declared finished, and {', '.join(behind)} has new rows",
            hint="Rebuild it to take in new rows, or replay into other outputs with suffix=",
        )


def refuse_changed(flow: str, known: Manifest | None, job: Job) -> None:
    """State belongs to the node that it was computed for."""
    if known is None:
        return
    now = {operator.id: operator.fingerprint for stage in job.stages for operator in stage}
    changed = sorted(node for node, print_ in now.items() if known.fingerprints.get(node, print_) != print_)
    fresh = sorted(node for node in now if node not in known.fingerprints)
    if changed or fresh:
        raise Conflict(f"flow {flow} has changed since its last epoch: {', '.join([*changed, *fresh])}", hint=ANEW)


def check_declared(declared: InputTopic, spec: TopicSpec) -> None:
    """`Conflict` when a flow says something else about a topic than the topic itself. A topic may have more columns."""
    assert isinstance(spec.schema, str)
    there = {column.name: column.type for column in ddl.parse(spec.schema)}
    for column in ddl.parse(declared.schema):
        if column.name not in there:
            hint = did_you_mean(column.name, there)
            raise Conflict(f"{declared.place}: topic {spec.name} has no column {column.name!r}", hint=hint)
        if there[column.name] != column.type:
            raise Conflict(
                f"{declared.place}: column {column.name!r} of topic {spec.name} is {there[column.name]}, not {column.type}"
            )
    if declared.key and tuple(declared.key) != tuple(spec.key):
        raise Conflict(f"{declared.place}: the key of topic {spec.name} is {list(spec.key)}, not {list(declared.key)}")
