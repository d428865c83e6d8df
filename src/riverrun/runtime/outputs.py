"""What a run writes: its views as their store keeps them, and its topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from riverrun import ddl
from riverrun.columns import CARRIED, RECEIVED
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.operators.ends import End, TopicEnd
from riverrun.log.spec import TopicSpec
from riverrun.log.topic import Topic
from riverrun.runtime.compile.job import Job
from riverrun.runtime.quarantine import quarantine_schema, quarantine_topic
from riverrun.views import Store, ViewSpec


def view_specs(flow: Flow, job: Job, suffix: str) -> list[ViewSpec]:
    """The views of a run, as their store keeps them."""
    found = []
    for end in flow.views.values():
        spec = job.views[end.id]
        to = None if end.to is None else end.to.suffixed(suffix).public
        found.append(replace(spec, name=spec.name + suffix, flow=spec.flow + suffix, to=to))
    return found


def declare_views(store: Store, flow: Flow, job: Job, fence: int, suffix: str = "") -> None:
    """The views of a run, as it starts; those that the flow does not have any more stay where they are."""
    specs = view_specs(flow, job, suffix)
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
    return pa.schema([field for field in schema if field.name not in (*CARRIED, RECEIVED)])


def _aside_specs(job: Job, inputs: Mapping[str, Topic], suffix: str) -> list[TopicSpec]:
    """The topics for late rows and for rows that cannot be taken in."""
    found: dict[str, pa.Schema] = {}
    for aside in (aside for stage in job.stages for operator in stage for aside in operator.late.values()):
        known = found.setdefault(aside.topic, aside.columns)
        if known != aside.columns:
            raise Invalid(f"topic {aside.topic} gets late rows of other types: {known} and {aside.columns}")
    for aside in (aside for stage in job.stages for operator in stage for aside in operator.quarantined.values()):
        columns = inputs[aside.topic].schema if aside.topic in inputs else aside.columns
        messages = aside.topic in inputs and not inputs[aside.topic].backend.has_headers
        found[quarantine_topic(aside.topic)] = quarantine_schema(columns, messages)
    for withheld in (operator.withheld for stage in job.stages for operator in stage):
        if withheld is not None:
            found[withheld.topic] = withheld.columns
    for reading in job.readings:
        topic = inputs[reading.topic]
        messages = not topic.backend.has_headers  # then anybody may have written anything
        if reading.max_skew is not None or reading.envelope is not None or messages:
            found[quarantine_topic(reading.topic)] = quarantine_schema(topic.schema, messages)
    return [TopicSpec(name + suffix, ddl.render(ddl.columns_from_arrow(columns))) for name, columns in found.items()]
