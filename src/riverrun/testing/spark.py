"""The same script with Spark: a river in a temporary directory, on the wall clock."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from riverrun.durations import micros
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.log.spec import TopicSpec
from riverrun.river import River
from riverrun.runtime.checkpoint import Checkpoint
from riverrun.testing.local import input_specs, watermarks
from riverrun.testing.result import Result, appendable, topic_rows, view_changes, view_rows
from riverrun.testing.script import Advance, Append, Crash, Delete, Process, Step, Tick

_PATIENCE = "120 seconds"


def run_on_spark(
    flow: Flow,
    script: list[Step],
    drain: bool,
    now: datetime | None,
    topics: Iterable[TopicSpec],
    partitions: int,
    max_rows: int,
) -> Result:
    """A `Tick` really waits, a crash stops the query between epochs, and what several appends bring may take several."""
    from riverrun.spark.run import Run

    if now is not None:
        raise Invalid("with Spark, rows are received when they are", hint="Leave now out, or use engine='local'")
    with tempfile.TemporaryDirectory(prefix="riverrun-testing-") as home, River(f"{home}/river") as river:
        for spec in input_specs(flow, topics, partitions):
            river.topic(spec)
        run = Run(river, flow, max_rows=max_rows, send=False)
        try:
            for step in script:
                if isinstance(step, Crash):
                    run = _again(run, river, flow, step, max_rows)
                else:
                    _take(run, river, step)
            run.process(_PATIENCE)
            if drain:
                run.drain(_PATIENCE)
        finally:
            run.stop()
        return _result(run, river, flow)


def _again(run: Any, river: River, flow: Flow, crash: Crash, max_rows: int) -> Any:
    from riverrun.spark.run import Run

    if crash.at is not None:
        raise Invalid(f"a crash at {crash.at} needs engine='local'")
    run.stop()
    return Run(river, flow, max_rows=max_rows, send=False)


def _take(run: Any, river: River, step: Step) -> None:
    match step:
        case Append(topic, rows, after):
            time.sleep(micros(after) / 1e6)
            _append(river, topic, rows)
            return
        case Delete(topic, key):
            river.topic(topic).delete(key)
        case Advance(topic, producer, moment):
            river.topic(topic).advance(producer, moment)
        case Tick():
            time.sleep(step.micros / 1e6)
        case Mapping():
            for topic, rows in step.items():
                _append(river, topic, rows)
        case Process():
            pass
    run.process(_PATIENCE)


def _append(river: River, topic: str, rows: Any) -> None:
    opened = river.topic(topic)
    opened.append(appendable(rows, opened.spec))


def _result(run: Any, river: River, flow: Flow) -> Result:
    written = [name for name in river.topics() if name not in flow.topics()]
    checkpoint = Checkpoint(f"{river.checkpoints}/{flow.name}", flow.name)
    return Result(
        views={name: view_rows(river.store, name) for name in flow.views},
        topics={name: topic_rows(river.topic(name)) for name in written},
        ledger=run.ledger(),
        watermarks=watermarks(checkpoint.plan(checkpoint.planned), flow),
        changes={name: view_changes(river.store, name, checkpoint.planned) for name in flow.views},
        epochs=[],
    )
