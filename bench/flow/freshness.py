"""B5: from an append to its effect in a view, per user and minute, at 10 000 events a second; and where the time goes.

A process appends every 10 ms, another one watches how far the view is. Spark's own window over the same traffic, with
the same trigger and no sink, is the reference: there an append counts as visible when its epoch was computed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, check
from bench.flow import counting, native
from bench.flow.spark import start
from bench.flow.traffic import Traffic, make
from riverrun.river import River
from riverrun.spark.session import cores, session

TARGET = 1.0
KEYS = 1000
RATE = 10_000  # events a second
PAUSE = 0.01
LOOK = 0.002  # between two looks at the view
WARM = 0.2  # of the time does not count
TAIL = 3.0  # seconds, for what came last
BUSY = 100_000  # rows an epoch may have

Mark = tuple[int, Mapping[int, int]]  # a time (monotonic, ns) and offsets


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    start()
    path = f"{directory}/river"
    with Crew(2) as crew, River(path) as river:
        mine, parts = _through_flow(river, crew, effort.flow_seconds)
        other = _through_spark(river, crew, effort.flow_seconds)
        for percentile, target in ((50, None), (95, None), (99, TARGET)):
            value, reference = (float(np.percentile(side, percentile)) for side in (mine, other))
            yield _figure(f"append → view, p{percentile}", value, reference, target)
        for name, value in parts.items():
            yield Figure("freshness", f"an epoch: {name}", "s", value, 0.0)
    shutil.rmtree(path)


def _figure(case: str, value: float, reference: float, target: float | None) -> Figure:
    return Figure(
        benchmark="freshness",
        case=case,
        unit="s",
        value=value,
        spread=0.0,
        reference="native",
        reference_value=reference,
        ratio=value / reference,
        target=target,
        less_is_better=True,
    )


def _through_flow(river: River, crew: Crew, seconds: float) -> tuple[np.ndarray, dict[str, float]]:
    """The delay of every append, and the parts of an epoch."""
    topic = make(river, "live")
    query = counting.FlowQuery(river, counting.per_minute("live", "live"), BUSY, lambda: None, sink=True)
    try:
        sent, seen = _drive(crew, Traffic(KEYS), river.path, "live", seconds)
        rows = topic.read(columns=["user"]).num_rows
        check(rows, int(pl.Series(query.shown["n"]).sum()), "rows in the view")
        return _delays(sent, seen, seconds), query.parts()
    finally:
        query.stop()


def _through_spark(river: River, crew: Crew, seconds: float) -> np.ndarray:
    make(river, "plain")
    ends: list[int] = []
    frame = native.per_minute(native.source(session(), river.path, "plain", counting.COLUMNS, cores(), None))
    checkpoint = f"{river.path}/native/live"
    query = native.NativeQuery(session(), frame, checkpoint, lambda: ends.append(time.monotonic_ns()))
    try:
        sent, _ = _drive(crew, Traffic(KEYS), river.path, "plain", seconds)
        offsets = query.offsets()
        seen = [(end, offsets[number]) for number, end in enumerate(ends) if number in offsets]
        return _delays(sent, seen, seconds)
    finally:
        query.stop()


def _drive(crew: Crew, traffic: Traffic, path: str, name: str, seconds: float) -> tuple[Sequence[Mark], Sequence[Mark]]:
    """What was appended when, and when the view of that name, if there is one, was how far."""
    crew.prepare(_make_ready, traffic, path, name, seconds)
    crew.begin(_work)
    sent, seen = crew.results()
    return sent, seen


@dataclass
class _Task:
    """One process's part."""

    number: int
    river: River
    name: str
    seconds: float
    rows: list[pa.Table]


def _make_ready(number: int, traffic: Traffic, path: str, name: str, seconds: float) -> _Task:
    step = int(RATE * PAUSE)
    first = traffic.keys  # from here on, users come at random
    rows = traffic.rows(first, first + int(seconds * RATE)) if number == 0 else pa.table({})
    return _Task(number, River(path), name, seconds, [rows.slice(at, step) for at in range(0, rows.num_rows, step)])


def _work(task: _Task) -> list[Mark]:
    with task.river:
        return _produce(task) if task.number == 0 else _watch(task)


def _produce(task: _Task) -> list[Mark]:
    """Append at a steady pace; what is late is appended at once. Gives when each append began, and where it ended."""
    topic = task.river.topic(task.name)
    sent: list[Mark] = []
    begin = time.monotonic()
    for number, rows in enumerate(task.rows):
        time.sleep(max(0.0, begin + number * PAUSE - time.monotonic()))
        moment = time.monotonic_ns()
        sent.append((moment, dict(topic.append(rows)[task.name])))
    time.sleep(TAIL)
    return sent


def _watch(task: _Task) -> list[Mark]:
    """When a reader could first see each epoch, and what it had read."""
    store = task.river.store
    seen: list[Mark] = []
    commit = 0
    deadline = time.monotonic() + task.seconds + TAIL
    while task.name in {spec.name for spec in store.views()} and time.monotonic() < deadline:
        while time.monotonic() < deadline:
            found = store.progress(task.name)
            if found.commit > commit and task.name in found.positions:
                commit = found.commit
                seen.append((time.monotonic_ns(), dict(found.positions[task.name])))
            time.sleep(LOOK)
    return seen


def _delays(sent: Sequence[Mark], seen: Sequence[Mark], seconds: float) -> np.ndarray:
    """Seconds from each append to the first epoch that covers it, warming up left out."""
    late = sent[0][0] + int(seconds * WARM * 1e9)
    partitions = sorted(sent[0][1])
    reached = np.array([[offsets.get(p, 0) for p in partitions] for _, offsets in seen])
    times = np.array([moment for moment, _ in seen])
    delays = []
    for moment, offsets in sent:
        if moment >= late:
            covers = (reached >= [offsets[p] for p in partitions]).all(axis=1)
            check(True, bool(covers.any()), "whether every append was seen")
            delays.append(times[int(covers.argmax())] - moment)
    return np.array(delays) / 1e9
