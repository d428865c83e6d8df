"""Frames → record batches, with the hidden columns. Pure: no files, no locks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from riverrun import calendar
from riverrun.columns import RECEIVED
from riverrun.log.codec import HIDDEN, MOMENT, body_schema
from riverrun.log.frame import OFFSETS
from riverrun.log.rows import key_text
from riverrun.log.stored_spec import StoredSpec

# Frames with fewer rows are decoded together, up to so many rows and bytes: it is the number of batches that costs.
_SMALL_ROWS = 1 << 10
_RUN_ROWS = 8 << 10
_RUN_BYTES = 4 << 20


def decodable_runs(index: np.ndarray, low: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
    """Neighbours that can be decoded together. One that is large, or of which a part is wanted, stands alone."""
    partitions = index["partition"]
    begins, ends = index["offset"], index["offset"] + index["span"]
    alone = (index["rows"] >= _SMALL_ROWS) | (begins < low[partitions]) | (ends > high[partitions])
    layouts = zip(index["schema"].tolist(), index["flags"].tolist(), strict=True)
    sizes = zip(index["rows"].tolist(), np.maximum(index["raw_bytes"], index["body_bytes"]).tolist(), strict=True)
    begin = rows = size = 0
    before = None
    for i, (layout, stands_alone, (more_rows, more_bytes)) in enumerate(
        zip(layouts, alone.tolist(), sizes, strict=True)
    ):
        rows, size = rows + more_rows, size + more_bytes
        fits = layout == before and not stands_alone and rows <= _RUN_ROWS and size <= _RUN_BYTES
        if i > begin and not fits:
            yield index[begin:i]
            begin, rows, size = i, more_rows, more_bytes
        before = None if stands_alone else layout
    if begin < len(index):
        yield index[begin:]


class Origin(NamedTuple):
    """What headers say of rows and bodies leave out: numbers for one frame, arrays for several."""

    rows: Any
    partition: Any
    shift: Any  # from the place of a row in the batch to its offset
    received: Any

    def of_each(self, value: Any, kind: type) -> np.ndarray:
        return np.repeat(np.asarray(value, kind), self.rows)


class _Layout(NamedTuple):
    """How the bodies of a schema version with certain flags are read."""

    schema: pa.Schema
    head: bytes  # the schema as the beginning of an Arrow stream
    options: ipc.IpcReadOptions


class Decoder:
    """Frames of one topic → record batches of `shown`, with hidden columns. `columns` limits what is made."""

    def __init__(
        self,
        spec: StoredSpec,
        shown: pa.Schema,
        schemas: Mapping[int, pa.Schema],
        columns: Sequence[str] | None = None,
    ) -> None:
        self._spec = spec
        self._schemas = schemas
        fields = [*(field.with_nullable(True) for field in shown), *(pa.field(n, t) for n, t in HIDDEN.items())]
        if columns is not None:
            named = {field.name: field for field in fields}
            fields = [named[name] for name in columns]
        self.schema = pa.schema(fields)
        self._timed = [i for i, field in enumerate(fields) if calendar.has_times(field.type) and field.name != RECEIVED]
        self._layouts: dict[tuple[int, int], _Layout] = {}

    def decode(self, header: Any, body: pa.Buffer, low: int = 0, high: int | None = None) -> pa.RecordBatch:
        """The rows of a frame whose offsets lie in [low, high)."""
        flags = int(header["flags"])
        batch = ipc.read_record_batch(body, self._layout(int(header["schema"]), flags).schema)
        first = int(header["offset"])
        begin, end = 0, batch.num_rows
        if low > first or (high is not None and high < first + int(header["span"])):
            stop = (1 << 62) if high is None else high
            if flags & OFFSETS:
                offsets = batch.column("_offset").to_numpy()
                begin, end = (int(i) for i in np.searchsorted(offsets, (low, stop)))
            else:
                begin, end = max(low - first, 0), min(stop - first, end)
            end = max(begin, end)
            batch = batch.slice(begin, end - begin)
        origin = Origin(batch.num_rows, int(header["partition"]), first + begin, int(header["received"]))
        return self._shown(batch, origin)

    def decode_run(self, run: np.ndarray, bodies: Sequence[pa.Buffer]) -> pa.RecordBatch:
        """All rows of several frames with the same schema and flags, as one batch."""
        layout = self._layout(int(run["schema"][0]), int(run["flags"][0]))
        stream = b"".join([layout.head, *bodies])
        table = ipc.open_stream(stream, options=layout.options).read_all()
        rows = run["rows"].astype(np.int64)
        origin = Origin(rows, run["partition"], run["offset"] - (np.cumsum(rows) - rows), run["received"])
        return self._shown(table.combine_chunks().to_batches()[0], origin)

    def show(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that carry `_partition`, `_offset` and `_received` themselves, as they are shown."""
        return self._shown(batch, Origin(batch.num_rows, 0, 0, 0))

    def _layout(self, version: int, flags: int) -> _Layout:
        layout = self._layouts.get((version, flags))
        if layout is None:
            schema = body_schema(self._schemas[version], flags)
            used = {*self.schema.names, *self._spec.key, self._spec.time, "_received"}
            options = ipc.IpcReadOptions(included_fields=[i for i, name in enumerate(schema.names) if name in used])
            layout = self._layouts[version, flags] = _Layout(schema, schema.serialize().to_pybytes(), options)
        return layout

    def _shown(self, batch: pa.RecordBatch, origin: Origin) -> pa.RecordBatch:
        arrays = [self._column(field, batch, origin) for field in self.schema]
        for i in self._timed:
            arrays[i] = calendar.clamp(arrays[i])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema) if arrays else batch.select([])

    def _column(self, field: pa.Field, batch: pa.RecordBatch, origin: Origin) -> pa.Array:
        name, rows = field.name, batch.num_rows
        if name == "_time" and self._spec.time is not None:
            times = batch.column(self._spec.time)
            # A tombstone has no time of its own.
            return pc.coalesce(times, self._received(batch, origin)) if times.null_count else times
        if name in batch.schema.names:
            return batch.column(name)
        if name == "_partition":
            return pa.array(origin.of_each(origin.partition, np.int32))
        if name == "_offset":
            return pa.array(origin.of_each(origin.shift, np.int64) + np.arange(rows))
        if name in ("_received", "_time"):
            return self._received(batch, origin)
        if name == "_key":
            return key_text(batch, self._spec.key) if self._spec.key else pa.nulls(rows, pa.string())
        if name == "_deleted":
            return pa.array(np.zeros(rows, np.bool_))
        return pa.nulls(rows, field.type)  # a column that came with a later version of the schema

    def _received(self, batch: pa.RecordBatch, origin: Origin) -> pa.Array:
        if "_received" in batch.schema.names:
            return batch.column("_received")
        return pa.array(origin.of_each(origin.received, np.int64)).view(MOMENT)
