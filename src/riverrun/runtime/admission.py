"""What a run of a flow does before it starts: goes on, computes its views from the log again, or refuses, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from riverrun import ddl
from riverrun.errors import Conflict, Corrupt, Invalid, did_you_mean
from riverrun.flow import Flow
from riverrun.flow.graph import InputTopic
from riverrun.flow.operators.rule_match import RULE_COLUMNS, RuleMatch
from riverrun.flow.operators.table import topic_behind
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic import Topic
from riverrun.runtime.bucket_owner import refuse_foreign
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.runtime.heritage import GONE, was_left
from riverrun.runtime.home import recall_notes
from riverrun.runtime.manifest import Manifest, computation, home_of
from riverrun.views import Last, Store

ANEW = "Run it under another name, or replay into other outputs with suffix="
REBUILD = "river.run(flow, rebuild=True), or riverrun run FLOW.py --rebuild"


@dataclass(frozen=True)
class Admission:
    """How a run begins: it goes on in `home` from what its last epoch left (`known`, None before the first); or, with
    `anew`, the views are computed from the log again first, and that says why."""

    home: str
    known: Manifest | None
    anew: str | None = None


def refuse_unusable(flow: Flow) -> None:
    """Refuse a flow that nothing would come of, or not what it says."""
    if not flow.ends:
        raise Invalid(f"flow {flow.name} has no results", hint="Add a flow.view(…), a flow.topic(…) or a flow.alert(…)")


def admitted(
    name: str,
    flow: Flow,
    store: Store,
    checkpoints: str,
    inputs: Mapping[str, Topic],
    start: Mapping[str, Mapping[int, int]] | None = None,
    rebuild: bool = False,
    shards: int = 0,
) -> Admission:
    """What a run of the flow, under this name, begins with. `rebuild` asks for computing everything again; `shards` is how
    many it is to have, 0: as many as it has."""
    suffix = name.removeprefix(flow.name)
    store.introduce(end.to.suffixed(suffix) for end in flow.views.values() if end.to is not None)
    refuse_foreign(checkpoints, store.identity, rebuild)
    last = store.last(name)
    home = home_of(checkpoints, name, last)
    recall_notes(home)
    if last.epoch == 0 and was_left(checkpoints, name, last):
        return Admission(home, None, GONE)
    found = changes(flow, last)
    unlike = None if found else _misfit(name, store, last, home) or _cut_otherwise(last, shards)
    if found or unlike or (rebuild and last.epoch):
        why = f"has changed since its last epoch ({', '.join(found)})" if found else unlike or "is rebuilt"
        _refuse_forgotten(name, inputs, start, f"{why}, and " if found or unlike else "")
        return Admission(home, None, why)
    return Admission(home, resumable(name, store, Checkpoint(home, name), inputs))


def _misfit(flow: str, store: Store, last: Last, home: str) -> str | None:
    """Why the rows of views in other stores do not belong to the flow's last epoch."""
    if last.manifest is None:
        return None
    sequence = last.epoch + Manifest.decode(last.manifest).base
    why = store.misfit(flow, sequence, os.path.basename(home))
    return None if why is None else f"finds other rows than it wrote ({why})"


def _cut_otherwise(last: Last, shards: int) -> str | None:
    """Why state in so many shards cannot be gone on with."""
    if last.manifest is None or not shards:
        return None
    there = Manifest.decode(last.manifest).shards
    return None if there == shards else f"has {there} shards and is to have {shards} (setting shards)"


def resumable(flow: str, store: Store, checkpoint: Checkpoint, inputs: Mapping[str, Topic]) -> Manifest | None:
    """What the flow's last epoch left, None before the first. Refused: a checkpoint that does not fit the views, a flow
    that was drained, and a position that its topic does not hold (any more)."""
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
    for name, topic in inputs.items():
        topic.check_range(last.positions[name])
    return Manifest.decode(last.manifest)


def refuse_drained(flow: str, last: Last, inputs: Mapping[str, Topic]) -> None:
    """A drained flow may be asked for its status; it takes in nothing more."""
    if last.manifest is None or not Manifest.decode(last.manifest).final:
        return
    behind = [name for name, topic in inputs.items() if not topic.latest <= last.positions]
    if behind:
        raise Conflict(
            f"flow {flow} was drained: its input was declared finished, and {', '.join(behind)} has new rows",
            hint=f"Rebuild it to take in new rows: {REBUILD}; or replay into other outputs with suffix=",
        )


