"""Rows ↔ messages. Pure: no client, no clock.

A row is a message: its key is the row's key as text (several columns: a JSON array), its value the row in the topic's format,
or nothing for a tombstone. What is Riverrun's own is in headers, which others pass over: the event time of a row that has no
column for it, and which version of the schema wrote an Avro record, if it is not the first. A promise is a message with a
header and a key of its own, and has a value, since compaction would take it for a tombstone otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.log.codec import HIDDEN, MOMENT, by_partition
from riverrun.log.kafka.arrow_values import ROW_BITS, ArrowValues
from riverrun.log.kafka.values import Values
from riverrun.log.rows import key_text
from riverrun.log.stored_spec import StoredSpec
from riverrun.log.topic_backend import PromiseMade, Undecodable

PROMISE = "riverrun-promise"
_TIME = "riverrun-time"
_SCHEMA = "riverrun-schema"
_PROMISE_KEY = "riverrun.promise:"
_AT_ONCE = 4096  # messages
_NULL_KEY = b"riverrun.null"  # of a row without a key where Kafka wants one, since it compacts

Headers = list[tuple[str, bytes]]


class OutgoingMessages(NamedTuple):
    """Messages to produce, all into one partition, column by column."""

    partition: int
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None] | None = None  # None: no message has any

    @classmethod
    def one(
        cls, partition: int, key: bytes | None, value: bytes | None, headers: Headers | None = None
    ) -> OutgoingMessages:
        """A single message."""
        return cls(partition, [key], [value], None if headers is None else [headers])


class Incoming(NamedTuple):
    """Messages as they were read, column by column."""

    partitions: list[int]
    offsets: list[int]
    millis: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers | None]

    @classmethod
    def of(cls, messages: Sequence[Any]) -> Incoming:
        """Of a client's messages."""
        return cls(
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [message.timestamp()[1] for message in messages],
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.headers() for message in messages],
        )


class Understood(NamedTuple):
    """What messages are: rows (with `_partition`, `_offset`, `_received`, for `Decoder.show`), promises, and neither."""

    rows: pa.RecordBatch
    promises: list[PromiseMade]
    undecodable: list[Undecodable]


def promise_message(partition: int, maxima: Mapping[str, int]) -> OutgoingMessages:
    """A promise. Compaction keeps the newest of each producer."""
    key = (_PROMISE_KEY + ",".join(sorted(maxima))).encode()
    return OutgoingMessages.one(partition, key, msgspec.json.encode(dict(maxima)), [(PROMISE, b"1")])


def row_messages(batch: pa.RecordBatch, values: Values, next_partition: int) -> Iterator[OutgoingMessages]:
    """The messages of a checked batch, those of a partition in the order of its rows, some at a time: while the client
    sends some, the next ones are encoded."""
    for partition, part in by_partition(batch, values.spec, next_partition):
        if isinstance(values, ArrowValues):
            for piece in values.pieces(part):
                yield OutgoingMessages(partition, [None], values.encode(piece))
            continue
        for at in range(0, part.num_rows, _AT_ONCE):
            yield _encoded(partition, part.slice(at, _AT_ONCE), values)


def _encoded(partition: int, part: pa.RecordBatch, values: Values) -> OutgoingMessages:
    spec = values.spec
    keys: list[bytes | None] = [None] * part.num_rows
    if spec.key:
        texts = key_text(part, spec.key).cast(pa.binary())
        keys = (texts.fill_null(_NULL_KEY) if spec.compact else texts).to_pylist()
    bodies: list[bytes | None] = [*values.encode(part.select(values.schema.names))]
    if "_deleted" in part.schema.names:
        deleted = part.column("_deleted").to_pylist()
        bodies = [None if gone else body for gone, body in zip(deleted, bodies, strict=True)]
    return OutgoingMessages(partition, keys, bodies, _headers(part, values))


def _headers(part: pa.RecordBatch, values: Values) -> list[Headers | None] | None:
    """What goes with the messages: most have nothing, which is cheaper than the shortest header."""
    newer = values.spec.format == "avro" and values.version > 1
    always = [(_SCHEMA, str(values.version).encode())] if newer else []
    if "_time" not in part.schema.names:
        return [always] * part.num_rows if always else None
    return [[*always, (_TIME, str(time).encode())] for time in part.column("_time").cast(pa.int64()).to_pylist()]


