"""Rows that Spark computes with, as it sees them: beside what is packed, a nullable struct for each of their origins."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from riverrun.columns import TIME
from riverrun.runtime.compile.job import MOMENT, Job, Operator, sql_fields, struct_name
from riverrun.runtime.packing import PACKED


class Structs:
    """The columns after some origins: sources, or the operators of a stage."""

    def __init__(self, job: Job, origins: Mapping[str, pa.Schema], are_sources: bool) -> None:
        self._structs = {
            origin: sql_fields(columns, are_sources) for origin, columns in origins.items() if job.in_spark(origin)
        }
        self._extra = [pa.field(struct_name(o), pa.struct(list(fields))) for o, fields in self._structs.items()]
        self.schema = pa.schema([*PACKED, *self._extra])

    @classmethod
    def of_sources(cls, job: Job) -> Structs:
        return cls(job, job.sources, are_sources=True)

    @classmethod
    def of_stage(cls, job: Job, operators: tuple[Operator, ...]) -> Structs:
        return cls(job, {operator.id: operator.output for operator in operators}, are_sources=False)

    def packed(self, packed: pa.RecordBatch) -> pa.RecordBatch:
        """What is packed, with no struct beside it."""
        nulls = [pa.nulls(packed.num_rows, field.type) for field in self._extra]
        return pa.RecordBatch.from_arrays([*packed.columns, *nulls], schema=self.schema)

    def rows(self, origin: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of an origin as its struct; they have its columns and the carried ones."""
        fields = self._structs[origin]
        columns = []
        for field in fields:
            column = rows.column(field.name)
            if field.name == TIME:
                column = column.view(MOMENT)
            columns.append(column if column.type == field.type else column.cast(field.type))
        struct = pa.StructArray.from_arrays(columns, fields=list(fields))
        arrays = [struct if f.name == struct_name(origin) else pa.nulls(len(struct), f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
