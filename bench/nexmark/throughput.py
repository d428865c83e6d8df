"""B4: events that each query gets through in a second, from a backlog in the log to the changes of its view.

All events count, whether the query reads their topic or not. Nothing is behind the view, as is the custom with Nexmark:
changes are kept in memory until they were compared with what DuckDB makes of the same rows. DuckDB has them in memory, in
one piece, and is the limit. Where Spark's own API can say the query, it runs over the same topics afterwards, in a JVM that
is set up for it.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any

import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, spread
from bench.flow.backlog import Processed, processed
from bench.flow.kept import weighted
from bench.flow.native import Offsets
from bench.flow.spark import start
from bench.nexmark.answers import batch, verify
from bench.nexmark.events import AUCTION, BID, PERSON, SIDE, AuctionHouse
from bench.nexmark.native import NATIVE, run_native
from bench.nexmark.queries import QUERIES, Query
from riverrun.river import River
from riverrun.spark.session import cores

APPEND = 20_000  # events
EPOCH = 500_000  # rows
WARM = 200_000  # events of a run that does not count: enough for several tasks, so that they have met before
# Flink 2.3 on such a machine, its state on the heap and without checkpoints, in events per second: what is to be reached.
_KILO = "q0 3846 q1 3030 q2 5447 q3 2328 q4 472 q5 929 q7 298 q8 2329 q9 292 q11 878 q15 580 q17 1497 q18 603 q19 530"
FLINK = {name: 1e3 * float(kilo) for name, kilo in zip(_KILO.split()[::2], _KILO.split()[1::2], strict=True)}
TOGETHER = 1.5  # times as fast as that, in the geometric mean

_numbers = itertools.count(1)


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    start(computes=False)
    house = AuctionHouse()
    with River(f"{directory}/warm") as warm, River(f"{directory}/river") as river:
        warming, backlog = fill(warm, house, WARM), fill(river, house, effort.nexmark_events)
        db = batch(backlog.tables, cores())
        mine: dict[str, Processed] = {}
        for name in effort.queries:
            query = QUERIES[name]
            if effort.nexmark_events > WARM:
                process(warm, query, house)
            mine[name] = _verified(name, process(river, query, house), _timed(db, query.sql)[1])
            batches = [_timed(db, query.sql)[0] for _ in range(effort.rounds)]
            median = sorted(batches)[len(batches) // 2]
            figure = _figure(name, effort.nexmark_events, mine[name], "DuckDB, batch", median)
            yield replace(figure, target=FLINK.get(name))
        db.close()
        against_flink = [effort.nexmark_events / mine[name].seconds / FLINK[name] for name in mine if name in FLINK]
        if len(against_flink) > 1:
            yield _together(against_flink)
        if any(name in NATIVE for name in effort.queries):
            spark = start()
            for name in (name for name in effort.queries if name in NATIVE):
                run_native(spark, warm, name, warming.cuts, f"{directory}/native/{name}-warm")
                seconds = run_native(spark, river, name, backlog.cuts, f"{directory}/native/{name}")
                yield _figure(name, effort.nexmark_events, mine[name], "Spark native", sum(seconds))
    for name in ("warm", "river", "native"):
        shutil.rmtree(f"{directory}/{name}", ignore_errors=True)  # not every run has queries of Spark's own


def _verified(name: str, mine: Processed, expected: pa.Table) -> Processed:
    """What a query took, without its changes, which may be many, and are what DuckDB finds."""
    verify(name, (weighted(mine.view, part) for part in mine.changes), expected)
    return replace(mine, changes=[])


def _together(ratios: Sequence[float]) -> Figure:
    mean = geometric_mean(ratios)
    case = f"{len(ratios)} queries, geometric mean / Flink on such a machine"
    return Figure("nexmark", case, "times", mean, 0.0, target=TOGETHER)


@dataclass(frozen=True)
class Backlog:
    """Events that were appended: by topic, and where each topic ends after each epoch of Spark's own queries."""

    tables: Mapping[str, pa.Table]
    cuts: Sequence[dict[str, Offsets]]


def fill(river: River, house: AuctionHouse, events: int) -> Backlog:
    """Append so many events, as they would come in."""
    # When rows are on disk is not what is measured.
    topics = {spec.name: river.topic(replace(spec, fsync="os")) for spec in (PERSON, AUCTION, BID, SIDE)}
    topics.pop(SIDE.name).append(house.side())
    parts, cuts = [], []
    for at in range(0, events, APPEND):
        parts.append(house.events(at, min(at + APPEND, events)))
        for name, rows in parts[-1].items():
            topics[name].append(rows)
        if (at + APPEND) % EPOCH == 0 or at + APPEND >= events:
            cuts.append({name: {str(p): end for p, end in topic.ends().items()} for name, topic in topics.items()})
    tables = {name: pa.concat_tables([part[name] for part in parts]).combine_chunks() for name in topics}
    return Backlog({"side": house.side(), **tables}, cuts)


def process(river: River, query: Query, house: AuctionHouse) -> Processed:
    """Run a query over everything in the log, to the end of the input."""
    return processed(river, query.flow(house, f"{query.name}-{next(_numbers)}"), EPOCH)


def _timed(db: Any, sql: str) -> tuple[float, pa.Table]:
    begun = time.perf_counter()
    answer = db.sql(sql).to_arrow_table()
    return time.perf_counter() - begun, answer


def _figure(name: str, events: int, mine: Processed, other: str, seconds: float) -> Figure:
    value, reference = events / mine.seconds, events / seconds
    return Figure(
        benchmark="nexmark",
        case=f"{name} / {other}, reads {mine.rows / 1000:,.0f} k of {events / 1000:,.0f} k events",
        unit="events/s",
        value=value,
        spread=spread(mine.rates),
        reference=other,
        reference_value=reference,
        ratio=value / reference,
    )
