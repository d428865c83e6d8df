"""A batch of messages as changes of a table."""

from __future__ import annotations

import pyarrow as pa

from riverrun.envelopes.changes import MessageChanges
from riverrun.envelopes.debezium import read_debezium
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.maxwell import read_maxwell


def read_changes(
    envelope: Envelope, texts: pa.ChunkedArray | pa.Array, keys: pa.ChunkedArray | pa.Array | None = None
) -> MessageChanges:
    """The changes in messages: their values as JSON, null in a tombstone, and their keys, if there are any."""
    read = read_maxwell if envelope.form.name == "maxwell" else read_debezium
    written = texts.cast(pa.binary()).to_pylist()
    return read(envelope, [None] * len(written) if keys is None else keys.cast(pa.binary()).to_pylist(), written)
