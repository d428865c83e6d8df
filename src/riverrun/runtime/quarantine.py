"""Rows that a source does not let in: those from further in the future than `max_skew`, and messages it cannot read.

They are written to `<topic>.quarantine` with where they stand and what is wrong with them, and counted in the ledger.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import OFFSET, PARTITION, RECEIVED
from riverrun.durations import show
from riverrun.runtime.compile.job import Reading
from riverrun.runtime.packing import as_stream


def quarantine_topic(topic: str) -> str:
    """Where rows of a topic go that cannot be taken in: its columns, `_error`, and `_position` of the row."""
    return f"{topic}.quarantine"


def quarantine_schema(topic: pa.Schema) -> pa.Schema:
    """The columns of a quarantine topic."""
    columns = [field.with_nullable(True) for field in topic]
    return pa.schema([*columns, ("_error", pa.string()), ("_position", pa.string())])


def is_ahead(
    times: npt.NDArray[np.int64], received: npt.NDArray[np.int64], max_skew: int | None
) -> npt.NDArray[np.bool_]:
    """Which times lie further ahead of the moment of receipt than a row's may."""
    if max_skew is None:
        return np.zeros(len(times), np.bool_)
    return times > received + max_skew


def admit(reading: Reading, rows: pa.Table, times: pa.ChunkedArray) -> tuple[pa.Table, pa.Table | None]:
    """The rows that a source lets in, and those it does not, with `_error`; `times` are their event times in
    microseconds."""
    if reading.max_skew is None or reading.time is None or not rows.num_rows:
        return rows, None
    skewed = is_ahead(times.to_numpy(), rows.column(RECEIVED).cast(pa.int64()).to_numpy(), reading.max_skew)
    if not skewed.any():
        return rows, None
    error = f"{reading.time} is more than {show(reading.max_skew)} ahead of the time the row was received"
    ahead = rows.filter(pa.array(skewed))
    return rows.filter(pa.array(~skewed)), ahead.append_column("_error", pa.repeat(error, ahead.num_rows))


def quarantine_message(reading: Reading, rows: pa.Table) -> bytes:
    """Rows with `_error` for the quarantine topic, as the driver gets them."""
    rows = rows.append_column("_position", positions(reading.topic, rows))
    return msgspec.msgpack.encode((reading.topic, reading.id, as_stream(rows)))


def positions(topic: str, rows: pa.Table) -> pa.ChunkedArray:
    """Where rows stand in a topic: "orders@0:17"."""
    partition, offset = (rows.column(name).cast(pa.string()) for name in (PARTITION, OFFSET))
    return pc.binary_join_element_wise(pc.binary_join_element_wise(f"{topic}@", partition, ""), offset, ":")
