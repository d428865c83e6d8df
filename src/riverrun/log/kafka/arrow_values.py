"""Values as Arrow: a value is a whole batch. The fastest way, between Riverruns; nobody else reads it.

A row's offset is that of its message times `ROWS`, plus its place in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from riverrun.log.kafka.values import Decoded, Values

ROW_BITS = 16
ROWS = 1 << ROW_BITS
_BYTES = 512 << 10  # of one value: Kafka's own limit is about a megabyte


class ArrowValues(Values):
    """One Arrow stream for each value, with its schema, so that it says itself which columns it has."""

    whole_batches = True

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        return [sink.getvalue().to_pybytes()]

    @staticmethod
    def pieces(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """As many rows as one message may have, again and again."""
        step = max(1, min(ROWS, int(rows.num_rows * _BYTES / max(rows.nbytes, 1))))
        return [rows.slice(at, step) for at in range(0, rows.num_rows, step)]

    def decode(self, values: Sequence[bytes], versions: Sequence[int]) -> Decoded:
        batches, places, bad = [], [], {}
        for i, value in enumerate(values):
            try:
                table = ipc.open_stream(value).read_all()
                batches.append(self._shown(table))
                places.append(i)
            except (pa.ArrowException, OSError) as error:
                bad[i] = f"not a batch of Arrow for this topic ({str(error).partition(chr(10))[0]})"
        kept = np.repeat(np.array(places, np.int64), [batch.num_rows for batch in batches])
        schema = batches[0].schema if batches else self.schema
        same = [batch if batch.schema.equals(schema) else None for batch in batches]
        if None in same:  # batches with and without hidden columns
            tables = [pa.Table.from_batches([batch]) for batch in batches]
            whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
            return Decoded(whole.to_batches()[0] if whole.num_rows else _empty(whole.schema), kept, bad)
        return Decoded(pa.concat_batches(batches) if batches else _empty(schema), kept, bad)

    def _shown(self, table: pa.Table) -> pa.RecordBatch:
        """The columns that are known here, and the hidden ones that rows carry."""
        arrays, fields = [], []
        for field in self.schema:
            there = field.name in table.column_names
            arrays.append(table.column(field.name).cast(field.type) if there else pa.nulls(table.num_rows, field.type))
            fields.append(field)
        for name in ("_deleted", "_time"):
            if name in table.column_names:
                arrays.append(table.column(name))
                fields.append(table.schema.field(name))
        whole = pa.Table.from_arrays(arrays, schema=pa.schema(fields)).combine_chunks()
        return whole.to_batches()[0] if whole.num_rows else _empty(whole.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
