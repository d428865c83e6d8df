"""A job as one streaming query: source → (projection → pack) → shuffle by shard → host → … → packed results.

Nothing is scanned twice and nothing is in Spark's state store. Stages = depth of stateful nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from riverrun import ddl
from riverrun.columns import CARRIED, RECEIVED, TIME
from riverrun.flow import Flow
from riverrun.flow.nodes import Transform
from riverrun.runtime.blob import PACKED, PACKED_DDL, Packer
from riverrun.runtime.branch import Item
from riverrun.runtime.host import run_stage
from riverrun.runtime.job import Branch, Job, Transformed, sql_fields, struct_name
from riverrun.runtime.shape import Shape
from riverrun.runtime.source import source_shape
from riverrun.spark import transform
from riverrun.spark.registration import log_source, source_name
from riverrun.spark.source import Deployment
from riverrun.spark.types import arrow_schema, spark_schema


def streaming_frame(spark: SparkSession, deployment: Deployment, flow: Flow) -> DataFrame:
    """The whole flow; its rows are `PACKED`."""
    job = deployment.job
    spark.dataSource.register(log_source(deployment, spark_schema(source_shape(job).schema)))
    frames: dict[str, DataFrame] = {}  # where the rows of an origin are
    frame = spark.readStream.format(source_name(deployment.label)).load()
    frame = _behind(frame, job, list(job.sources), 0, flow, frames)
    for stage, operators in enumerate(job.stages):
        spread = frame.repartitionById(job.shards, F.col("shard"))
        columns = {operator.id: operator.output for operator in operators}
        shape = Shape(job, columns, are_sources=False)
        frame = spread.mapInArrow(_host(job, stage, shape), spark_schema(shape.schema))
        frame = _behind(frame, job, list(columns), stage + 1, flow, frames)
    return frame


def _behind(
    frame: DataFrame, job: Job, origins: Sequence[str], stage: int, flow: Flow, frames: dict[str, DataFrame]
) -> DataFrame:
    """What goes on to the next stage. A transform takes the rows once more: a plan that forks computes twice."""
    frames.update(dict.fromkeys(origins, frame))
    packed = _projected(frame, job, origins)
    for made in job.transforms:
        if made.stage == stage:
            frames[made.id] = _transformed(job, made, flow, frames)
            packed = packed.unionAll(_projected(frames[made.id], job, [made.id]))
    return packed


def _transformed(job: Job, made: Transformed, flow: Flow, frames: Mapping[str, DataFrame]) -> DataFrame:
    node = flow.graph.nodes[made.id]
    assert isinstance(node, Transform)
    parts = []
    for branch in job.into_operator[made.id]:
        struct = f"`{struct_name(branch.origin)}`"
        received = RECEIVED in branch.schema.names
        items = [f"{_value(i, branch.schema)} AS {ddl.quoted(i.name)}" for i in branch.items if i.name != RECEIVED]
        rows = frames[branch.origin].where(_condition(branch))
        parts.append(rows.selectExpr(*items, transform.carried(struct, received, branch.path)))
    rows = transform.apply(node, reduce(DataFrame.unionAll, parts))
    nothing = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in (part.split() for part in PACKED_DDL.split(", "))]
    return transform.as_struct(rows, struct_name(made.id), made.output, nothing)


def _projected(frame: DataFrame, job: Job, origins: Sequence[str]) -> DataFrame:
    """Every SQL branch behind these origins as a nullable struct, in one projection; then packed."""
    behind = [b for origin in origins for b in job.from_origin.get(origin, ()) if not b.trivial]
    branches = [branch for branch in behind if branch.target not in job.by_spark]
    if not branches:
        return frame.where("branch IS NOT NULL").select(*PACKED.names) if behind else frame
    made = [f"{_expression(branch)} AS b{branch.index}" for branch in branches]
    return frame.selectExpr(*PACKED.names, *made).mapInArrow(_pack(job, branches), PACKED_DDL)


def _expression(branch: Branch) -> str:
    struct = f"`{struct_name(branch.origin)}`"
    fields = [f"{ddl.literal(item.name)}, {_value(item, branch.schema)}" for item in branch.items]
    for name in CARRIED:
        value = f"unix_micros({struct}.`{TIME}`)" if name == TIME else f"{struct}.`{name}`"
        fields.append(f"{ddl.literal(name)}, {value}")
    return f"CASE WHEN {_condition(branch)} THEN named_struct({', '.join(fields)}) END"


def _condition(branch: Branch) -> str:
    is_there = f"`{struct_name(branch.origin)}` IS NOT NULL"
    return f"{is_there} AND ({branch.condition})" if branch.condition else is_there


def _value(item: Item, schema: pa.Schema) -> str:
    return f"CAST({item.sql} AS {ddl.from_arrow(schema.field(item.name).type)})"


Batches = Iterable[pa.RecordBatch]


def _pack(job: Job, branches: Sequence[Branch]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    made = {made.id for made in job.transforms}

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        siblings = {branch.index: transform.Siblings() for branch in branches if branch.origin in made}
        for batch in batches:
            passing = batch.filter(batch.column("branch").is_valid()).select(PACKED.names)
            if passing.num_rows:
                yield pa.RecordBatch.from_arrays(passing.columns, schema=PACKED)
            packer = Packer(job.shards)
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


def _host(job: Job, stage: int, shape: Shape) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def host(batches: Batches) -> Iterator[pa.RecordBatch]:
        for packed, rows in run_stage(job, stage, batches):
            yield shape.packed(packed)
            for node, found in rows.items():
                yield shape.rows(node, found)

    return host


class SparkAnalyst:
    """Asks Spark for what the flow could not infer."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        made = self._empty(pa.schema([(struct_name(origin), pa.struct(list(fields)))]))
        found = arrow_schema(made.selectExpr(*(f"{item.sql} AS {ddl.quoted(item.name)}" for item in items)).schema)
        return {field.name: field.type for field in found}

    def transformed(self, node: Transform, columns: pa.Schema) -> pa.Schema:
        row = sql_fields(pa.schema([]), is_source=True)
        rows = self._empty(pa.schema([*columns, (transform.ROW, pa.struct(list(row)))]))
        return arrow_schema(transform.apply(node, rows).drop(transform.ROW).schema)

    def _empty(self, schema: pa.Schema) -> DataFrame:
        return self._spark.createDataFrame([], spark_schema(schema))
