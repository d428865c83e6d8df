"""B5: from an append to its effect in a view, and where the time goes.

First a count per user and minute at 10 000 events a second: a process appends every 10 ms, another one watches how far
the view is. Spark's own window over the same traffic, with the same trigger and no sink, is the reference: there an
append counts as visible when its epoch was computed. Then the flow of `riverrun demo`, four stages deep, at its own rate.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from bench.crew import Crew
from bench.effort import Effort
from bench.figure import Figure, check
from bench.flow import counting, native
from bench.flow.spark import start
from bench.flow.traffic import Traffic, make
from riverrun.demo.shop import shop_flow
from riverrun.demo.shop.events import KINDS, SLOT, Shop
from riverrun.durations import wall_clock
from riverrun.river import River
from riverrun.spark.session import cores, session

WINDOW_TARGETS = {50: None, 95: None, 99: 0.35}  # seconds, by percentile
DEMO_TARGETS = {50: 0.35, 95: None, 99: 0.7}
KEYS = 1000
RATE = 10_000  # events a second
PAUSE = 0.01
LOOK = 0.002  # between two looks at the view
WARM = 0.2  # of the time does not count
BUSIEST = 60.0  # seconds more that a machine with other work may take to come to the end
TAIL = 3.0  # seconds, for what came last
BUSY = 100_000  # rows an epoch may have

Offsets = Mapping[str, Mapping[int, int]]  # of the partitions of each topic
Mark = tuple[int, Offsets]  # a time (monotonic, ns) and how far topics were
Sends = Sequence[tuple[float, Mapping[str, pa.Table]]]  # when, in seconds from the beginning, and what goes where


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    start()
    path = f"{directory}/river"
    with Crew(2) as crew, River(path) as river:
        mine, parts = _through_window(river, crew, effort.flow_seconds)
        other = _through_spark(river, crew, effort.flow_seconds)
        for percentile, target in WINDOW_TARGETS.items():
            reference = float(np.percentile(other, percentile))
            yield _figure(f"append → view, p{percentile}", mine, percentile, target, reference)
        yield from _epoch("an epoch", parts)
        delays, parts = _through_demo(river, crew, effort.flow_seconds)
        for percentile, target in DEMO_TARGETS.items():
            yield _figure(f"the demo's flow, p{percentile}", delays, percentile, target)
        yield from _epoch("its epoch", parts)
    shutil.rmtree(path)


def _figure(
    case: str, delays: np.ndarray, percentile: int, target: float | None, reference: float | None = None
) -> Figure:
    value = float(np.percentile(delays, percentile))
    return Figure(
        benchmark="freshness",
        case=case,
        unit="s",
        value=value,
        spread=0.0,
        reference="native" if reference else None,
        reference_value=reference,
        ratio=value / reference if reference else None,
        target=target,
        less_is_better=True,
    )


def _epoch(name: str, parts: Mapping[str, float]) -> Iterator[Figure]:
    for part, value in parts.items():
        yield Figure("freshness", f"{name}: {part}", "s", value, 0.0)


def _through_window(river: River, crew: Crew, seconds: float) -> tuple[np.ndarray, dict[str, float]]:
    """The delay of every append, and the parts of an epoch."""
    topic = make(river, "live")
    query = counting.FlowQuery(river, counting.per_minute("live", "live"), BUSY, lambda: None, sink=True)
    try:
        sent, seen = _drive(crew, partial(_steady, "live", seconds), river.path, "live", seconds)
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
        sent, _ = _drive(crew, partial(_steady, "plain", seconds), river.path, "plain", seconds)
        offsets = query.offsets()
        seen = [(end, {"plain": offsets[number]}) for number, end in enumerate(ends) if number in offsets]
        return _delays(sent, seen, seconds)
    finally:
        query.stop()


def _through_demo(river: River, crew: Crew, seconds: float) -> tuple[np.ndarray, dict[str, float]]:
    """The same of the demo's flow, whose alerts go nowhere."""
    topics = {spec.name: river.topic(spec) for spec in shop_flow.TOPICS}
    query = counting.FlowQuery(river, shop_flow.flow, BUSY, lambda: None, sink=True)
    try:
        sent, seen = _drive(crew, partial(_demo, seconds), river.path, "events", seconds)
        rows = sum(topics[name].read(columns=[]).num_rows for name in KINDS)
        rows -= river.topic("readings.quarantine").read(columns=[]).num_rows  # of devices that live in next year
        check(rows, sum(row["events"] for row in river.view("events").rows()), "events in the view")
        counted = [(moment, ends) for moment, ends in sent if ends.keys() <= KINDS.keys()]  # the view reads no others
        return _delays(counted, seen, seconds), query.parts()
    finally:
        query.stop()


