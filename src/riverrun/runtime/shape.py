"""Rows of a stage as Spark sees them: blobs, and for every origin with SQL behind it a nullable struct."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from riverrun.columns import TIME
from riverrun.runtime.blob import PACKED
from riverrun.runtime.job import MOMENT, Job, sql_fields, struct_name


class Shape:
    """The columns behind some origins (sources, or the operators of a stage)."""

    def __init__(self, job: Job, origins: Mapping[str, pa.Schema], are_sources: bool) -> None:
        self.structs = {
            origin: sql_fields(columns, are_sources) for origin, columns in origins.items() if job.has_sql([origin])
        }
        self._extra = [pa.field(struct_name(o), pa.struct(list(fields))) for o, fields in self.structs.items()]
        self.schema = pa.schema([*PACKED, *self._extra])

    def packed(self, blobs: pa.RecordBatch) -> pa.RecordBatch:
        """Blobs, with no struct beside them."""
        nulls = [pa.nulls(blobs.num_rows, field.type) for field in self._extra]
        return pa.RecordBatch.from_arrays([*blobs.columns, *nulls], schema=self.schema)

    def rows(self, origin: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of an origin as its struct; they have its columns and the carried ones."""
        fields = self.structs[origin]
        columns = []
        for field in fields:
            column = rows.column(field.name)
            if field.name == TIME:
                column = column.view(MOMENT)
            columns.append(column if column.type == field.type else column.cast(field.type))
        struct = pa.StructArray.from_arrays(columns, fields=list(fields))
        arrays = [struct if f.name == struct_name(origin) else pa.nulls(len(struct), f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
