"""Rows ↔ messages of Kafka, without a broker: every format, keys, tombstones, and values that are no rows."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from contracts.test_rows import EVERY_TYPE, FULL, ROWS, expected, plain
from riverrun import ddl
from riverrun.durations import to_micros
from riverrun.errors import Invalid
from riverrun.log.decoder import Decoder
from riverrun.log.kafka.arrow_values import ROW_BITS
from riverrun.log.kafka.messages import (
    Incoming,
    OutgoingMessages,
    Understood,
    promise_message,
    row_messages,
    understand,
)
from riverrun.log.kafka.values import Values, values_of
from riverrun.log.rows import RowSchema
from riverrun.log.spec import TopicSpec

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
MILLIS = int(AT.timestamp() * 1000)
SCHEMA = "user string, n bigint, at timestamp"
FORMATS = [
    "json",
    pytest.param("avro", marks=pytest.mark.skipif(find_spec("fastavro") is None, reason="fastavro is not installed")),
    "arrow",
]


class Written(NamedTuple):
    """One message."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Any = None


def messages_of(*outgoing: OutgoingMessages) -> list[Written]:
    return [
        Written(some.partition, *message)
        for some in outgoing
        for message in zip(some.keys, some.values, some.headers or [None] * len(some.values), strict=True)
    ]


class Codec:
    """A topic's messages, as they would be written and read."""

    def __init__(self, schema: str = SCHEMA, *older: str, **options: Any) -> None:
        self.spec = TopicSpec("t", schema, **{"partitions": 1, **options}).resolve()
        self.schemas = {i + 1: ddl.arrow_schema(ddl.parse(one)) for i, one in enumerate([*older, schema])}
        self.values: Values = values_of(self.spec, self.schemas, len(self.schemas))

    def written(self, rows: Any) -> list[Any]:
        return messages_of(*row_messages(RowSchema(self.spec, 1 << 20).batch(rows), self.values, 0))

    def read(self, messages: list[Any]) -> Understood:
        count = len(messages)
        keys, values = [m.key for m in messages], [m.value for m in messages]
        return understand(
            Incoming(
                [0] * count, list(range(5, 5 + count)), [MILLIS] * count, keys, values, [m.headers for m in messages]
            ),
            self.values,
        )

    def table(self, messages: list[Any]) -> pa.Table:
        decoder = Decoder(self.spec, self.schemas[len(self.schemas)], self.schemas)
        return pa.Table.from_batches([decoder.show(self.read(messages).rows)])

    def refused(self, *values: bytes | None, key: bytes | None = b"ada") -> list[str]:
        """Why these values are no rows. One that is good stands between them, and is read."""
        good = self.written([{"user": "ada", "n": 1, "at": AT}])[0]
        bad = [good._replace(value=value, key=key) for value in values]
        found = self.read([good, *bad, good])
        assert found.rows.column("n").to_pylist() == [1, 1]
        assert [one.offset for one in found.undecodable] == list(range(6, 6 + len(values)))
        assert [one.value for one in found.undecodable] == list(values)
        return [one.error for one in found.undecodable]


@pytest.mark.parametrize("format", FORMATS)
def test_every_type_comes_back_in_every_format(format: str) -> None:
    codec = Codec(EVERY_TYPE, format=format)
    assert plain(codec.table(codec.written(ROWS)).select(list(FULL))) == expected(ROWS)


@pytest.mark.parametrize("format", FORMATS[:2])
def test_many_rows_are_written_some_at_a_time_in_their_order(format: str) -> None:
    codec = Codec(key="user", time="at", format=format, partitions=2)
    rows = [{"user": f"u{n % 7}", "n": n, "at": AT} for n in range(10_000)]
    outgoing = list(row_messages(RowSchema(codec.spec, 1 << 20).batch(rows), codec.values, 0))
    assert max(len(some.values) for some in outgoing) < len(rows) / 2
    assert [some.partition for some in outgoing] == sorted(some.partition for some in outgoing)
    for partition in (0, 1):
        found = [one for one in messages_of(*outgoing) if one.partition == partition]
        numbers = codec.table(found).column("n").to_pylist()
        assert numbers == sorted(numbers) and len(numbers) == len(found)
    assert sorted(codec.table(messages_of(*outgoing)).column("n").to_pylist()) == list(range(10_000))


@pytest.mark.skipif(find_spec("fastavro") is None, reason="fastavro is not installed")
def test_the_version_of_an_avro_schema_is_told_from_the_second_on() -> None:
    row = [{"user": "ada", "n": 1, "at": AT}]
    (first,) = Codec(format="avro").written(row)
    (second,) = Codec(SCHEMA, "user string, n bigint", format="avro").written(row)
    assert (first.headers, second.headers) == (None, [("riverrun-schema", b"2")])


