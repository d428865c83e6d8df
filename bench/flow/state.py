"""B1: counting per key and per key and minute, by the number of keys, against Spark's own ways without a sink."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import polars as pl

from bench.effort import Effort
from bench.figure import Figure, Took, WrongResult, rates
from bench.flow import counting, native
from bench.flow.spark import start
from bench.flow.traffic import Traffic, fill, make
from bench.flow.turns import Turn
from bench.memory import proportional
from riverrun.log.topic import Topic
from riverrun.river import River
from riverrun.spark.session import cores, session

WARM = 3  # epochs that do not count
TURN = 2  # epochs in a turn
SMALL = 10  # `transformWithState` gets so many times fewer rows and keys
NATIVE, PER_KEY, MANY_KEYS, WITH_VIEW = 2.0, 30.0, 0.5, 1.0  # targets, as ratios


class Contender(Protocol):
    """What takes turns."""

    show: bool

    @property
    def shown(self) -> Any: ...

    def failure(self) -> object: ...

    def stop(self) -> None: ...


@dataclass
class Contestant:
    """One side of a comparison."""

    turn: Turn
    query: Contender

    def go(self, epochs: int) -> float:
        return self.turn.go(epochs, self.query.failure)

    def stop(self) -> None:
        self.turn.release()
        self.query.stop()


_numbers = itertools.count(1)


class Arena:
    """A topic with epochs of equal size, on which contestants meet: first every key once, then keys at random."""

    def __init__(self, river: River, keys: int, epoch_rows: int, rounds: int) -> None:
        self.river = river
        self.keys = keys
        self.epoch_rows = epoch_rows
        self.warm = -(-keys // epoch_rows) + WARM
        self.rounds = rounds
        self.name = f"events-{keys}-{epoch_rows}"
        self.topic: Topic = make(river, self.name)
        self.cuts: list[dict[str, int]] = []
        traffic = Traffic(keys)
        for number in range(self.warm + rounds * TURN + 1):
            fill(self.topic, traffic, number * epoch_rows, (number + 1) * epoch_rows)
            self.cuts.append({str(p): offset for p, offset in self.topic.ends().items()})

    def riverrun(self, flow: Callable[[str, str], Any], sink: bool = False) -> Contestant:
        turn = Turn()
        made = flow(f"{self.name}-{next(_numbers)}", self.name)
        return Contestant(turn, counting.FlowQuery(self.river, made, self.epoch_rows, turn.done, sink))

    def native(self, work: Callable[[Any], Any], settings: dict[str, str] | None = None) -> Contestant:
        turn, spark = Turn(), session()
        frame = work(native.source(spark, self.river.path, self.name, counting.COLUMNS, cores(), self.cuts))
        checkpoint = f"{self.river.path}/native/{self.name}-{next(_numbers)}"
        return Contestant(turn, native.NativeQuery(spark, frame, checkpoint, turn.done, settings))

    @cached_property
    def rows(self) -> pl.DataFrame:
        """All rows, and whether they are in the last epoch."""
        read = pl.from_arrow(self.topic.read(columns=["user", "at"]))
        assert isinstance(read, pl.DataFrame)
        minute = pl.col("at").dt.truncate("1m").alias("window_start")
        last = read["at"].sort()[-self.epoch_rows]
        return read.select("user", minute, (pl.col("at") >= last).alias("last"))

    def verify(self, contestant: Contestant, key: list[str], whole: bool) -> None:
        """What it showed is what Polars finds: of all keys, or of those in the last epoch."""
        counted = self.rows.group_by(key).agg(pl.len().cast(pl.Int64).alias("n"), pl.col("last").any())
        expected = (counted if whole else counted.filter("last")).select(*key, "n").sort(key)
        found = pl.from_arrow(contestant.query.shown)
        assert isinstance(found, pl.DataFrame)
        if not found.select(*key, "n").sort(key).equals(expected):
            raise WrongResult(f"{self.name}: results by {', '.join(key)} are wrong")


def meet(stages: tuple[Arena, Arena], mine: Contestant, other: Contestant) -> tuple[list[float], list[float]]:
    """Seconds of every turn of both, after warming up. At the end both have shown their last epoch."""
    for stage, one in zip(stages, (mine, other), strict=True):
        one.go(stage.warm)
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(stages[0].rounds):
        for side in (0, 1)[:: 1 if number % 2 else -1]:
            times[side].append((mine, other)[side].go(TURN))
    for one in (mine, other):
        one.query.show = True
        one.go(1)
        one.stop()
    return times


def run(directory: str, effort: Effort) -> Iterator[Figure]:
    start()
    with River(f"{directory}/river") as river:
        yield from _figures(river, effort)
    shutil.rmtree(f"{directory}/river")


WORK = (
    ("count", ["user"], counting.counts, native.counts),
    ("1 min window", ["user", "window_start"], counting.per_minute, native.per_minute),
)


def _figures(river: River, effort: Effort) -> Iterator[Figure]:
    usual = Arena(river, effort.keys[1], effort.epoch_rows, effort.rounds)
    for keys in effort.keys[:-1]:
        stage = usual if keys == usual.keys else Arena(river, keys, effort.epoch_rows, effort.rounds)
        for what, key, flow, work in WORK:
            case = f"{what}, {_shown(keys)} keys"
            mine, other = stage.riverrun(flow), stage.native(work)
            times = meet((stage, stage), mine, other)
            for one in (mine, other):
                stage.verify(one, key, whole=False)
            yield _figure(case, stage, times, "native", NATIVE if keys == usual.keys else None)
        if stage is not usual:
            river.drop_topic(stage.name)
    for what, key, flow, work in WORK:
        mine, other = usual.riverrun(flow, sink=True), usual.native(work)
        times = meet((usual, usual), mine, other)
        usual.verify(mine, key, whole=True)
        usual.verify(other, key, whole=False)
        yield _figure(f"{what}, {_shown(usual.keys)} keys → SQLite", usual, times, "native", WITH_VIEW)
    yield _per_key(river, usual, effort)
    many = Arena(river, effort.keys[-1], effort.epoch_rows, effort.rounds)
    for what, key, flow, _ in WORK:
        mine, other = many.riverrun(flow), usual.riverrun(flow)
        times = meet((many, usual), mine, other)
        for stage, one in ((many, mine), (usual, other)):
            stage.verify(one, key, whole=False)
        yield _figure(f"{what}, {_shown(many.keys)} keys", many, times, f"{_shown(usual.keys)} keys", MANY_KEYS)
    for stage in (usual, many):
        yield from _memory(stage)


def _memory(stage: Arena) -> Iterator[Figure]:
    """What counting takes after every key was seen and epochs have followed. State is mapped: pages of it may be let go."""
    mine = stage.riverrun(counting.counts)
    mine.go(stage.warm)
    for kind, taken in proportional().items():
        yield Figure("state", f"count, {_shown(stage.keys)} keys, memory of {kind}", "B", float(taken), 0.0)
    mine.stop()


def _per_key(river: River, usual: Arena, effort: Effort) -> Figure:
    """Against a Python object for each key: as many rows per key and epoch, but fewer of both."""
    few = Arena(river, usual.keys // SMALL, usual.epoch_rows // SMALL, effort.rounds)
    mine, other = usual.riverrun(counting.counts), few.native(native.counts_by_processor, native.ROCKS)
    times = meet((usual, few), mine, other)
    usual.verify(mine, ["user"], whole=False)
    few.verify(other, ["user"], whole=False)
    scaled = times[0], [seconds * SMALL for seconds in times[1]]
    return _figure(f"count, {_shown(usual.keys)} keys, one by one", usual, scaled, "transformWithState", PER_KEY)


def _figure(
    case: str, stage: Arena, times: tuple[list[float], list[float]], reference: str, target: float | None
) -> Figure:
    rows = stage.epoch_rows * TURN
    took = [Took(seconds) for seconds in times[0]], [Took(seconds) for seconds in times[1]]
    return rates("state", case, rows, took, reference=reference, target=target, target_is_ratio=target is not None)


def _shown(keys: int) -> str:
    return f"{keys // 1_000_000} M" if keys >= 1_000_000 else f"{keys // 1000} k" if keys >= 1000 else str(keys)
