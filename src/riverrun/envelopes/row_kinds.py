"""Types for msgspec, made of declared columns: a row, its key, and the message around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from riverrun.envelopes.connect import Columns, columns_of, wires
from riverrun.envelopes.envelope import Envelope
from riverrun.envelopes.wire import Wire

_KINDS = 200  # more than there are versions of a table's schema; made anew when somebody sends others


@dataclass(frozen=True, eq=False)
class RowKind:
    """Rows of a table as one schema writes them, or as they are written without.

    Column number n is the attribute `cn`. `row` has all columns, `key` those of the key, null where they are missing.
    """

    envelope: Envelope
    wires: Mapping[str, Wire]

    @cached_property
    def row(self) -> Any:
        return self._struct("Row", [column.name for column in self.envelope.columns], "", None)

    @cached_property
    def key(self) -> Any:
        return self.part("", None)

    def part(self, prefix: str, absent: Any) -> Any:
        """A type for the columns of the key, which stand under names with this prefix; `absent` where they are missing."""
        return self._struct("Key", self.envelope.key, prefix, absent)

    def _struct(self, name: str, columns: Sequence[str], prefix: str, absent: Any) -> Any:
        places = {self._place(column): column for column in columns}
        missing = msgspec.UnsetType | None if absent is msgspec.UNSET else None
        fields = [(place, self.wires[column].json | missing, absent) for place, column in places.items()]
        rename = {place: prefix + column for place, column in places.items()}
        return msgspec.defstruct(name, fields, rename=rename, gc=False)

    def _place(self, column: str) -> str:
        return f"c{[known.name for known in self.envelope.columns].index(column)}"

    def deletion(self, key: Any) -> Any:
        """A row that has the values of a key only."""
        return self.row(**{at: getattr(key, at) for at in self.key_attributes})

    @cached_property
    def key_attributes(self) -> tuple[str, ...]:
        return tuple(map(self._place, self.envelope.key))

    @cached_property
    def key_of(self) -> Any:
        """The key of a row: its value, or a tuple of its values."""
        return attrgetter(*self.key_attributes)

    @cached_property
    def of_key(self) -> msgspec.json.Decoder[Any]:
        """Of the key of a message."""
        return msgspec.json.Decoder(self.key)


def has_null(key: Any) -> bool:
    """Whether a part of a key has no value."""
    return key is None or (type(key) is tuple and None in key)


@lru_cache(_KINDS)
def row_kind(envelope: Envelope, columns: Columns | None) -> RowKind:
    """`Misfit` where the schema says something else than the declaration."""
    return RowKind(envelope, wires(envelope, columns))


@lru_cache(_KINDS)
def described(schema: bytes, part: str | None) -> Columns | None:
    """What the schema in a message says; None where it is null."""
    return None if schema == b"null" else columns_of(schema, part)


class WrappedKey(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A message's key beside its schema."""

    schema: msgspec.Raw
    payload: msgspec.Raw


_WRAPPED_KEY = msgspec.json.Decoder(WrappedKey)


def key_from(envelope: Envelope, text: bytes) -> tuple[RowKind, Any]:
    """The key of a message, {"id": 7}, also beside its schema. Raises what decoders raise, or `Misfit`."""
    try:
        wrapped = _WRAPPED_KEY.decode(text)
    except msgspec.ValidationError:  # not both names, and no others
        kind = row_kind(envelope, None)
        return kind, kind.of_key.decode(text)
    kind = row_kind(envelope, described(bytes(wrapped.schema), None))
    return kind, kind.of_key.decode(wrapped.payload)
