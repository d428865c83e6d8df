"""What goes to a process that answers queries, and what comes back: plain values, whatever the process may have become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from msgspec.msgpack import Ext

from riverrun.error_transit import ErrorInTransit
from riverrun.errors import Invalid

LENGTH_BYTES = 4  # before each message: how long it is
_PER_ROW = 64  # bytes that a row takes beside its values
_MICROSECOND = timedelta(microseconds=1)
_PLAIN = frozenset((type(None), bool, float, str, bytes))
_LARGE = 0
# What MessagePack has no form for: the type, as text, and back. A datetime is a date, so it comes first.
_WRITTEN: tuple[tuple[int, type, Callable[[Any], str], Callable[[str], Any]], ...] = (
    (1, datetime, datetime.isoformat, datetime.fromisoformat),
    (2, date, date.isoformat, date.fromisoformat),
    (3, time, time.isoformat, time.fromisoformat),
    (4, timedelta, lambda span: str(span // _MICROSECOND), lambda text: int(text) * _MICROSECOND),
    (5, Decimal, str, Decimal),
    (6, UUID, str, UUID),
)
_READ: dict[int, Callable[[str], Any]] = {_LARGE: int, **{code: read for code, _, _, read in _WRITTEN}}


class Question(msgspec.Struct, frozen=True):
    """One query. `schema` is PostgreSQL's; without one, `place` is a file of SQLite. The answer may have `most` bytes. A
    login that is `guarded` must not be able to do more than read views."""

    place: str
    sql: str
    parameters: Any
    timeout: float | None
    most: int
    schema: str | None = None
    guarded: bool = False


class Answer(msgspec.Struct, frozen=True):
    """The rows of a query, or why there are none."""

    names: list[str] = []
    rows: list[list[Any]] = []
    error: ErrorInTransit | None = None


def packed(value: Any) -> Any:
    """A value as it can be sent; `Invalid` where there is no way."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else Ext(_LARGE, str(int(value)).encode())
    if isinstance(value, np.generic):
        return packed(value.item())
    for code, kind, write, _ in _WRITTEN:
        if isinstance(value, kind):
            return Ext(code, write(value).encode())
    if isinstance(value, list | tuple):
        return [packed(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): packed(part) for name, part in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return "".join(value)
    raise Invalid(f"sql: the type {type(value).__name__!r} is not supported")


def gathered(parts: Iterable[list[Any]], most: int) -> list[Any]:
    """All rows of the parts; `Invalid` as soon as they are larger than `most` bytes together."""
    rows: list[Any] = []
    size = 0
    for part in parts:
        size += len(msgspec.msgpack.encode(part)) + _PER_ROW * len(part)
        if size > most:
            hint = "Ask for fewer rows or columns; view.arrow() gives a whole view"
            raise Invalid(f"sql: the answer has more than {most >> 20} MiB", hint=hint)
        rows += part
    return rows


def framed(message: Question | Answer) -> bytes:
    """A message with its length before it; `Invalid` for text that is not Unicode."""
    try:
        body = msgspec.msgpack.encode(message)
    except UnicodeEncodeError as error:
        raise Invalid(f"sql: {error}") from None
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _unpacked(code: int, data: memoryview) -> Any:
    return _READ[code](str(data, "ascii"))


_questions = msgspec.msgpack.Decoder(Question, ext_hook=_unpacked)
_answers = msgspec.msgpack.Decoder(Answer, ext_hook=_unpacked)


def read_question(body: bytes) -> Question:
    """The question of a message, without its length."""
    return _questions.decode(body)


def read_answer(body: bytes) -> Answer:
    """The answer of a message, without its length."""
    return _answers.decode(body)
