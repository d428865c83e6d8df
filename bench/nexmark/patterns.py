"""B: patterns. The four of Nexmark (periods of falling prices, averages, drops within five seconds) over a million events,
and patterns that are hard on paper, each against a loop in plain Python over the sorted rows.

A row counts from its columns to the state on files: conditions, sorting, matching, results. One process, processor time.
Then the four as flows on Spark, on all cores, from a backlog in the log to the changes of their view, as in B4.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, WrongResult
from bench.flow.kept import weighted
from bench.flow.spark import start
from bench.nexmark.events import BID, AuctionHouse
from bench.nexmark.queries import Events, Query
from bench.nexmark.throughput import WARM, fill, process
from riverrun.columns import KEY, OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.flow import Flow
from riverrun.flow.stream import Stream
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.river import River
from riverrun.runtime.compile.compiler import compile_flow
from riverrun.runtime.compile.job import MOMENT
from riverrun.runtime.task import Tasks
from riverrun.spark.session import cores
from riverrun.state.directory import StateDirectory
from riverrun.state.frames import from_arrow

EVENTS, EPOCH = 1_000_000, 250_000
TARGET = 300_000  # rows a second, of two cores
GROWTH = 3.0  # of the time with twice the rows: 2 is linear, 4 quadratic
Span = tuple[int, int]  # the first and the last row of a match
Search = Callable[[Any, Any], Iterator[Span]]


def c0(bids: Stream) -> Stream:
    down = "(last(down.price, 1) is null and down.price < start.price) or down.price < last(down.price, 1)"
    define = {"down": down, "up": "up.price > last(down.price, 1)"}
    return bids.match("start down+ up", define, by=["auction", "bidder"], after="skip to last up")


def c1(bids: Stream, after: str = "skip past last") -> Stream:
    measures = {"mean": "avg(a.price)"}
    return bids.match("a+ b", {"a": "avg(a.price) < 10000"}, by=["auction", "bidder"], after=after, measures=measures)


def c2(bids: Stream) -> Stream:
    return c1(bids, "skip to next")


def c3(bids: Stream) -> Stream:
    define = {"b": "b.price > a.price - 50", "c": "c.price < a.price - 50"}
    measures = {"drop": "a.price - c.price"}
    return bids.match("a b* c", define, by=["auction", "bidder"], within="5 seconds", measures=measures)


def falling(price: Any, _: Any) -> Iterator[Span]:
    start = 0
    while start < len(price):
        last = start
        while last + 1 < len(price) and price[last + 1] < price[last]:
            last += 1
        if last - start >= 2 and last + 1 < len(price) and price[last + 1] > price[last - 1]:
            yield start, last + 1
            start = last + 1
        else:
            start += 1


def cheap(price: Any, _: Any, past: bool = True) -> Iterator[Span]:
    start = 0
    while start < len(price):
        total, last = 0, start
        while last < len(price) and (total + price[last]) / (last - start + 1) < 10000:
            total += price[last]
            last += 1
        end = min(last, len(price) - 1)
        if last > start and end > start:
            yield start, end
        start = end + 1 if past and last > start and end > start else start + 1


def dropping(price: Any, moment: Any) -> Iterator[Span]:
    start = 0
    while start < len(price):
        row = start + 1
        while row < len(price) and price[row] > price[start] - 50:
            row += 1
        found = row < len(price) and price[row] < price[start] - 50 and moment[row] - moment[start] <= 5_000_000
        if found:
            yield start, row
        start = row + 1 if found else start + 1


CASES: dict[str, tuple[Callable[[Stream], Stream], Search]] = {
    "c0": (c0, falling),
    "c1": (c1, cheap),
    "c2": (c2, lambda price, moment: cheap(price, moment, past=False)),
    "c3": (c3, dropping),
}


def soon(price: Any, moment: Any) -> Iterator[Span]:
    start = 0
    while start < len(price):
        row = start + 1
        if price[start] < 200:
            while row < len(price) and price[row] <= 9_000_000 and moment[row] - moment[start] <= 1_000_000:
                row += 1
            if row < len(price) and price[row] > 9_000_000 and moment[row] - moment[start] <= 1_000_000:
                yield start, row
                start = row
        start += 1


def nothing(_: Any, __: Any) -> Iterator[Span]:
    return iter(())


# What is hard on paper: how it is declared, by which columns, and what it finds.
HARD: dict[str, tuple[Callable[[Stream], Stream], tuple[str, ...], Search]] = {
    "(a | a)* b, which nothing is": (
        lambda bids: bids.match("(a | a)* b", {"a": "price >= 0", "b": "price < 0"}, by="auction", within="1 hour"),
        ("auction",),
        nothing,
    ),
    "one key": (
        lambda bids: bids.match("a -> b", {"a": "price < 200", "b": "price > 9000000"}, within="1 second"),
        (),
        soon,
    ),
    "no match": (
        lambda bids: bids.match("a -> b", {"a": "price > 0", "b": "price < 0"}, by="bidder", within="1 hour"),
        ("bidder",),
        nothing,
    ),
}


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    bids = AuctionHouse().bids(0, EVENTS if effort.every_case else EVENTS // 10)
    for name, (make, search) in CASES.items():
        seconds, found = _timed(directory, make, bids)
        _compare(name, found, _expected(bids, ("auction", "bidder"), search))
        yield _figure(f"{name}: {len(found)} matches", seconds / len(bids))
    for name, (make, by, search) in HARD.items():
        half = bids.slice(0, len(bids) // 2)
        before, found = _timed(directory, make, half)
        _compare(name, found, _expected(half, by, search))
        seconds, _ = _timed(directory, make, bids)
        yield _figure(name, seconds / len(bids))
        growth = seconds / before
        yield Figure("patterns", f"{name}: twice the rows", "x", growth, 0.0, target=GROWTH, less_is_better=True)
    yield from _flows(directory, EVENTS if effort.every_case else EVENTS // 10)


def _flows(directory: str, events: int) -> Iterator[Figure]:
    start(computes=False)
    house = AuctionHouse()
    with River(f"{directory}/warm") as warm, River(f"{directory}/river") as river:
        fill(warm, house, WARM)
        bids = fill(river, house, events).tables[BID.name]
        for name, (make, search) in CASES.items():
            query = Query(name, partial(_of_bids, make), "")
            process(warm, query, house)
            mine = process(river, query, house)
            parts = [weighted(mine.view, part) for part in mine.changes]
            rows = pa.concat_tables(parts, promote_options="default")  # what has no rows lacks hidden columns
            moments = [rows.column(end).cast(MOMENT) for end in ("match_start", "match_end")]
            columns = [rows.column("auction"), rows.column("bidder"), *moments]
            found = list(zip(*(column.to_pylist() for column in columns), strict=True))
            _compare(name, found, _expected(bids, ("auction", "bidder"), search))
            yield _figure(f"{name}: a flow on {cores()} cores", mine.seconds / mine.rows, TARGET)
    for name in ("warm", "river"):
        shutil.rmtree(f"{directory}/{name}")


def _of_bids(make: Callable[[Stream], Stream], events: Events) -> Stream:
    return make(events.bids)


def _compare(name: str, found: list[Any], expected: list[Any]) -> None:
    if sorted(found) != sorted(expected):
        raise WrongResult(f"{name}: {len(found)} matches, expected {len(expected)}")


def _figure(case: str, row: float, target: float = TARGET / 2) -> Figure:
    return Figure("patterns", case, "rows/s", 1 / row, 0.0, target=target)


def _timed(directory: str, make: Callable[[Stream], Stream], bids: pa.Table) -> tuple[float, list[Any]]:
    """The processor time of all epochs, and the keys and times of the matches."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        return _epochs(StateDirectory(place), make, bids)


