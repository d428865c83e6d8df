"""A job as one streaming query: source → (projection → pack) → shuffle by shard → host → … → packed results.

Nothing is scanned twice and nothing is in Spark's state store. Stages = depth of stateful nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from riverrun import ddl
from riverrun.runtime.blob import PACKED, PACKED_DDL, Packer
from riverrun.runtime.branch import HIDDEN, TIME, Item
from riverrun.runtime.host import run_stage
from riverrun.runtime.job import Branch, Job, struct_name
from riverrun.runtime.shape import Shape
from riverrun.runtime.source import source_shape
from riverrun.spark.registration import log_source, source_name
from riverrun.spark.source import Deployment
from riverrun.spark.types import arrow_schema, spark_schema


def streaming_frame(spark: SparkSession, deployment: Deployment) -> DataFrame:
    """The whole flow; its rows are `PACKED`."""
    job = deployment.job
    spark.dataSource.register(log_source(deployment, spark_schema(source_shape(job).schema)))
    frame = spark.readStream.format(source_name(deployment.flow)).load()
    frame = _projected(frame, job, list(job.sources))
    for stage, operators in enumerate(job.stages):
        spread = frame.repartitionById(job.shards, F.col("shard"))
        columns = {operator.id: operator.output for operator in operators}
        shape = Shape(job, columns, are_sources=False)
        frame = spread.mapInArrow(_host(job, stage, shape), spark_schema(shape.schema))
        frame = _projected(frame, job, list(columns))
    return frame


def _projected(frame: DataFrame, job: Job, origins: Sequence[str]) -> DataFrame:
    """Every SQL branch behind these origins as a nullable struct, in one projection; then packed."""
    branches = [b for origin in origins for b in job.from_origin.get(origin, ()) if not b.trivial]
    if not branches:
        return frame
    made = [f"{_expression(branch)} AS b{branch.index}" for branch in branches]
    return frame.selectExpr(*PACKED.names, *made).mapInArrow(_pack(job, branches), PACKED_DDL)


def _expression(branch: Branch) -> str:
    struct = f"`{struct_name(branch.origin)}`"
    fields = [f"{_literal(item.name)}, {_value(item, branch.schema)}" for item in branch.items]
    for name in HIDDEN:
        value = f"unix_micros({struct}.`{TIME}`)" if name == TIME else f"{struct}.`{name}`"
        fields.append(f"{_literal(name)}, {value}")
    when = f"{struct} IS NOT NULL" + (f" AND ({branch.condition})" if branch.condition else "")
    return f"CASE WHEN {when} THEN named_struct({', '.join(fields)}) END"


def _value(item: Item, schema: pa.Schema) -> str:
    return f"CAST({item.sql} AS {ddl.from_arrow(schema.field(item.name).type)})"


def _literal(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


Batches = Iterable[pa.RecordBatch]


def _pack(job: Job, branches: Sequence[Branch]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            passing = batch.filter(batch.column("branch").is_valid()).select(PACKED.names)
            if passing.num_rows:
                yield pa.RecordBatch.from_arrays(passing.columns, schema=PACKED)
            packer = Packer(job.shards)
            for branch in branches:
                structs = batch.column(f"b{branch.index}").drop_null()
                if len(structs):
                    packer.rows(branch, _flat(structs, branch.schema))
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


def analyser(spark: SparkSession) -> Callable[[str, pa.Schema, Sequence[Item]], Mapping[str, pa.DataType]]:
    """Asks Spark for the types of expressions that the flow could not infer."""

    def analyse(origin: str, fields: pa.Schema, items: Sequence[Item]) -> dict[str, Any]:
        struct = pa.schema([(struct_name(origin), pa.struct(list(fields)))])
        empty = spark.createDataFrame([], spark_schema(struct))
        made = arrow_schema(empty.selectExpr(*(f"{item.sql} AS `{item.name}`" for item in items)).schema)
        return {field.name: field.type for field in made}

    return analyse
