"""Debezium's messages: {"before": …, "after": …, "op": "u", "source": {…}, "ts_ms": …}, bare or beside their schema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from riverrun.durations import FIRST, LAST
from riverrun.envelopes.changes import Gathering, MessageChanges, why_not
from riverrun.envelopes.connect import Misfit
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.row_kinds import RowKind, described, has_null, key_from, row_kind
from riverrun.json_faults import BAD_JSON

_ROWS = frozenset({"r", "c", "u"})
_TRUNCATED = (
    "the table was truncated in the source, which names no keys: its rows stay here; remove them by a new snapshot in a new"
    " topic, or leave truncates out (skipped.operations=t)"
)
_NO_ENVELOPE = (
    'has no "op", so it is not Debezium\'s envelope; read rows that were flattened (ExtractNewRecordState) as JSON'
)

Millis = Annotated[int, msgspec.Meta(ge=FIRST // 1000, le=LAST // 1000)]
Micros = Annotated[int, msgspec.Meta(ge=FIRST, le=LAST)]


class DebeziumSource(msgspec.Struct, gc=False):
    """Where a change is from: when it was committed there."""

    ts_ms: Millis | None = None
    ts_us: Micros | None = None


def read_debezium(envelope: Envelope, keys: Sequence[bytes | None], texts: Sequence[bytes | None]) -> MessageChanges:
    """The changes in messages; a text that is None is a tombstone, which says by its key what is gone."""
    return _DebeziumBatch(envelope).read(keys, texts)


class _DebeziumBatch:
    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._gathered = Gathering(envelope)
        self._numbers: dict[RowKind, int] = {}
        self._schema = b""
        self._prefix: bytes | None = None  # of the last message: all that stands before the payload
        self._kind = self._bare = row_kind(envelope, None)

    def read(self, keys: Sequence[bytes | None], texts: Sequence[bytes | None]) -> MessageChanges:
        errors = self._gathered.errors
        bare = _decoder(self._bare).decode
        for at, text in enumerate(texts):
            try:
                message, kind = self._alike(text), self._kind
                if message is None and text is not None:
                    message, kind = bare(text), self._bare
                    if message is not None and message.payload is not msgspec.UNSET:
                        kind = self._described(text, message)
                        message = _decoder(kind).decode(message.payload)
                if message is None:
                    self._gone(at, keys[at], None)
                elif message.op in _ROWS:
                    self._row(at, message, kind)
                elif message.op == "d":
                    self._deleted(at, message, kind, keys[at])
                elif message.op == "t":
                    errors[at] = _TRUNCATED
                elif message.op is None:
                    errors[at] = _NO_ENVELOPE
                elif message.op != "m":  # a message of the application's own, which is about no table
                    errors[at] = f"there is no op {message.op[:20]!r}"
            except Misfit as error:
                errors[at] = str(error)
            except BAD_JSON as error:
                errors[at] = why_not(error, text or b"")
        return self._gathered.changes()

    def _alike(self, text: bytes | None) -> Any:
        """A message that begins as the last one did, with the same schema, which then need not be read."""
        if self._prefix is None or text is None or not text.startswith(self._prefix) or not text.endswith(b"}"):
            return None
        try:
            return _decoder(self._kind).decode(memoryview(text)[len(self._prefix) : -1])
        except BAD_JSON:  # the payload is not the last, or is wrong: as a whole it will be said
            return None

    def _described(self, text: bytes, message: Any) -> RowKind:
        """The kind of rows that the schema of a message describes; it is the same in message after message."""
        written = bytes(message.schema) or b"null"
        if written != self._schema:
            self._kind = row_kind(self._envelope, described(written, "after"))
            self._schema = written
        payload = bytes(message.payload)
        self._prefix = text[: -len(payload) - 1] if text.endswith(payload + b"}") else None
        return self._kind

    def _add(self, at: int, row: Any, deleted: bool, time: int | None, kind: RowKind) -> None:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._numbers)
            self._gathered.wires.append(kind.wires)
        self._gathered.add(at, row, deleted, time, number)

    def _row(self, at: int, message: Any, kind: RowKind) -> None:
        row = message.after
        key = None if row is None else kind.key_of(row)
        if row is None or has_null(key):
            what = '"after"' if row is None else f"a value of the key ({', '.join(self._envelope.key)})"
            self._gathered.errors[at] = f"op {message.op!r} without {what}"
            return
        time = _time(message)
        before = message.before
        if before is not None and (old := kind.key_of(before)) != key and not has_null(old):
            self._add(at, kind.deletion(before), True, time, kind)
        self._add(at, row, False, time, kind)

    def _deleted(self, at: int, message: Any, kind: RowKind, key: bytes | None) -> None:
        before = message.before
        if before is None or has_null(kind.key_of(before)):
            self._gone(at, key, _time(message))
        else:
            self._add(at, kind.deletion(before), True, _time(message), kind)

    def _gone(self, at: int, key: bytes | None, time: int | None) -> None:
        """What the message's key names is not there any more."""
        if key is None:
            self._gathered.errors[at] = "a deletion without a key"
            return
        try:
            kind, row = key_from(self._envelope, key)
        except BAD_JSON as error:
            self._gathered.errors[at] = f"a deletion, by the message's key: {why_not(error, key)}"
            return
        if has_null(kind.key_of(row)):
            names = ", ".join(self._envelope.key)
            self._gathered.errors[at] = f"a deletion, and the message's key has no value for {names}"
            return
        self._add(at, kind.deletion(row), True, time, kind)


def _time(message: Any) -> int | None:
    """When the change was committed in the source, else when Debezium saw it; in microseconds."""
    source: DebeziumSource | None = message.source
    if source is not None and source.ts_us is not None:
        return source.ts_us
    millis = message.ts_ms if source is None or source.ts_ms is None else source.ts_ms
    return None if millis is None else millis * 1000


@lru_cache(400)
def _decoder(kind: RowKind) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [
        ("op", str | None, None),
        ("before", kind.key | None, None),
        ("after", kind.row | None, None),
        ("source", DebeziumSource | None, None),
        ("ts_ms", Millis | None, None),
        ("schema", msgspec.Raw, msgspec.Raw()),
        ("payload", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Message", fields, gc=False) | None)