def _epochs(state: StateDirectory, make: Callable[[Stream], Stream], bids: pa.Table) -> tuple[float, list[Any]]:
    flow = Flow("bench")
    flow.view("matches", make(flow.stream(BID)))
    job = compile_flow(flow, 1)
    tasks = Tasks(job)
    (operator,) = job.stages[0]
    entries: Any = {}
    found: list[Any] = []
    watermark, spent = MIN_TIME, 0.0
    for number, first in enumerate(range(0, len(bids) + EPOCH, EPOCH)):
        rows = _carried(bids.slice(first, EPOCH), first, job.readings[0].columns.names)
        final = not len(rows)
        begin = time.process_time()
        (branch,) = tasks.project(job.readings[0].origin, rows) if len(rows) else ((None, None),)
        frame = from_arrow(branch[1]) if branch[1] is not None else _empty(job)
        end = MAX_TIME if final else int(frame.get_column(TIME).max())  # type: ignore[arg-type]
        tables = state.open(entries, operator.kernel.tables, operator.id, 0, 1)
        step = operator.kernel.step(tables, {"in": frame}, EpochClock(number, watermark, end))
        entries = tables.commit(number)
        spent += time.process_time() - begin
        by = [name for name in ("auction", "bidder") if name in step.changes.columns]
        found += step.changes.select(*by, "match_start", "match_end").rows()
        watermark = end
    return spent, found


def _carried(bids: pa.Table, start: int, names: list[str]) -> pa.RecordBatch:
    moment = bids.column("date_time").cast(MOMENT).combine_chunks()
    own = {name: bids.column(name).combine_chunks() for name in names}
    count = len(bids)
    carried = {
        TIME: moment.cast(pa.int64()),
        WEIGHT: pa.array(np.ones(count, np.int8)),
        PARTITION: pa.array(np.zeros(count, np.int32)),
        OFFSET: pa.array(np.arange(start, start + count)),
        RECEIVED: moment,
        KEY: pa.nulls(count, pa.string()),
    }
    return pa.RecordBatch.from_pydict({**own, **carried})


def _empty(job: Any) -> pl.DataFrame:
    return from_arrow(job.branches[0].schema.empty_table())


def _expected(bids: pa.Table, by: tuple[str, ...], search: Search) -> list[Any]:
    frame = from_arrow(bids.select(["auction", "bidder", "price", "date_time"]))
    moment = frame.get_column("date_time").cast(pl.Datetime("us", "UTC"))
    ordered = frame.with_columns(moment.alias("at"), pl.lit(0).alias("all")).sort("at", maintain_order=True)
    found = []
    for *keys, prices, times in ordered.group_by(by or ("all",)).agg("price", "at").iter_rows():
        micros = [int(value.timestamp() * 1_000_000) for value in times]
        found += [(*keys[: len(by)], times[a], times[b]) for a, b in search(prices, micros)]
    return found
