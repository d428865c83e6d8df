"""Maxwell's messages: {"database": …, "table": …, "type": "update", "ts": …, "data": {…}, "old": {…}}."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from riverrun.durations import FIRST, LAST
from riverrun.envelopes.changes import Gathering, MessageChanges, why_not
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.row_kinds import RowKind, has_null, row_kind
from riverrun.json_faults import BAD_JSON

_ROWS = frozenset({"insert", "update", "bootstrap-insert"})
_NO_ROWS = frozenset(
    {"bootstrap-start", "bootstrap-complete"}
    | {f"{what}-{how}" for what in ("table", "database") for how in ("create", "alter", "drop")}
)
_TRUNCATED = (
    "the table was truncated in the source, which names no keys: its rows stay here; bootstrap it into a new topic"
)
_SECOND = 1_000_000

Seconds = Annotated[int, msgspec.Meta(ge=FIRST // _SECOND, le=LAST // _SECOND)]


def read_maxwell(envelope: Envelope, keys: Sequence[bytes | None], texts: Sequence[bytes | None]) -> MessageChanges:
    """The changes in messages; a text that is None is a tombstone, which says by its key what is gone."""
    kind = row_kind(envelope, None)
    gathered = Gathering(envelope, wires=[kind.wires])
    decode = _decoder(kind).decode
    for at, text in enumerate(texts):
        try:
            message = None if text is None else decode(text)
            if message is None:
                _gone(gathered, at, keys[at], kind)
            elif envelope.form.of is None or f"{message.database}.{message.table}" == envelope.form.of:
                _change(gathered, at, message, kind)
        except BAD_JSON as error:
            gathered.errors[at] = why_not(error, text or b"")
    return gathered.changes()


def _change(gathered: Gathering, at: int, message: Any, kind: RowKind) -> None:
    what, row = message.type, message.data
    if what in _ROWS or what == "delete":
        key = None if row is None else kind.key_of(row)
        if row is None or has_null(key):
            missing = '"data"' if row is None else f"a value of the key ({', '.join(kind.envelope.key)})"
            gathered.errors[at] = f"{what} without {missing}"
            return
        time = None if message.ts is None else message.ts * _SECOND
        if what == "delete":
            gathered.add(at, kind.deletion(row), True, time, 0)
            return
        old = _old_key(message.old, row, kind)
        if old is not None:
            gathered.add(at, old, True, time, 0)
        gathered.add(at, row, False, time, 0)
    elif what == "table-truncate":
        gathered.errors[at] = _TRUNCATED
    elif what is None:
        gathered.errors[at] = 'has no "type", so it is not Maxwell\'s'
    elif what not in _NO_ROWS:
        gathered.errors[at] = f"there is no type {what[:30]!r}"


def _old_key(old: Any, row: Any, kind: RowKind) -> Any:
    """The row that an update takes away, since it changed the key: `old` has the columns that changed, as they were."""
    if old is None:
        return None
    parts = {at: getattr(old, at) for at in kind.key_attributes}
    known = {at: getattr(row, at) if value is msgspec.UNSET else value for at, value in parts.items()}
    before = kind.row(**known)
    was = kind.key_of(before)
    return None if was == kind.key_of(row) or has_null(was) else before


def _gone(gathered: Gathering, at: int, key: bytes | None, kind: RowKind) -> None:
    if key is None:
        gathered.errors[at] = "a deletion without a key"
        return
    try:
        named = _key_decoder(kind).decode(key)
    except BAD_JSON as error:
        gathered.errors[at] = f"a deletion, by the message's key: {why_not(error, key)}"
        return
    of = kind.envelope.form.of
    if of is not None and f"{named.database}.{named.table}" != of:
        return
    if has_null(kind.key_of(named)):
        names = ", ".join(f"pk.{name}" for name in kind.envelope.key)
        gathered.errors[at] = f"a deletion, and the message's key has no value for {names}"
        return
    gathered.add(at, kind.deletion(named), True, None, 0)


@lru_cache(100)
def _decoder(kind: RowKind) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [
        ("database", str | None, None),
        ("table", str | None, None),
        ("type", str | None, None),
        ("ts", Seconds | None, None),
        ("data", kind.row | None, None),
        ("old", kind.part("", msgspec.UNSET) | None, None),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Message", fields, gc=False) | None)


@lru_cache(100)
def _key_decoder(kind: RowKind) -> msgspec.json.Decoder[Any]:
    """{"database": "shop", "table": "orders", "pk.id": 7}"""
    named = msgspec.defstruct(
        "NamedKey",
        [("database", str | None, None), ("table", str | None, None)],
        bases=(kind.part("pk.", None),),
        gc=False,
    )
    return msgspec.json.Decoder(named)
