"""Rows that a source does not let in: those from further in the future than `max_skew`, and messages it cannot read.

They are written to `<topic>.quarantine` with where they stand and what is wrong with them, and counted in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import ERROR, MESSAGE, MESSAGE_KEY, OFFSET, PARTITION, POSITION, RECEIVED
from riverrun.durations import show
from riverrun.log.topic_backend import Undecodable
from riverrun.runtime.compile.job import Reading
from riverrun.runtime.packing import as_stream

_OWN = (ERROR, POSITION, MESSAGE, MESSAGE_KEY)


def quarantine_topic(topic: str) -> str:
    """Where rows of a topic go that cannot be taken in: its columns, `_error`, and `_position` of the row."""
    return f"{topic}.quarantine"


def quarantine_schema(topic: pa.Schema, messages: bool = False) -> pa.Schema:
    """The columns of a quarantine topic; where `messages` can be no rows at all, with what those are."""
    columns = [field.with_nullable(True) for field in topic if field.name not in _OWN]
    bodies = [(MESSAGE_KEY, pa.binary()), (MESSAGE, pa.binary())] if messages else []
    return pa.schema([*columns, (ERROR, pa.string()), (POSITION, pa.string()), *bodies])


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
    return rows.filter(pa.array(~skewed)), with_error(ahead, pa.repeat(error, ahead.num_rows))


def with_error(rows: pa.Table, errors: pa.Array) -> pa.Table:
    """Rows with what is wrong with them. Of those of a quarantine topic, what was wrong before is forgotten."""
    return rows.select([name for name in rows.column_names if name != ERROR]).append_column(ERROR, errors)


def quarantine_message(reading: Reading, rows: pa.Table) -> bytes:
    """Rows with `_error` for the quarantine topic, as the driver gets them."""
    kept = rows.select([name for name in rows.column_names if name not in _OWN])  # of quarantined rows there are others
    rows = with_error(kept, rows.column(ERROR)).append_column(POSITION, positions(reading.topic, rows))
    return msgspec.msgpack.encode((reading.topic, reading.id, as_stream(rows)))


def undecodable_message(reading: Reading, schema: pa.Schema, messages: Sequence[Undecodable]) -> bytes:
    """Messages that are no rows, for the quarantine topic, as the driver gets them."""
    columns = {field.name: pa.nulls(len(messages), field.type) for field in schema}
    columns[ERROR] = pa.array([message.error for message in messages], pa.string())
    places = [f"{reading.topic}@{message.partition}:{message.offset}" for message in messages]
    columns[POSITION] = pa.array(places, pa.string())
    columns[MESSAGE_KEY] = pa.array([message.key for message in messages], pa.binary())
    columns[MESSAGE] = pa.array([message.value for message in messages], pa.binary())
    columns["_time"] = pa.array([message.received for message in messages], pa.int64())
    return msgspec.msgpack.encode((reading.topic, reading.id, as_stream(pa.table(columns))))


def positions(topic: str, rows: pa.Table) -> pa.ChunkedArray:
    """Where rows stand in a topic: "orders@0:17"."""
    partition, offset = (rows.column(name).cast(pa.string()) for name in (PARTITION, OFFSET))
    return pc.binary_join_element_wise(pc.binary_join_element_wise(f"{topic}@", partition, ""), offset, ":")
