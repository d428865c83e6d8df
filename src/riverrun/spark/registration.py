"""How Spark is told of a flow's source.

Spark starts several Python processes around a source. Those that only pass it on load nothing but this module; the
planner and the tasks load the rest when they first need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from riverrun.spark.deployment import Deployment
    from riverrun.spark.source import LogReader


def source_name(flow: str) -> str:
    """What the source of a flow is called in Spark; one session may run several."""
    return "riverrun_" + flow.encode().hex()


def log_source(deployment: Deployment, packed: bytes, schema: StructType) -> type[DataSource]:
    """A data source class for one flow; Spark pickles it, and the packed deployment with it."""
    name = source_name(deployment.label)

    class FlowTopics(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return schema

        def streamReader(self, schema: StructType) -> LazyReader:
            return LazyReader(packed)

    return FlowTopics


class LazyReader(DataSourceStreamReader):  # type: ignore[misc]
    """The source's reader, made by whoever first calls it."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def __reduce__(self) -> tuple[type[LazyReader], tuple[bytes]]:
        return LazyReader, (self._packed,)

    @property
    def _reader(self) -> LogReader:
        return _reader(self._packed)

    def initialOffset(self) -> dict[str, Any]:
        return self._reader.initialOffset()

    def getDefaultReadLimit(self) -> Any:
        return self._reader.getDefaultReadLimit()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return self._reader.latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._reader.partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


@lru_cache(maxsize=8)
def _reader(packed: bytes) -> LogReader:
    """One for each process: workers are used again by later epochs."""
    from riverrun.spark.source import LogReader

    return LogReader(packed)
