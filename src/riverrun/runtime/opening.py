"""What a run opens before its first epoch: the topics it reads and those it writes, which learn who may write to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from riverrun.errors import Conflict, Fenced
from riverrun.flow import Flow
from riverrun.flow.graph import InputTopic
from riverrun.log.spec import TopicSpec, Unset
from riverrun.log.topic import Start, Topic
from riverrun.river import River
from riverrun.runtime import bounds
from riverrun.runtime.admission import check_declared, check_rule_tables, refuse_unusable
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.compile.job import Job
from riverrun.runtime.heritage import raise_fence
from riverrun.runtime.manifest import Manifest
from riverrun.runtime.outputs import output_specs
from riverrun.views import Last, Store


def open_inputs(river: River, flow: Flow) -> dict[str, Topic]:
    """The topics the flow reads. All that it declares are made where they are missing; what it says of one that is there
    must be so."""
    refuse_unusable(flow)
    opened = {}
    there = set(river.topics())
    for name, declared in flow.topics().items():
        opened[name] = topic = river.topic(TopicSpec(name) if name in there else topic_of(declared))
        check_declared(declared, topic.spec)
    check_rule_tables(flow, {name: topic.spec for name, topic in opened.items()})
    return {name: opened[name] for name in flow.inputs}


def beginning(inputs: Mapping[str, Topic], start: Start) -> dict[str, dict[int, int]] | None:
    """Where a new flow begins to read; None: where each topic begins."""
    if start is None or start == "earliest":
        return None
    return {name: topic.offsets(start) for name, topic in inputs.items()}


def open_outputs(river: River, flow: Flow, job: Job, inputs: Mapping[str, Topic], suffix: str) -> dict[str, Topic]:
    """The topics the flow writes."""
    return {spec.name: river.topic(spec) for spec in output_specs(flow, job, inputs, suffix)}


def shut_out(flow: str, store: Store, topics: Collection[Topic]) -> int:
    """The flow's next fence, known to the store and to every topic: no older run of the flow can write from now on."""
    if not store.last(flow).epoch:
        raise_fence(flow, store, topics)
    fence = store.take_fence(flow)
    for topic in topics:
        try:
            topic.raise_fence(flow, fence)
        except Fenced as error:
            store.check_fence(flow, fence)  # names the run that was started just now, if it was one
            raise _written_before(topic, flow, error.message) from None
    return fence


def check_written(flow: str, last: Last, home: str, topics: Iterable[Topic]) -> None:
    """Refuse to write epochs that a topic has already, of views and a checkpoint that are gone: it would not take them."""
    newest = Checkpoint(home, flow).planned + _base(last)
    if bounds.read_positions(bounds.together(home)) is not None:
        newest += 1  # topics have had it from before a rebuild; it is planned again
    for topic in topics:
        written = topic.last_sequence(flow) or 0
        if written > newest:
            raise _written_before(topic, flow, f"it has epoch {written}, the newest that is known is {newest}")


def mend_checkpoint(flow: str, last: Last, home: str, topics: Iterable[Topic]) -> None:
    """Put in order what a power cut left of the checkpoint. Older runs are shut out by now."""
    newest = last.epoch + _base(last)
    together = bounds.read_positions(bounds.together(home))
    if together is not None and not together <= last.positions:
        newest += 1  # that one is planned again with just the rows it had
    begun = any((topic.last_sequence(flow) or 0) > newest for topic in topics)
    Checkpoint(home, flow).mend(last, begun)


def _base(last: Last) -> int:
    return Manifest.decode(last.manifest).base if last.manifest else 0


def _written_before(topic: Topic, flow: str, why: str) -> Conflict:
    return Conflict(
        f"topic {topic.name} was written by flow {flow} before its views were removed: {why}",
        hint="Restore the views that belong to it. Or remove the view store: then they are computed from the log again, and"
        " the topic goes on behind what it has",
    )


def topic_of(declared: InputTopic) -> TopicSpec:
    """A topic that is to be made for a flow: as its rr.TopicSpec says, where the flow was given one, and as the flow says."""
    spec = declared.described if isinstance(declared.described, TopicSpec) else TopicSpec(declared.name)
    if declared.enveloped and isinstance(spec.null_keys, Unset):
        spec = replace(spec, null_keys=True)  # as messages have that are about no row
    return replace(
        spec,
        schema=declared.schema,
        key=declared.key or spec.key,
        time=declared.time or spec.time,
        producers=declared.producers or spec.producers,
    )