def test_json_is_what_others_write_and_read() -> None:
    (message,) = Codec(key="user", time="at").written([{"user": "ada", "n": 1, "at": AT}])
    assert message.key == b"ada"
    assert message.value == b'{"user":"ada","n":1,"at":"2026-01-31T12:00:00Z"}'
    assert message.headers is None


def test_keys_of_several_columns_are_json_arrays() -> None:
    codec = Codec("a string, b int, n int", key=["a", "b"])
    messages = codec.written([{"a": 'x"y', "b": 7, "n": 1}, {"a": None, "b": 7, "_deleted": True}])
    assert [m.key for m in messages] == [b'["x\\"y",7]', b"[null,7]"]
    assert codec.table(messages).select(["a", "b", "n", "_key", "_deleted"]).to_pylist() == [
        {"a": 'x"y', "b": 7, "n": 1, "_key": '["x\\"y",7]', "_deleted": False},
        {"a": None, "b": 7, "n": None, "_key": "[null,7]", "_deleted": True},
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "Ünïcode\n"),
        ("bigint", -(2**63)),
        ("boolean", True),
        ("date", datetime(2026, 1, 1).date()),
        ("timestamp", AT.replace(microsecond=7)),
        ("timestamp_ntz", datetime(2026, 1, 1, 0, 0, 0, 9)),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_a_tombstone_has_its_key_from_the_messages(kind: str, value: Any, several: bool) -> None:
    codec = Codec(f"k {kind}, j int, n int", key=["k", "j"] if several else "k")
    (message,) = codec.written([{"k": value, "j": 1 if several else None, "_deleted": True}])
    assert message.value is None
    (row,) = codec.table([message]).to_pylist()
    assert (row["k"], row["n"], row["_deleted"]) == (value, None, True)


def test_rows_and_tombstones_stay_in_order() -> None:
    codec = Codec(key="user")
    rows = [{"user": f"u{i}", **({"_deleted": True} if i % 3 else {"n": i})} for i in range(10)]
    table = codec.table(codec.written(rows))
    assert table.column("user").to_pylist() == [f"u{i}" for i in range(10)]
    assert table.column("_offset").to_pylist() == list(range(5, 15))


def test_a_key_that_the_value_leaves_out_is_the_messages() -> None:
    codec = Codec(key="user", time="at")
    (message,) = codec.written([{"user": "ada", "n": 1, "at": AT}])
    without = message._replace(value=b'{"n": 2, "at": "2026-01-31T12:00:00Z"}', key=b"bob")
    assert codec.table([message, without]).column("user").to_pylist() == ["ada", "bob"]
    assert codec.refused(without.value, key=None) == [
        "the message's key is none of the topic (column 'user': a value is required, and the message has no key)"
    ]


def test_the_time_of_rows_without_a_column_for_it() -> None:
    codec = Codec("n bigint")
    table = codec.table(codec.written([{"n": 1, "_time": AT.replace(year=2020)}]) + codec.written([{"n": 2}]))
    assert [t.year for t in table.column("_time").to_pylist()] == [2020, 2026]


@pytest.mark.parametrize("format", FORMATS)
def test_a_schema_that_has_grown_reads_what_was_written_before(format: str) -> None:
    old, new = Codec("user string", format=format), Codec("user string, age int", "user string", format=format)
    table = new.table([*old.written([{"user": "ada"}]), *new.written([{"user": "bob", "age": 3}])])
    assert table.select(["user", "age"]).to_pylist() == [{"user": "ada", "age": None}, {"user": "bob", "age": 3}]
    if format != "avro":  # whose records say nothing of their columns: the catalogue has all versions
        assert old.table(new.written([{"user": "bob", "age": 3}])).column("user").to_pylist() == ["bob"]


def test_rows_of_a_batch_in_one_message_have_offsets_of_their_own() -> None:
    codec = Codec(format="arrow")
    messages = codec.written([{"n": n} for n in range(3)]) + codec.written([{"n": n} for n in range(3, 5)])
    assert len(messages) == 2
    offsets = codec.table(messages).column("_offset").to_pylist()
    assert offsets == [5 << ROW_BITS, (5 << ROW_BITS) + 1, (5 << ROW_BITS) + 2, 6 << ROW_BITS, (6 << ROW_BITS) + 1]
    large = codec.written(pa.table({"user": ["x" * 1000] * 2000}))
    assert len(large) > 1
    assert max(len(m.value) for m in large) < 1_000_000
    assert codec.table(large).num_rows == 2000


def test_a_promise_is_no_row() -> None:
    codec = Codec(key="user", time="at")
    (message,) = messages_of(promise_message(0, {"ada": to_micros(AT)}))
    assert message.value is not None
    found = codec.read([message])
    assert found.rows.num_rows == 0
    assert [(p.offset, p.maxima) for p in found.promises] == [(5, {"ada": to_micros(AT)})]