def understand(incoming: Incoming, values: Values) -> Understood:
    """What messages are, in their order."""
    promises: list[PromiseMade] = []
    bad: dict[int, str] = {}
    named = [dict(header) if header else {} for header in incoming.headers] if any(incoming.headers) else None
    full: Sequence[int]
    empty: list[int]
    if named is None and None not in incoming.values:  # as nearly always
        full, empty = range(len(incoming.values)), []
    else:
        full, empty = _sorted_out(incoming, named, promises, bad)
    versions = [_number(named[i].get(_SCHEMA)) for i in full] if named is not None else [0] * len(full)
    bodies: Any = incoming.values if len(full) == len(incoming.values) else [incoming.values[i] for i in full]
    decoded = values.decode(bodies, versions)
    bad |= {full[i]: why for i, why in decoded.bad.items()}
    places = np.arange(len(full)) if isinstance(full, range) else np.array(full, np.int64)
    if not isinstance(decoded.kept, range):  # else all of them
        places = places[np.asarray(decoded.kept, np.int64)]
    rows = decoded.rows
    if not values.whole_batches:
        rows, places = _with_tombstones(rows, places, empty, incoming, values, bad)
        rows, places = _with_keys(rows, places, incoming, values.spec, bad)
    elif empty:
        bad |= dict.fromkeys(empty, "a message without a value, in a topic whose values are batches")
    rows = _located(rows, places, incoming, values, named)
    return Understood(rows, promises, [_undecodable(incoming, i, bad[i]) for i in sorted(bad)])


def _sorted_out(
    incoming: Incoming, named: list[dict[str, bytes]] | None, promises: list[PromiseMade], bad: dict[int, str]
) -> tuple[list[int], list[int]]:
    """Which messages have a value and which have none; promises are neither."""
    full: list[int] = []
    empty: list[int] = []
    for i, value in enumerate(incoming.values):
        if named is not None and PROMISE in named[i]:
            _take_promise(incoming, i, promises, bad)
        else:
            (empty if value is None else full).append(i)
    return full, empty


def _take_promise(incoming: Incoming, i: int, promises: list[PromiseMade], bad: dict[int, str]) -> None:
    try:
        maxima = msgspec.json.decode(incoming.values[i] or b"", type=dict[str, int])
    except (msgspec.DecodeError, UnicodeDecodeError):
        bad[i] = "a promise that cannot be read"
        return
    promises.append(PromiseMade(incoming.partitions[i], incoming.offsets[i], _micros(incoming.millis[i]), maxima))


def _with_tombstones(
    rows: pa.RecordBatch, places: np.ndarray, empty: list[int], incoming: Incoming, values: Values, bad: dict[int, str]
) -> tuple[pa.RecordBatch, np.ndarray]:
    """Rows and tombstones together, in the order of their messages."""
    if not empty:
        return rows, places
    spec = values.spec
    keys, found = _keys([incoming.keys[i] for i in empty], values.schema, spec, may_lack=spec.null_keys or not spec.key)
    bad |= {empty[i]: why for i, why in found.items()}
    there = [place for i, place in enumerate(empty) if i not in found]
    arrays = [keys[field.name] if field.name in keys else pa.nulls(len(there), field.type) for field in values.schema]
    gone = pa.RecordBatch.from_arrays(arrays, schema=values.schema)
    deleted = np.repeat([False, True], [rows.num_rows, len(there)])
    both = pa.concat_batches([rows, gone]).append_column("_deleted", pa.array(deleted))
    order = np.argsort(np.concatenate([places, np.array(there, np.int64)]), kind="stable")
    return both.take(pa.array(order)), np.concatenate([places, np.array(there, np.int64)])[order]


