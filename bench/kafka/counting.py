"""Rows per key of a topic on Kafka: a flow beside Spark's own aggregation, over the same messages.

Spark's own Kafka source is no part of its package, and Maven Central has none for this version of Spark, so Spark reads by
the same reader as the flow does; what is compared is what comes behind it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from bench.effort import Effort
from bench.figure import Figure, Took, WrongResult, alternate, rates
from bench.flow import native
from bench.flow.backlog import processed
from bench.flow.counting import COLUMNS, counts
from bench.flow.kept import weighted
from bench.flow.spark import start
from bench.flow.traffic import APPEND, SCHEMA, Traffic
from riverrun.river import River
from riverrun.spark.session import cores

EPOCH = 500_000
FORMATS = ("json", "avro", "arrow")


def figures(directory: str, server: Any, effort: Effort) -> Iterator[Figure]:
    print("kafka: Spark reads as the flow does: Maven Central has no Kafka source for Spark 4.3", file=sys.stderr)
    spark = start()
    with River(directory, log=server.url) as river:
        for format in FORMATS:
            yield _Counting(river, server.url, format, effort).figure(spark)
    shutil.rmtree(directory)


class _Counting:
    """One topic, counted again and again from its beginning."""

    def __init__(self, river: River, log: str, format: str, effort: Effort) -> None:
        self._river = river
        self._log = log
        self._effort = effort
        self._format = format
        self._rows, self._keys = effort.count_rows, effort.keys[1]
        self._name = f"counted-{format}"
        self._runs = 0
        traffic = Traffic(self._keys)
        topic = river.topic(self._name, SCHEMA, key="user", time="at", format=format, partitions=4)
        users = []
        self._cuts: list[dict[str, int]] = []
        for at in range(0, self._rows, APPEND):
            rows = traffic.rows(at, min(at + APPEND, self._rows))
            topic.append(rows)
            users.append(rows.column("user"))
            if (at + APPEND) % EPOCH == 0 or at + APPEND >= self._rows:
                self._cuts.append({str(p): end for p, end in topic.ends().items()})
        self._expected = pl.DataFrame({"user": pa.chunked_array([c for u in users for c in u.chunks])})
        self._expected = self._expected.group_by("user").agg(pl.len().cast(pl.Int64).alias("n")).sort("user")

    def figure(self, spark: Any) -> Figure:
        times = alternate(self._flow, lambda: self._spark(spark), max(1, self._effort.rounds // 2))
        self._river.drop_topic(self._name)
        case = f"count of {self._format.capitalize()}, {self._keys} keys"
        return rates("kafka", case, self._rows, times, reference="Spark, same reader")

    def _flow(self) -> Took:
        self._runs += 1
        done = processed(self._river, counts(f"{self._name}-{self._runs}", self._name), EPOCH)
        changes = pa.concat_tables([weighted(done.view, part) for part in done.changes])
        frame = pl.from_arrow(changes)
        assert isinstance(frame, pl.DataFrame)
        self._check(frame.group_by("user").agg((pl.col("n") * pl.col("_weight")).sum().cast(pl.Int64)), "the flow")
        return Took(done.seconds)

    def _spark(self, spark: Any) -> Took:
        self._runs += 1
        rows = native.source(spark, self._river.path, self._name, COLUMNS, cores(), self._cuts, self._log)
        checkpoint = f"{self._river.path}/native/{self._runs}"
        query = native.NativeQuery(spark, native.counts(rows), checkpoint, lambda: None, show=True)
        try:
            seconds = sum(query.seconds())
            newest = pl.concat([pl.from_arrow(part) for part in query.all_shown], rechunk=True)
            self._check(newest.group_by("user", maintain_order=True).last(), "Spark")
            return Took(seconds)
        finally:
            query.stop()
            shutil.rmtree(Path(checkpoint), ignore_errors=True)

    def _check(self, found: pl.DataFrame, whose: str) -> None:
        if not found.select("user", "n").sort("user").equals(self._expected):
            raise WrongResult(f"counts of {self._format} by {whose} are wrong")
