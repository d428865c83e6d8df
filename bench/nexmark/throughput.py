"""B4: rows that each query reads in a second, from a backlog in the log to the changes of its view.

Nothing is behind the view, as is the custom with Nexmark: changes are kept in memory until they were compared with
what DuckDB makes of the same rows. DuckDB has them in memory, in one piece, and is the limit.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, spread
from bench.flow.spark import start
from bench.nexmark.answers import batch, verify
from bench.nexmark.events import AUCTION, BID, PERSON, SIDE, AuctionHouse
from bench.nexmark.queries import QUERIES, Query
from riverrun.flow.operators.ends import ViewEnd
from riverrun.river import River
from riverrun.runtime.commit import Committer
from riverrun.runtime.epoch import EpochResult
from riverrun.spark.run import Run
from riverrun.spark.session import cores

APPEND = 20_000  # events
EPOCH = 200_000  # rows
WARM = 20_000  # events of a run that does not count
PATIENCE = "10 minutes"

_numbers = itertools.count(1)


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    start()
    house = AuctionHouse()
    with River(f"{directory}/warm") as warm, River(f"{directory}/river") as river:
        fill(warm, house, WARM)
        tables = fill(river, house, effort.nexmark_events)
        db = batch(tables, cores())
        for name in effort.queries:
            query = QUERIES[name]
            if effort.nexmark_events > WARM:
                process(warm, query, house)
            mine = process(river, query, house)
            _, expected = _timed(db, query.sql)
            verify(name, mine.changes, expected)
            del expected  # it may be large
            yield _figure(name, mine, [_timed(db, query.sql)[0] for _ in range(effort.rounds)])
    for name in ("warm", "river"):
        shutil.rmtree(f"{directory}/{name}")


def fill(river: River, house: AuctionHouse, events: int) -> Mapping[str, pa.Table]:
    """Append so many events, as they would come in; gives them by topic."""
    river.topic(SIDE).append(house.side())
    topics = {spec.name: river.topic(spec) for spec in (PERSON, AUCTION, BID)}
    parts = [house.events(at, min(at + APPEND, events)) for at in range(0, events, APPEND)]
    for part in parts:
        for name, rows in part.items():
            topics[name].append(rows)
    made = {name: pa.concat_tables([part[name] for part in parts]).combine_chunks() for name in topics}
    return {"side": house.side(), **made}


class Keeping(Committer):
    """Commits state and positions; the changes of views are kept here."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.changes: list[pa.Table] = []
        self.rows: list[int] = []
        self.ends: list[float] = []

    def apply(self, result: EpochResult) -> None:
        super().apply(result)
        counts = result.report.counts.values()
        self.rows.append(sum(inputs["topic"]["read"] for inputs in counts if "topic" in inputs))
        self.ends.append(time.perf_counter())

    def _changes(self, end: ViewEnd, result: EpochResult) -> pa.Table:
        self.changes.append(super()._changes(end, result))
        return pa.table({})


@dataclass(frozen=True)
class Processed:
    """A query that has read everything. `rates` are those of its epochs, rows per second."""

    changes: Sequence[pa.Table]
    rows: int
    seconds: float
    rates: Sequence[float]


def process(river: River, query: Query, house: AuctionHouse) -> Processed:
    """Run a query over everything in the log, to the end of the input."""
    made: list[Keeping] = []

    def committer(*arguments: Any) -> Keeping:
        made.append(Keeping(*arguments))
        return made[0]

    flow = query.flow(house, f"{query.name}-{next(_numbers)}")
    begun = time.perf_counter()
    running = Run(river, flow, max_rows=EPOCH, committer=committer)
    try:
        running.drain(PATIENCE)
    finally:
        running.stop()
    kept = made[0]
    starts = [begun + _starting(running, kept.ends[0] - begun), *kept.ends]
    seconds = [end - start for start, end in itertools.pairwise(starts)]
    rates = [rows / took for rows, took in zip(kept.rows, seconds, strict=True) if rows]
    return Processed(kept.changes, sum(kept.rows), kept.ends[-1] - starts[0], rates)


def _starting(running: Run, first: float) -> float:
    """How much of the time until the first commit passed before Spark began with the first epoch."""
    progress = running._progress
    epoch = progress._epochs[0]
    return max(first - epoch.computing - epoch.committing - progress._around.get(epoch.epoch, 0.0), 0.0)


def _timed(db: Any, sql: str) -> tuple[float, pa.Table]:
    begun = time.perf_counter()
    answer = db.sql(sql).to_arrow_table()
    return time.perf_counter() - begun, answer


def _figure(name: str, mine: Processed, theirs: Sequence[float]) -> Figure:
    value, reference = mine.rows / mine.seconds, mine.rows / sorted(theirs)[len(theirs) // 2]
    return Figure(
        benchmark="nexmark",
        case=f"{name}, {mine.rows / 1000:,.0f} k rows",
        unit="rows/s",
        value=value,
        spread=spread(mine.rates),
        reference="DuckDB, batch",
        reference_value=reference,
        ratio=value / reference,
    )
