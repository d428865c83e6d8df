"""What only Spark knows of a flow: types of expressions outside the verified set, and the columns of transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from riverrun import ddl
from riverrun.flow.composition import Item
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.transform import Transform
from riverrun.runtime.compile.job import sql_fields, struct_name
from riverrun.spark import transform
from riverrun.spark.types import arrow_schema, spark_schema


class SparkAnalyst:
    """Asks Spark, which is waited for when the first question comes: most flows have none."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        rows = self._empty(pa.schema([(struct_name(origin), pa.struct(list(fields)))]))
        typed = arrow_schema(rows.selectExpr(*(f"{item.sql} AS {ddl.quoted(item.name)}" for item in items)).schema)
        return {field.name: field.type for field in typed}

    def transformed(self, node: Node, columns: pa.Schema) -> pa.Schema:
        assert isinstance(node, Transform)
        row = sql_fields(pa.schema([]), is_source=True)
        rows = self._empty(pa.schema([*columns, (transform.ROW, pa.struct(list(row)))]))
        return arrow_schema(transform.apply(node, rows).drop(transform.ROW).schema)

    def _empty(self, schema: pa.Schema) -> DataFrame:
        return self._spark().createDataFrame([], spark_schema(schema))