def _steady(name: str, seconds: float) -> Sends:
    """The same number of rows every few milliseconds, of users at random."""
    traffic, step = Traffic(KEYS), int(RATE * PAUSE)
    rows = traffic.rows(KEYS, KEYS + int(seconds * RATE))
    return [(at / RATE, {name: rows.slice(at, step)}) for at in range(0, rows.num_rows, step)]


def _demo(seconds: float) -> Sends:
    """What happens in the shop, slot by slot."""
    begin = wall_clock()
    shop = Shop(begin)
    slots = range(1, int(seconds * 1_000_000) // SLOT + 1)
    return [(slot * SLOT / 1_000_000, shop.until(begin + slot * SLOT)) for slot in slots]


def _drive(
    crew: Crew, sends: Callable[[], Sends], path: str, view: str, seconds: float
) -> tuple[Sequence[Mark], Sequence[Mark]]:
    """What was appended when, and when the view of that name, if there is one, was how far."""
    crew.prepare(_make_ready, sends, path, view, seconds)
    crew.begin(_work)
    sent, seen = crew.results()
    return sent, seen


@dataclass
class _Task:
    """One process's part."""

    number: int
    river: River
    view: str
    seconds: float
    sends: Sends


def _make_ready(number: int, sends: Callable[[], Sends], path: str, view: str, seconds: float) -> _Task:
    return _Task(number, River(path), view, seconds, sends() if number == 0 else ())


def _work(task: _Task) -> list[Mark]:
    with task.river:
        return _produce(task) if task.number == 0 else _watch(task)


def _produce(task: _Task) -> list[Mark]:
    """Append at its times; what is late is appended at once. Gives when each append began, and where it ended."""
    sent: list[Mark] = []
    begin = time.monotonic()
    for at, rows in task.sends:
        time.sleep(max(0.0, begin + at - time.monotonic()))
        for name, some in rows.items():
            moment = time.monotonic_ns()
            sent.append((moment, {name: dict(task.river.topic(name).append(some)[name])}))
    time.sleep(TAIL)
    return sent


def _watch(task: _Task) -> list[Mark]:
    """When a reader could first see each epoch, and what it had read."""
    store = task.river.store
    seen: list[Mark] = []
    commit = 0
    deadline = time.monotonic() + task.seconds + TAIL
    if task.view not in {spec.name for spec in store.views()}:
        return seen
    while True:
        found = store.progress(task.view)
        if found.commit > commit:
            commit = found.commit
            seen.append((time.monotonic_ns(), {name: dict(ends) for name, ends in found.positions.items()}))
        over = time.monotonic() - deadline
        if over > 0 and (over > BUSIEST or all(task.river.topic(n).ends() == p for n, p in found.positions.items())):
            return seen
        time.sleep(LOOK)


def _delays(sent: Sequence[Mark], seen: Sequence[Mark], seconds: float) -> np.ndarray:
    """Seconds from each append to the first epoch that covers it, warming up left out."""
    late = sent[0][0] + int(seconds * WARM * 1e9)
    partitions = sorted({(name, p) for _, ends in sent for name, offsets in ends.items() for p in offsets})
    reached = np.array([[ends.get(name, {}).get(p, 0) for name, p in partitions] for _, ends in seen])
    times = np.array([moment for moment, _ in seen])
    delays = []
    for moment, ends in sent:
        if moment >= late:
            covers = (reached >= [ends.get(name, {}).get(p, 0) for name, p in partitions]).all(axis=1)
            check(True, bool(covers.any()), "whether every append was seen")
            delays.append(times[int(covers.argmax())] - moment)
    return np.array(delays) / 1e9