def changes(flow: Flow, last: Last) -> list[str]:
    """What makes a flow another one than that of its last epoch: nodes and views that are changed or new, and topics it
    did not read before or does not read any more. State and views have to be computed from the log again then."""
    if last.epoch == 0 or last.manifest is None:
        return []
    before = Manifest.decode(last.manifest).fingerprints
    found = [name for name, fingerprint in computation(flow).items() if before.get(name) != fingerprint]
    return sorted(found) + [f"topic {name}" for name in sorted(set(last.positions) ^ set(flow.inputs))]


def forgotten(inputs: Mapping[str, Topic], start: Mapping[str, Mapping[int, int]] | None) -> list[str]:
    """The topics that no longer have what a flow has to be computed from again: all of it, or all from `start`."""
    return [
        name
        for name, topic in inputs.items()
        if any(offset > (start or {}).get(name, {}).get(p, 0) for p, offset in topic.begins().items())
    ]


def _refuse_forgotten(
    flow: str, inputs: Mapping[str, Topic], start: Mapping[str, Mapping[int, int]] | None, why: str
) -> None:
    if names := forgotten(inputs, start):
        raise Conflict(
            f"flow {flow} {why}cannot be rebuilt: the beginning of {', '.join(names)} was removed by retention",
            hint=ANEW,
        )


def check_declared(declared: InputTopic, spec: StoredSpec) -> None:
    """`Conflict` when a flow says something else about a topic than the topic itself. A topic may have more columns."""
    there = {column.name: column.type for column in ddl.parse(spec.schema)}
    for column in ddl.parse(declared.schema):
        if column.name not in there:
            if declared.enveloped and column.name == "key":
                continue
            hint = did_you_mean(column.name, there)
            raise Conflict(f"{declared.place}: topic {spec.name} has no column {column.name!r}", hint=hint)
        if there[column.name] != column.type:
            cast = f'with_columns({column.name}="cast({column.name} as {column.type})")'
            raise Conflict(
                f"{declared.place}: column {column.name!r} of topic {spec.name} is {there[column.name]}, not {column.type}",
                hint=f"Declare it as {there[column.name]} and use {cast}, or read another topic",
            )
    if declared.enveloped:
        _check_enveloped(declared, spec)
    elif declared.key and tuple(declared.key) != spec.key:
        raise Conflict(
            f"{declared.place}: the key of topic {spec.name} is {list(spec.key)}, not {list(declared.key)}",
            hint=f"Write key={list(spec.key)!r}, or read another topic" if spec.key else "Leave key= out",
        )


def check_rule_tables(flow: Flow, specs: Mapping[str, StoredSpec]) -> None:
    """`Conflict` when a flow leaves out what the topic of its rules says of them: rules that are off would be on."""
    for node in flow.nodes:
        spec = specs.get(topic_behind(node.right)) if isinstance(node, RuleMatch) else None
        if isinstance(node, RuleMatch) and spec is not None:
            there = {column.name for column in ddl.parse(spec.schema)}
            declared = {column.name for column in ddl.parse(flow.topics()[spec.name].schema)}
            if left := [name for name in RULE_COLUMNS if name in there and name not in declared]:
                columns = ", ".join(f"{name} {RULE_COLUMNS[name]}" for name in left)
                raise Conflict(
                    f"{flow.topics()[spec.name].place}: rules in topic {spec.name} have {', '.join(left)}, which the flow"
                    " leaves out: they would not do what they say",
                    hint=f"Add to the schema of the table: {columns}",
                )


def _check_enveloped(declared: InputTopic, spec: StoredSpec) -> None:
    """Messages about one row must be in one partition: there is no order between partitions."""
    if not spec.key and spec.partitions > 1:
        raise Conflict(
            f"{declared.place}: topic {spec.name} has {spec.partitions} partitions and no key, so that messages about a row"
            " may be read in another order than they were written",
            hint='Use a topic with the schema "key string, json string" and key="key", or one with partitions=1',
        )