POISON = {
    "half": (b'{"user":"ada","n":1', "ends in the middle"),
    "nothing": (b"", "ends in the middle"),
    "no JSON": (b"hello", "JSON is malformed"),
    "an array": (b"[1]", "Expected `object`, got `array`"),
    "NaN": (b'{"user":"ada","n":NaN,"at":"2026-01-31T12:00:00Z"}', "NaN is not JSON"),
    "not UTF-8": (b'{"user":"\xff","at":"2026-01-31T12:00:00Z"}', "not UTF-8"),
    "byte order mark": (b'\xef\xbb\xbf{"user":"ada"}', "byte order mark"),
    "depth": (b'{"x":' + b"[" * 100_000, "nested too deeply"),
    "text for a number": (b'{"user":"ada","n":"1","at":"2026-01-31T12:00:00Z"}', "column `n`"),
    "a number too large": (b'{"user":"ada","n":9223372036854775808,"at":"2026-01-31T12:00:00Z"}', "column `n`"),
    "no time": (b'{"user":"ada","n":1}', "`at`"),
    "no zone": (b'{"user":"ada","n":1,"at":"2026-01-31T12:00:00"}', "column `at`"),
    "name twice": (b'{"user":"ada","n":1,"n":2,"at":"2026-01-31T12:00:00Z"}', "the name 'n' is given twice"),
    "name twice, hidden": (b'{"user":"ada","n":1,"\\u006e":2,"at":"2026-01-31T12:00:00Z"}', "given twice"),
}


@pytest.mark.parametrize("value", POISON)
def test_what_is_no_row_is_named_and_the_others_are_read(value: str) -> None:
    given, why = POISON[value]
    codec = Codec(key="user", time="at")
    assert [why in error for error in codec.refused(given)] == [True], codec.refused(given)
    assert len(codec.refused(given, given)) == 2


def test_what_arrow_refuses_is_no_row_either() -> None:
    codec = Codec("user string, n bigint, at timestamp, price decimal(4,2), f float")
    wrong = [b'{"price":"1.234"}', b'{"f":1e39}', b'{"at":"0001-01-01T00:00:00+23:59"}']
    assert ["'price'" in e or "'f'" in e or "'at'" in e for e in codec.refused(*wrong)] == [True] * 3


def test_what_a_schema_does_not_name_is_passed_over() -> None:
    codec = Codec("user string, place struct<lat:double>")
    (message,) = codec.written([{"user": "ada"}])
    foreign = message._replace(value=b'{"id":7,"user":"bob","place":{"lat":1.5,"alt":[1]},"tags":["n"]}')
    assert codec.table([foreign]).select(["user", "place"]).to_pylist() == [{"user": "bob", "place": {"lat": 1.5}}]


def test_names_of_columns_inside_values_are_no_repetition() -> None:
    codec = Codec("user string, n bigint")
    rows = [{"user": '"n"', "n": 1}, {"user": "n", "n": 2}, {"user": None, "n": 3}]
    assert codec.table(codec.written(rows)).select(["user", "n"]).to_pylist() == rows


def test_a_json_topic_keeps_documents_as_they_are() -> None:
    codec = Codec("json string")
    texts = ['{"b": 1,  "a": [NaN]}', "null", '{"json": "x"}', "", None]
    messages = codec.written([{"json": text} for text in texts])
    assert messages[0].value == texts[0].encode()
    assert codec.table(messages).column("json").to_pylist() == texts
    assert codec.read([messages[0]._replace(value=b"\xff")]).undecodable[0].error == "not UTF-8"


@pytest.mark.parametrize("value", [b"", b"\x02", b"\x00" * 50, b"\x00\x00\x00\x00\x07\x02\x06ada", b'{"user":"ada"}'])
def test_what_is_no_avro_record_is_named(value: bytes) -> None:
    pytest.importorskip("fastavro")
    errors = Codec(key="user", time="at", format="avro").refused(value)
    assert "not a record of this topic's Avro schema" in errors[0]


@pytest.mark.parametrize("value", [b"", b"ARROW1", b'{"user":"ada"}', None])
def test_what_is_no_arrow_is_named(value: bytes | None) -> None:
    assert len(Codec(format="arrow").refused(value, key=None)) == 1


def test_another_format_is_refused() -> None:
    with pytest.raises(Invalid, match="format is None or 'json' or 'avro' or 'arrow', not 'xml'"):
        TopicSpec("t", SCHEMA, format="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["json", "avro"])
def test_a_null_key_of_a_compacted_topic_is_a_key_of_its_own(format: str) -> None:
    codec = Codec(key="user", compact=True, null_keys=True, format=format)
    messages = codec.written([{"user": None, "n": 1, "at": AT}, {"user": None, "_deleted": True}])
    assert [message.key for message in messages] == [b"riverrun.null"] * 2
    assert codec.table(messages).select(["user", "n", "_deleted"]).to_pylist() == [
        {"user": None, "n": 1, "_deleted": False},
        {"user": None, "n": None, "_deleted": True},
    ]
