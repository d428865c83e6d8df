"""What only Spark knows of a flow: types of expressions outside the verified set, whether there is a function of that name, and
the columns of transforms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.expressions.forms import FORMS
from riverrun.flow.composition import Item
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.transform import Transform
from riverrun.runtime.compile.job import Job, sql_fields, struct_name
from riverrun.spark import transform
from riverrun.spark.types import arrow_schema, spark_schema


class SparkAnalyst:
    """Asks Spark, which is waited for when the first question comes: most flows have none."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    def types(self, origin: str, fields: pa.Schema, items: Sequence[Item]) -> Mapping[str, pa.DataType]:
        rows = self._empty(_struct_of(origin, fields))
        try:
            typed = arrow_schema(rows.selectExpr(*(f"{item.sql} AS {ddl.quoted(item.name)}" for item in items)).schema)
        except AnalysisException as error:
            for item in items:
                _check(rows, item.sql, f"column {item.name}")
            raise _refusal(error, f"the columns of {origin}") from None
        return {field.name: field.type for field in typed}

    def check(self, job: Job) -> None:
        """Refuse an expression that Spark cannot read, with its line: it would fail every epoch."""
        outputs = {operator.id: operator.output for stage in job.stages for operator in stage}
        outputs |= {transformed.id: transformed.output for transformed in job.transforms}
        for origin in dict.fromkeys(branch.origin for branch in job.branches if branch.engine == "spark"):
            is_source = origin in job.sources
            fields = sql_fields(job.sources[origin] if is_source else outputs[origin], is_source)
            rows = self._empty(_struct_of(origin, fields))
            for written in dict.fromkeys(one for branch in job.in_spark(origin) for one in branch.written):
                _check(rows, written.sql, f"{written.place}: {written.text}")

    def transformed(self, node: Node, columns: pa.Schema) -> pa.Schema:
        assert isinstance(node, Transform)
        row = sql_fields(pa.schema([]), is_source=True)
        rows = self._empty(pa.schema([*columns, (transform.ROW, pa.struct(list(row)))]))
        return arrow_schema(transform.apply(node, rows).drop(transform.ROW).schema)

    def _empty(self, schema: pa.Schema) -> DataFrame:
        return self._spark().createDataFrame([], spark_schema(schema))


def _struct_of(origin: str, fields: pa.Schema) -> pa.Schema:
    return pa.schema([(struct_name(origin), pa.struct(list(fields)))])


def _check(rows: DataFrame, sql: str, what: str) -> None:
    try:
        _ = rows.selectExpr(f"{sql} AS value").schema
    except AnalysisException as error:
        raise _refusal(error, what) from None


def _refusal(error: AnalysisException, what: str) -> Invalid:
    """What Spark says of an expression, without its plans."""
    said = error.getMessageParameters() or {}
    if error.getCondition() == "UNRESOLVED_ROUTINE":
        name = said.get("routineName", "").strip("`")
        near = get_close_matches(name.lower(), [*FORMS, *dir(functions)], n=1)
        hint = (
            f"Did you mean {near[0]!r}?" if near else "Functions are those of Spark SQL, and what was registered there"
        )
        return Invalid(f"{what}: there is no function {name!r}", hint=hint)
    first = str(error).partition("\n")[0].partition(" SQLSTATE")[0].rstrip(".")
    first = re.sub(r"\b[a-z]_[0-9a-f]{8}\.", "", first)  # columns are fields of a struct there
    return Invalid(f"{what}: {first}", hint="Is it SQL as Spark reads it? Conditions are joined with AND and OR")
