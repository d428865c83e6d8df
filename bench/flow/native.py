"""Spark's own ways to do what a flow does, over the same topic: its aggregation, and `transformWithState` per key.

The source gives only the columns that are needed, in as many slices as there are cores; the state store is Spark's
default where it can be, with the settings Riverrun's own session has. Results go nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import Row

from riverrun import ddl
from riverrun.log.topic import Topic
from riverrun.river import River

Offsets = Mapping[str, int]
ROCKS = {
    # the only store that `transformWithState` works with
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class FlatSlice(InputPartition):
    def __init__(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        super().__init__(0)
        self.ranges = ranges


class FlatReader(DataSourceStreamReader):
    def __init__(
        self,
        where: tuple[str, str | None, str],
        columns: Sequence[str],
        slices: int,
        cuts: Sequence[Offsets] | None,
    ) -> None:
        self._where = where  # river, log, topic
        self._columns = columns
        self._slices = slices
        self._cuts = cuts

    def initialOffset(self) -> Offsets:
        return {str(p): 0 for p in range(_topic(*self._where).partitions)}

    def latestOffset(self, start: Offsets, limit: object) -> Offsets:
        if self._cuts is None:
            topic = _topic(*self._where)
            return {str(p): offset for p, offset in topic.ends().items()}
        return next((cut for cut in self._cuts if sum(cut.values()) > sum(start.values())), start)

    def getDefaultReadLimit(self) -> object:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable()

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        ranges = [(int(p), start[p], end[p]) for p in end if end[p] > start[p]]
        return [FlatSlice(part) for i in range(self._slices) if (part := ranges[i :: self._slices])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FlatSlice)
        topic = _topic(*self._where)
        for number, start, end in partition.ranges:
            yield from topic.batches({number: start}, {number: end}, self._columns)

    def commit(self, end: Offsets) -> None:
        return


_rivers: dict[tuple[str, str | None], River] = {}


def _topic(river: str, log: str | None, name: str) -> Topic:
    """Opened once per process."""
    if (river, log) not in _rivers:
        _rivers[river, log] = River(river, log=log)
    return _rivers[river, log].topic(name)


def source(
    spark: SparkSession,
    river: str,
    topic: str,
    columns: str,
    slices: int,
    cuts: Sequence[Offsets] | None,
    log: str | None = None,
) -> DataFrame:
    """Columns of the topic, as DDL, as a stream; an epoch goes from one of the `cuts` to the next."""
    names = [column.name for column in ddl.parse(columns)]

    class FlatLog(DataSource):
        @classmethod
        def name(cls) -> str:
            return "bench_log"

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: object) -> FlatReader:
            return FlatReader((river, log, topic), names, slices, cuts)

    spark.dataSource.register(FlatLog)
    return spark.readStream.format("bench_log").load()


def counts(rows: DataFrame) -> DataFrame:
    """Rows per user."""
    return rows.groupBy("user").agg(F.count("*").alias("n"))


def per_minute(rows: DataFrame) -> DataFrame:
    """Rows per user and minute."""
    windows = rows.withWatermark("at", "1 second").groupBy("user", F.window("at", "1 minute"))
    return windows.agg(F.count("*").alias("n")).select("user", F.col("window.start").alias("window_start"), "n")


class Counter(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("n", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()[0] if self._count.exists() else 0
        n = before + sum(1 for _ in rows)
        self._count.update((n,))
        yield Row(user=key[0], n=n)

    def close(self) -> None:
        return


def counts_by_processor(rows: DataFrame) -> DataFrame:
    """Rows per user, by a Python object for each key."""
    return rows.groupBy("user").transformWithState(Counter(), "user string, n bigint", "Update", "None")


class NativeQuery:
    """A running query. Its results are computed and dropped, but those of the epochs it is asked to show."""

    def __init__(
        self,
        spark: SparkSession,
        frame: DataFrame,
        checkpoint: str,
        done: Callable[[], object],
        settings: Mapping[str, str] | None = None,
        mode: str = "update",
        show: bool = False,
    ) -> None:
        self._done = done
        self.show = show
        self.shown: pa.Table | None = None
        self.all_shown: list[pa.Table] = []
        for name, value in (settings or {}).items():
            spark.conf.set(name, value)
        try:
            self._query = (
                frame.writeStream.foreachBatch(self._take)
                .outputMode(mode)
                .option("checkpointLocation", checkpoint)
                .trigger(processingTime="0 seconds")
                .start()
            )
        finally:
            for name in settings or {}:
                spark.conf.unset(name)

    def _take(self, rows: DataFrame, number: int) -> None:
        if self.show:
            self.shown = rows.toArrow()
            self.all_shown.append(self.shown)
        else:
            rows.write.format("noop").mode("overwrite").save()
        self._done()

    def seconds(self) -> list[float]:
        """What each epoch took, once everything that is there has been processed."""
        self._query.processAllAvailable()
        epochs = [progress["durationMs"] for progress in self._query.recentProgress]
        return [took["triggerExecution"] / 1000 for took in epochs if "addBatch" in took]

    def failure(self) -> object:
        return self._query.exception() if not self._query.isActive else None

    def offsets(self) -> dict[int, dict[int, int]]:
        """Where the epochs that Spark remembers ended, by their numbers."""
        return {
            progress["batchId"]: {
                int(p): offset for p, offset in json.loads(progress["sources"][0]["endOffset"]).items()
            }
            for progress in self._query.recentProgress
        }

    def stop(self) -> None:
        self._query.stop()
