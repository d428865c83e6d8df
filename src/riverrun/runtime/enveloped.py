"""Rows that stand in messages: a chunk of a topic of Debezium's or Maxwell's as rows of the table inside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import DELETED, ENVELOPE, KEY, OFFSET, PARTITION, RECEIVED, TIME
from riverrun.envelopes.changes import MessageChanges
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.reading import read_changes
from riverrun.runtime.compile.job import ENVELOPE_TYPE, MOMENT, Reading
from riverrun.runtime.quarantine import positions, with_error

JSON, MESSAGE_KEY = "json", "key"
_CARRIED = (RECEIVED, KEY, PARTITION, OFFSET)
_VERSIONS = (
    "sent without {}, which did not change, and the flow reads the versions of this table as they came (as_of): let the"
    " source send whole rows (ALTER TABLE … REPLICA IDENTITY FULL)"
)


def open_messages(reading: Reading, messages: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """The rows of the table inside, tombstones among them; and the messages that cannot be taken in, with `_error`."""
    envelope = reading.envelope
    assert envelope is not None
    found = changes_in(envelope, messages)
    errors = dict(found.errors)
    chosen = None
    if not reading.completes and found.kept.null_count < len(found.kept):
        whole = found.kept.is_null()
        chosen = np.asarray(whole)
        for place in np.flatnonzero(~chosen).tolist():
            errors[int(found.at[place])] = _VERSIONS.format(", ".join(found.kept[place].as_py()))
        chosen &= ~np.isin(found.at, [at for at in errors if at not in found.errors])
    rows = _rows(reading, messages, found)
    if chosen is not None:
        rows = rows.filter(pa.array(chosen))
    if not errors:
        return rows, None
    places = sorted(errors)
    refused = messages.take(pa.array(places, pa.int64()))
    return rows, with_error(refused, pa.array([errors[place] for place in places], pa.string()))


def changes_in(envelope: Envelope, messages: pa.Table) -> MessageChanges:
    """What the messages of a chunk come to."""
    keys = messages.column(MESSAGE_KEY) if MESSAGE_KEY in messages.column_names else None
    return read_changes(envelope, messages.column(JSON), keys)


def moments_in(changes: MessageChanges, column: str, received: pa.ChunkedArray) -> pa.Table:
    """The event times that changes have, which may be null, and when each was received, both in microseconds."""
    times = changes.times
    if column != TIME:
        times = pc.coalesce(changes.rows.column(column).cast(pa.int64()), times)
    return pa.table({"time": times, "received": received.take(pa.array(changes.at)).cast(pa.int64())})


def _rows(reading: Reading, messages: pa.Table, found: MessageChanges) -> pa.Table:
    at = pa.array(found.at)
    carried = messages.select(list(_CARRIED)).take(at)
    columns = {name: found.rows.column(name) for name in reading.columns.names}
    columns[DELETED] = pa.array(found.deleted)
    columns[ENVELOPE] = _envelopes(reading, messages, found, at)
    columns |= {name: carried.column(name) for name in _CARRIED}
    columns[TIME] = pc.coalesce(found.times.cast(MOMENT), messages.column(TIME).take(at).cast(MOMENT))
    return pa.table(columns)


def _envelopes(reading: Reading, messages: pa.Table, found: MessageChanges, at: pa.Array) -> pa.Array:
    """For rows that lack values, which, and the message as it came: it may turn out that nobody knows them."""
    partial = found.kept.is_valid()
    if found.kept.null_count == len(found.kept):
        return pa.nulls(len(at), ENVELOPE_TYPE)
    sent = messages.take(at.filter(partial)).combine_chunks()
    key = sent.column(MESSAGE_KEY) if MESSAGE_KEY in sent.column_names else pa.nulls(sent.num_rows, pa.string())
    parts = [found.kept.filter(partial), key, sent.column(JSON), positions(reading.topic, sent)]
    flat = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts]
    made = pa.StructArray.from_arrays(flat, fields=list(ENVELOPE_TYPE))
    places = np.full(len(at), -1)
    places[np.asarray(partial)] = np.arange(len(made))
    return made.take(pa.array(places, mask=places < 0))
