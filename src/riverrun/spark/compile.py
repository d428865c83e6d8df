"""A job on Spark: source → shuffle by shard → host → … → packed results.

Nothing is scanned twice and nothing is in Spark's state store. Stages = depth of stateful nodes. Rows stay in Arrow. Only
where a branch has an expression that nobody but Spark computes, the rows of its origin go through a projection of the JVM,
as structs: all such branches of a stage in one projection.

An epoch that is read by one task is computed whole by that task. Others get their stages when they begin, so a small
epoch does not pay for the stages of a large one. A job that needs Spark's projections has all of it in its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from riverrun import ddl
from riverrun.columns import CARRIED, RECEIVED, TIME
from riverrun.flow import Flow
from riverrun.flow.composition import Item
from riverrun.flow.operators.transform import Transform
from riverrun.runtime.compile.job import Branch, Job, Transformed, struct_name
from riverrun.runtime.epoch import EpochResult, unpack_result
from riverrun.runtime.exchange import InlineExchange
from riverrun.runtime.host import run_stage
from riverrun.runtime.packing import PACKED, PACKED_DDL, Packer
from riverrun.runtime.transit import report_errors
from riverrun.spark import transform
from riverrun.spark.deployment import Deployment, Worker, worker
from riverrun.spark.registration import log_source, source_name
from riverrun.spark.structs import Structs
from riverrun.spark.types import spark_schema

Batches = Iterable[pa.RecordBatch]


class SparkJob:
    """A deployment as Spark runs it."""

    def __init__(self, spark: SparkSession, deployment: Deployment, flow: Flow) -> None:
        self._spark = spark
        self._deployment = deployment
        self._job = deployment.job
        self._flow = flow
        self._packed = dumps(deployment)

    def stream(self) -> DataFrame:
        """What a streaming query is started on."""
        sources = Structs.of_sources(self._job)
        self._spark.dataSource.register(log_source(self._deployment, self._packed, spark_schema(sources.schema)))
        frame = self._spark.readStream.format(source_name(self._deployment.label)).load()
        return self._all_stages(frame) if self._job.needs_spark else frame

    def compute(self, batch: DataFrame, epoch: int) -> EpochResult:
        """Run an epoch: one batch of the query."""
        if not self._job.needs_spark and _partitions(batch) > 1:
            batch = self._all_stages(batch)
        return unpack_result(batch.toArrow().to_batches(), self._deployment.connect(epoch))

    def _all_stages(self, source: DataFrame) -> DataFrame:
        """All stages on the rows of the source; the result is `PACKED`."""
        job = self._job
        frames: dict[str, DataFrame] = {}  # where the rows of an origin are
        frame = self._packed_after(source, list(job.sources), 0, frames)
        for stage, operators in enumerate(job.stages):
            spread = frame.repartitionById(job.shards, F.col("shard"))
            schema = Structs.of_stage(job, operators).schema
            hosted = spread.mapInArrow(_host(self._packed, stage), spark_schema(schema))
            frame = self._packed_after(hosted, [operator.id for operator in operators], stage + 1, frames)
        return frame

    def _packed_after(
        self, frame: DataFrame, origins: Sequence[str], stage: int, frames: dict[str, DataFrame]
    ) -> DataFrame:
        """What goes on to the next stage. A transform takes the rows once more: a plan that forks computes twice."""
        frames.update(dict.fromkeys(origins, frame))
        packed = _project(frame, self._job, origins)
        for transformed in self._job.transforms:
            if transformed.stage == stage:
                frames[transformed.id] = self._transform(transformed, frames)
                packed = packed.unionAll(_project(frames[transformed.id], self._job, [transformed.id]))
        return packed

    def _transform(self, transformed: Transformed, frames: dict[str, DataFrame]) -> DataFrame:
        node = self._flow.graph.nodes[transformed.id]
        assert isinstance(node, Transform)
        parts = []
        for branch in self._job.into_target[transformed.id]:
            struct = f"`{struct_name(branch.origin)}`"
            received = RECEIVED in branch.schema.names
            items = [
                f"{typed_value(i, branch.schema)} AS {ddl.quoted(i.name)}" for i in branch.items if i.name != RECEIVED
            ]
            rows = frames[branch.origin].where(_condition(branch))
            parts.append(rows.selectExpr(*items, transform.carried(struct, received, branch.way, branch.time)))
        rows = transform.apply(node, reduce(DataFrame.unionAll, parts))
        nothing = [
            f"CAST(NULL AS {kind}) AS {name}" for name, kind in (part.split() for part in PACKED_DDL.split(", "))
        ]
        return transform.as_struct(rows, struct_name(transformed.id), transformed.output, nothing)


def _partitions(batch: DataFrame) -> int:
    """How many tasks read a batch."""
    return int(batch._jdf.queryExecution().toRdd().getNumPartitions())


def _project(frame: DataFrame, job: Job, origins: Sequence[str]) -> DataFrame:
    """Every branch after these origins that Spark computes, as a nullable struct, in one projection; then packed."""
    by_spark = [branch for origin in origins for branch in job.in_spark(origin)]
    transforms = {transformed.id for transformed in job.transforms}
    branches = [branch for branch in by_spark if branch.target not in transforms]
    if not branches:
        return frame.where("branch IS NOT NULL").select(*PACKED.names) if by_spark else frame
    columns = [f"{_struct(branch)} AS b{branch.index}" for branch in branches]
    return frame.selectExpr(*PACKED.names, *columns).mapInArrow(_pack(job, branches), PACKED_DDL)


def _struct(branch: Branch) -> str:
    struct = f"`{struct_name(branch.origin)}`"
    fields = [f"{ddl.literal(item.name)}, {typed_value(item, branch.schema)}" for item in branch.items]
    for name in CARRIED:
        value = f"unix_micros({branch.time or f'{struct}.`{TIME}`'})" if name == TIME else f"{struct}.`{name}`"
        fields.append(f"{ddl.literal(name)}, {value}")
    return f"CASE WHEN {_condition(branch)} THEN named_struct({', '.join(fields)}) END"


def _condition(branch: Branch) -> str:
    is_there = f"`{struct_name(branch.origin)}` IS NOT NULL"
    return f"{is_there} AND ({branch.condition})" if branch.condition else is_there


def typed_value(item: Item, schema: pa.Schema) -> str:
    """A column of a branch in its type: SQL."""
    return f"CAST({item.sql} AS {ddl.from_arrow(schema.field(item.name).type)})"


def _pack(job: Job, branches: Sequence[Branch]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    transforms = {transformed.id for transformed in job.transforms}

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        siblings = {branch.index: transform.Siblings() for branch in branches if branch.origin in transforms}
        packer = Packer(job.shards, InlineExchange())
        for batch in batches:
            passing = batch.filter(batch.column("branch").is_valid()).select(PACKED.names)
            if passing.num_rows:
                yield pa.RecordBatch.from_arrays(passing.columns, schema=PACKED)
            for branch in branches:
                structs = batch.column(f"b{branch.index}").drop_null()
                if len(structs):
                    rows = _flat(structs, branch.schema)
                    packer.rows(branch, siblings[branch.index].told_apart(rows) if branch.index in siblings else rows)
            yield packer.batch()

    return pack


def _flat(structs: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(structs.flatten(), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _host(packed: bytes, stage: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def host(batches: Batches) -> Iterator[pa.RecordBatch]:
        here = worker(packed)
        structs = Structs.of_stage(here.tasks.job, here.tasks.job.stages[stage])
        for batch in report_errors(_stage(here, structs, stage, batches), here.tasks.job.shards):
            yield batch if batch.schema.equals(structs.schema) else structs.packed(batch)

    return host


def _stage(here: Worker, structs: Structs, stage: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch, rows in run_stage(here.tasks, stage, batches, here.deployment.connect):
        yield structs.packed(batch)
        for origin, waiting in rows.items():
            yield structs.rows(origin, waiting)
