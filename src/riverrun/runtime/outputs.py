"""What a run writes: its views as their store keeps them, and its topics."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from riverrun import ddl
from riverrun.columns import LOG_ORDER, OFFSET, PARTITION, ROW_ID, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.analysis import topics_below
from riverrun.flow.operators.ends import End, TopicEnd, ViewEnd
from riverrun.flow.operators.node import unseen
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.runtime.compile.job import Job
from riverrun.runtime.quarantine import quarantine_schema, quarantine_topic
from riverrun.views import Store, ViewSpec


def view_spec(flow: Flow, job: Job, end: ViewEnd, suffix: str) -> ViewSpec:
    """A view's declaration for its store. Rows of a stream without a key are told apart by their place in the log."""
    schema = next(branch.arriving for branch in job.branches if branch.target == end.id)
    columns = [field for field in schema if field.name not in (TIME, WEIGHT, *LOG_ORDER)]
    key = end.key
    if ROW_ID in key and ROW_ID not in schema.names:
        key = tuple(part for name in key for part in ((PARTITION, OFFSET) if name == ROW_ID else (name,)))
        columns += [schema.field(PARTITION), schema.field(OFFSET)]
    hidden = unseen(key, end.node)
    return ViewSpec(
        name=end.name + suffix,
        flow=flow.name + suffix,
        schema=pa.schema(columns),
        key=key,
        topics=tuple(topics_below(end.node)),
        history=None if end.history is None else end.history / 1_000_000,
        hidden=hidden,
    )


def declare_views(store: Store, flow: Flow, job: Job, fence: int, suffix: str = "") -> None:
    """The views of a run, as it starts; those that the flow does not have any more stay where they are."""
    specs = [view_spec(flow, job, end, suffix) for end in flow.views.values()]
    for spec in specs:
        store.declare(spec)
    store.keep_only(flow.name + suffix, fence, [spec.name for spec in specs])


def topic_spec(job: Job, end: TopicEnd, suffix: str) -> TopicSpec:
    """A derived topic. It has no time column: its rows' time is the result's."""
    text = ddl.render(ddl.columns_from_arrow(_columns(job, end)))
    return TopicSpec(end.name + suffix, text, key=end.key or None, compact=end.node.is_table, null_keys=True)


def alert_topic(flow: str, alert: str) -> str:
    """Where the rows that an alert is about go, before messages are sent."""
    return f"{flow}.alerts.{alert}"


def output_specs(flow: Flow, job: Job, inputs: Mapping[str, Topic], suffix: str) -> list[TopicSpec]:
    """Every topic that a run writes, each for one thing."""
    derived = [topic_spec(job, end, suffix) for end in flow.derived.values()]
    alerts = []
    for end in flow.alerts.values():
        text = ddl.render(ddl.columns_from_arrow(_columns(job, end)))
        alerts.append(TopicSpec(alert_topic(flow.name + suffix, end.name), text))
    specs = [*derived, *alerts, *_aside_specs(job, inputs, suffix)]
    for spec in specs:
        if spec.name in inputs or sum(other.name == spec.name for other in specs) > 1:
            what = "reads it, too" if spec.name in inputs else "has two kinds of rows for it"
            raise Invalid(
                f"flow {flow.name} cannot write topic {spec.name}: it {what}",
                hint="Rows of alerts go to FLOW.alerts.NAME, quarantined ones to TOPIC.quarantine: use other names",
            )
    return specs


def _columns(job: Job, end: End) -> pa.Schema:
    schema = next(branch.schema for branch in job.branches if branch.target == end.id)
    return pa.schema([field for field in schema if field.name not in (TIME, WEIGHT, PARTITION, OFFSET)])


def _aside_specs(job: Job, inputs: Mapping[str, Topic], suffix: str) -> list[TopicSpec]:
    """The topics for late rows and for rows that cannot be taken in."""
    found: dict[str, pa.Schema] = {}
    for operator in (operator for stage in job.stages for operator in stage):
        if operator.late_topic is not None:
            assert operator.late is not None
            known = found.setdefault(operator.late_topic, operator.late)
            if known != operator.late:
                raise Invalid(f"topic {operator.late_topic} gets late rows of other types: {known} and {operator.late}")
    for reading in job.readings:
        if reading.max_skew is not None:
            found[quarantine_topic(reading.topic)] = quarantine_schema(inputs[reading.topic].schema)
    return [TopicSpec(name + suffix, ddl.render(ddl.columns_from_arrow(columns))) for name, columns in found.items()]
