"""`run_flow`: a script in, rows out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime

from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.log.spec import TopicSpec
from riverrun.runtime.opening import topic_of
from riverrun.testing.local import LocalRun
from riverrun.testing.result import Result, Rows
from riverrun.testing.script import Append, Script, Step, steps


def run_flow(
    flow: Flow,
    inputs: Script,
    *,
    drain: bool = True,
    engine: str = "local",
    now: datetime | None = None,
    topics: Iterable[TopicSpec] = (),
    partitions: int = 1,
    shards: int = 2,
    max_rows: int = 500_000,
) -> Result:
    """Run a flow over `inputs`, {topic: rows} or a list of steps, each an epoch, and give what came of it.

    At the end the input is finished and every window closes, unless `drain=False`. Rows are received at a virtual time:
    it follows their event time (2026-01-01 where there is none) and never goes back; with `now` it begins there and
    moves by `Tick` alone. Topics are as the flow declares them, with one partition each, or as `topics` says.

    Views that go to other stores (`to=`) are kept in memory, too.

    engine="local" runs in this process, with DuckDB for SQL; "spark" starts Spark, on the wall clock.
    """
    flow = _at_home(flow)
    script, topics = steps(inputs, flow.topics()), list(topics)
    for name, value in {"shards": shards, "partitions": partitions, "max_rows": max_rows}.items():
        if not isinstance(value, int) or value < 1:
            raise Invalid(f"{name} cannot be {value!r}", hint="Give a whole number from 1")
    topics = [*topics, *_derived(flow, script, {spec.name for spec in topics})]
    if engine == "spark":
        from riverrun.testing.spark import run_on_spark

        return run_on_spark(flow, script, drain, now, topics, partitions, max_rows)
    if engine != "local":
        raise Invalid(f"there is no engine {engine!r}", hint='"local" or "spark"')
    with LocalRun(flow, topics, now, shards, partitions, max_rows) as run:
        for step in script:
            run.take(step)
        if drain:
            run.drain()
        return run.result()


def _at_home(flow: Flow) -> Flow:
    """The flow with its views in the home store, all of them."""
    same = copy(flow)
    same.views = {name: replace(end, to=None, partition_by=()) for name, end in flow.views.items()}
    return same


def _derived(flow: Flow, script: Sequence[Step], said: Collection[str]) -> list[TopicSpec]:
    """The topics that get rows of another flow's, and of which nobody says what they are: as that flow makes them."""
    found = {}
    for step in script:
        appended = {step.topic: step.rows} if isinstance(step, Append) else step if isinstance(step, Mapping) else {}
        for topic, rows in appended.items():
            if isinstance(rows, Rows) and topic not in said:
                spec = topic_of(flow.topics()[topic])
                found[topic] = replace(spec, null_keys=True) if spec.key else spec
    return list(found.values())