def _with_keys(
    rows: pa.RecordBatch, places: np.ndarray, incoming: Incoming, spec: StoredSpec, bad: dict[int, str]
) -> tuple[pa.RecordBatch, np.ndarray]:
    """Rows whose value leaves out the key take that of the message; a key that is nowhere is a fault."""
    if not spec.key or all(rows.column(name).null_count == 0 for name in spec.key):
        return rows, places
    several = len(spec.key) > 1
    missing = np.ones(rows.num_rows, np.bool_)
    for name in spec.key:
        missing &= pc.is_null(rows.column(name)).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(missing)
    shown = pa.schema([rows.schema.field(name) for name in spec.key])
    texts = [incoming.keys[places[i]] for i in at]
    keys, faults = _keys(texts, shown, spec, may_lack=several or spec.null_keys)
    readable = np.delete(at, list(faults))
    for name, column in keys.items():
        index = rows.schema.get_field_index(name)
        filled = pc.replace_with_mask(rows.column(index), pa.array(np.isin(np.arange(rows.num_rows), readable)), column)
        rows = rows.set_column(index, rows.schema.field(index), filled)
    if faults:
        bad |= {int(places[at[i]]): why for i, why in faults.items()}
        keep = np.ones(rows.num_rows, np.bool_)
        keep[at[list(faults)]] = False
        rows, places = rows.filter(pa.array(keep)), places[keep]
    return rows, places


def _keys(
    keys: Sequence[bytes | None], schema: pa.Schema, spec: StoredSpec, may_lack: bool
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Key columns from the keys of messages, and which of them cannot be read."""
    texts: list[list[str | None]] = []
    faults: dict[int, str] = {}
    for i, key in enumerate(keys):
        try:
            if key is None and not may_lack:
                raise ValueError(f"column {spec.key[0]!r}: a value is required, and the message has no key")
            parts = _parts(key, len(spec.key))
            for name, part in zip(spec.key, parts, strict=True):
                pa.scalar(part, pa.string()).cast(schema.field(name).type)
            texts.append(parts)
        except (ValueError, pa.ArrowException) as error:
            faults[i] = f"the message's key is none of the topic ({str(error).partition(chr(10))[0]})"
    columns = {}
    for at, name in enumerate(spec.key):
        columns[name] = pa.array([parts[at] for parts in texts], pa.string()).cast(schema.field(name).type)
    return columns, faults


def _parts(key: bytes | None, count: int) -> list[str | None]:
    if key is None or key == _NULL_KEY:
        return [None] * count
    if count == 1:
        return [key.decode()]
    found = json.loads(key.decode(), strict=False)
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"not a JSON array of {count} values")
    return [part if part is None or isinstance(part, str) else json.dumps(part) for part in found]


def _located(
    rows: pa.RecordBatch, places: np.ndarray, incoming: Incoming, values: Values, named: list[dict[str, bytes]] | None
) -> pa.RecordBatch:
    """The rows with where they are and when they came."""
    offsets = np.array(incoming.offsets, np.int64)[places]
    if values.whole_batches:
        first = np.flatnonzero(np.diff(places, prepend=-1))  # where in the batch the rows of a message begin
        offsets = (offsets << ROW_BITS) + np.arange(len(places)) - np.repeat(first, np.diff(np.r_[first, len(places)]))
    received = _micros(np.array(incoming.millis, np.int64)[places])
    hidden = {
        "_partition": pa.array(np.array(incoming.partitions, np.int32)[places]),
        "_offset": pa.array(offsets),
        "_received": pa.array(received).view(MOMENT),
    }
    if values.spec.time is None and named is not None and not values.whole_batches:
        own = [_number(named[i].get(_TIME), None) for i in places]
        hidden["_time"] = pc.coalesce(pa.array(own, pa.int64()).cast(MOMENT), hidden["_received"])
    elif "_time" in rows.schema.names:
        index = rows.schema.get_field_index("_time")
        rows = rows.set_column(index, "_time", pc.coalesce(rows.column(index), hidden["_received"]))
    if "_deleted" in rows.schema.names:
        index = rows.schema.get_field_index("_deleted")
        rows = rows.set_column(index, "_deleted", pc.fill_null(rows.column(index), False))
    for name, column in hidden.items():
        rows = rows.append_column(pa.field(name, HIDDEN[name]), column)
    return rows


def _undecodable(incoming: Incoming, i: int, why: str) -> Undecodable:
    return Undecodable(
        incoming.partitions[i],
        incoming.offsets[i],
        _micros(incoming.millis[i]),
        incoming.keys[i],
        incoming.values[i],
        why,
    )


def _micros(millis: Any) -> Any:
    return np.maximum(millis, 0) * 1000 if isinstance(millis, np.ndarray) else max(millis, 0) * 1000


def _number(text: bytes | None, otherwise: Any = 0) -> Any:
    try:
        return otherwise if text is None else int(text)
    except ValueError:
        return otherwise
