"""Events over HTTP: one object, an array of them, or NDJSON, as one atomic append."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from riverrun.errors import Invalid
from riverrun.intake.chunk import until_bad
from riverrun.intake.lines import Lines
from riverrun.intake.ndjson import NdjsonChunk
from riverrun.log.topic import Topic
from riverrun.position import Position
from riverrun.serve.problems import Refused

_NDJSON = frozenset(("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"))
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_ONE = msgspec.json.Decoder(msgspec.Raw)
_LONGEST_NAME = 200
_SEQUENCE = re.compile("[0-9]{1,18}")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OPEN, _CLOSE = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)


@dataclass(frozen=True, slots=True)
class Key:
    """Who sends, and the number of what is sent: the same key again has no effect."""

    producer: str
    sequence: int

    def named(self, token: str) -> Key:
        """The same key under the name it has in the log: nobody who sends over HTTP is a flow, or somebody else's token."""
        return Key(f"http:{token}:{self.producer}", self.sequence)


def idempotency_key(header: str | None, producer: str | None, sequence: str | None) -> Key | None:
    """The key in `Idempotency-Key: producer:sequence`, or in the query; None where there is none."""
    if header is not None:
        if producer is not None or sequence is not None:
            raise Invalid("the idempotency key is given twice", hint="Send the header, or producer= and sequence=")
        producer, found, sequence = header.strip().strip('"').rpartition(":")
        if not found:
            raise Invalid(f"not an idempotency key: {header!r}", hint='Write "producer:sequence", as in app-1:17')
    if producer is None and sequence is None:
        return None
    if not producer or len(producer) > _LONGEST_NAME:
        raise Invalid(f"producer must be a name of 1 to {_LONGEST_NAME} characters", hint="Send sequence= beside it")
    if sequence is None or not _SEQUENCE.fullmatch(sequence):
        raise Invalid(f"sequence must be a whole number from 0, not {sequence!r}")
    return Key(producer, int(sequence))


def parse(body: bytes, content_type: str, topic: Topic, most: int) -> NdjsonChunk:
    """The rows in a body, at most so many, not parsed yet; what kind it is the content type says, or its first byte."""
    kind = content_type.partition(";")[0].strip().lower()
    start = body.lstrip()[:1]
    if not start:
        raise Invalid("the body is empty", hint="Send an object, an array of objects, or NDJSON")
    if kind not in _NDJSON:
        if start == b"[":
            if body.count(b",") >= most and count_elements(body) > most:
                raise _too_many(most)
            return Elements(_elements(body), topic)
        whole = _whole(body)
        if whole is not None:
            return Elements([whole], topic, alone=True)
    body = body.rstrip()
    if body.count(b"\n") >= most:
        raise _too_many(most)
    return _Lines(body.split(b"\n"), topic)


def count_elements(body: bytes) -> int:
    """How many elements a JSON array has, in little memory; of anything else, some number.

    >>> count_elements(b'[{"a": [1, 2]}, {"a": "],[", "b": null}]')
    2
    """
    bare = np.frombuffer(_STRING.sub(b"", body), np.uint8)
    depth = np.cumsum(np.isin(bare, _OPEN).astype(np.int8) - np.isin(bare, _CLOSE), dtype=np.int32)
    return int(((bare == ord(",")) & (depth == 1)).sum()) + 1


def _too_many(most: int) -> Refused:
    return Refused(
        413, f"the body has more than {most} rows", hint="Send them in parts, or raise the setting http_rows"
    )


def append(topic: Topic, chunk: NdjsonChunk, key: Key | None) -> tuple[Position, int]:
    """Append all rows or none; the position after them, and how many they are."""
    try:
        batch = topic.checked(chunk.rows(0, chunk.size))
    except Invalid as error:
        _, bad = until_bad(chunk, topic)
        if bad is None:
            raise
        raise type(error)(f"topic {topic.name}, {bad}") from None
    producer, sequence = (key.producer, key.sequence) if key else (None, None)
    return topic.append(batch, producer, sequence), batch.num_rows


class _Lines(NdjsonChunk):
    def __init__(self, lines: Sequence[bytes], topic: Topic) -> None:
        schema = topic.schema
        documents = schema.names == ["json"] and pa.types.is_string(schema.field("json").type)
        super().__init__(Lines(list(lines), 1, 0), documents)


class Elements(_Lines):
    """Elements of an array, or one object alone."""

    def __init__(self, elements: Sequence[bytes], topic: Topic, alone: bool = False) -> None:
        super().__init__(elements, topic)
        self._alone = alone

    def place(self, record: int) -> str:
        return "the object" if self._alone else f"element {record + 1}"


def _elements(body: bytes) -> list[bytes]:
    try:
        return [bytes(element) for element in _ELEMENTS.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"the body is not a JSON array: {error}") from None
    except RecursionError:
        raise Invalid("the body is nested too deeply") from None


def _whole(body: bytes) -> bytes | None:
    """The body, if it is one JSON value; None when lines must be looked at one by one."""
    try:
        return bytes(_ONE.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
