"""Messages that are wrong: each is told apart from its neighbours, and what is said of it helps."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from riverrun import ddl
from riverrun.envelopes.changes import MessageChanges
from riverrun.envelopes.envelope import Envelope, MessageForm
from riverrun.envelopes.reading import read_changes

COLUMNS = "id int, name string, price decimal(6,2), at timestamp, day date, paid boolean, photo binary, rate double"
GOOD = json.dumps({"op": "c", "after": {"id": 1, "name": "ada"}})
GOOD_MAXWELL = json.dumps({"type": "insert", "data": {"id": 1, "name": "ada"}})


def read(
    text: str | bytes | None, form: MessageForm | None = None, key: str | None = None, good: str = GOOD
) -> MessageChanges:
    """A message between two good ones."""
    envelope = Envelope(form or MessageForm("debezium"), tuple(ddl.parse(COLUMNS)), ("id",))
    raw = [good.encode(), text.encode() if isinstance(text, str) else text, good.encode()]
    texts = pa.Array.from_buffers(pa.string(), 3, pa.array(raw, pa.binary()).buffers())  # also what is not UTF-8
    found = read_changes(envelope, texts, pa.array([None, key, None], pa.string()))
    assert {0, 2} <= set(found.at.tolist())
    assert found.rows.num_rows == len(found.at) == len(found.deleted) == len(found.times) == len(found.kept)
    return found


def error(text: str | bytes | None, **options: Any) -> str:
    found = read(text, **options)
    assert set(found.errors) == {1}
    assert found.at.tolist() == [0, 2]
    return found.errors[1]


def created(**values: Any) -> str:
    return json.dumps({"op": "c", "after": {"id": 1, **values}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "ends in the middle"),
        ('{"op": "c"', "ends in the middle"),
        ("[1]", "expected object"),
        ("7", "expected object"),
        ('{"op": NaN}', "NaN is not JSON"),
        ('{"op": "c", "after": {"id": 1, "rate": -Infinity}}', "-Infinity is not JSON"),
        ("\ufeff" + GOOD, "byte order mark"),
        (GOOD + "\0", "NUL byte"),
        (GOOD + GOOD, "trailing characters"),
        (b'{"op": "c", "after": {"id": 1, "name": "\xff"}}', "not UTF-8"),
        ('{"op": "c", "after": {"id": 1, "name": "\\ud800"}}', "half of a surrogate pair"),
        ('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"schema": ' + '{"items": ' * 5_000 + "{}" + "}" * 5_000 + ', "payload": {}}', "nested too deeply"),
        ("{}", 'has no "op"'),
        ('{"id": 1, "name": "ada", "__deleted": "false"}', "ExtractNewRecordState"),
        ('{"op": "x"}', "there is no op 'x'"),
        ('{"op": 7}', "op: expected str"),
        ('{"op": "c"}', "op 'c' without \"after\""),
        ('{"op": "u", "after": {"name": "ada"}}', "without a value of the key (id)"),
        ('{"op": "u", "after": {"id": null}}', "without a value of the key (id)"),
        ('{"op": "d"}', "a deletion without a key"),
        ('{"op": "t"}', "names no keys"),
        ('{"op": "c", "after": {"id": 1}, "source": {"ts_ms": 1e300}}', "source.ts_ms: expected int"),
        ('{"op": "c", "after": {"id": 1}, "source": {"ts_ms": 9223372036854775807}}', "source.ts_ms: expected int"),
    ],
)
def test_what_is_wrong_with_a_message(text: str | bytes, said: str) -> None:
    assert said in error(text).replace("Expected", "expected")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"id": "1"}, "after.id: expected int, got str"),
        ({"id": 1.5}, "after.id: expected int, got float"),
        ({"id": 1 << 31}, "after.id: expected int <= 2147483647"),
        ({"id": int("9" * 300)}, "after.id: expected int"),
        ({"name": 7}, "after.name: expected str"),
        ({"name": {"a": 1}}, "after.name: expected str, got object"),
        ({"price": "12.50"}, "decimals='string' or 'precise'"),
        ({"price": 12345.67}, "column 'price'"),
        ({"price": 1.234}, "column 'price'"),
        ({"price": {"scale": 10**9, "value": "AQ=="}}, "column 'price'"),
        ({"at": 1_700_000_000_000}, "times='ms', 'us' or 'ns'"),
        ({"at": "yesterday"}, "column 'at': Invalid isoformat string"),
        ({"at": "0000-00-00 00:00:00"}, "column 'at'"),
        ({"day": 1 << 40}, "after.day: expected int <= 2147483647"),
        ({"day": 1 << 30}, "column 'day': is not in the years 1 to 9999"),
        ({"paid": 2}, "after.paid: expected int <= 1"),
        ({"photo": "not base64!"}, "after.photo: invalid base64"),
        ({"rate": "a lot"}, "after.rate: invalid enum value 'a lot'"),
    ],
)
def test_what_is_wrong_with_a_value(values: dict[str, Any], said: str) -> None:
    assert said in error(created(**values))


def test_numbers_beyond_the_calendar_are_refused_in_every_unit() -> None:
    for unit, most in (("ms", 253_402_300_800_000), ("us", 253_402_300_800_000_000), ("ms", (1 << 63) - 1)):
        assert "years 1 to 9999" in error(created(at=most), form=MessageForm("debezium", times=unit))
    assert read(created(at=(1 << 63) - 1), form=MessageForm("debezium", times="ns")).errors == {}


def test_decimals_of_bytes_and_strings_are_checked() -> None:
    precise, string = MessageForm("debezium", decimals="precise"), MessageForm("debezium", decimals="string")
    assert "more digits than decimal(6,2)" in error(created(price="f" * 16), form=precise)
    assert "'much' is not a number" in error(created(price="much"), form=string)
    assert "not a finite number" in error(created(price="NaN"), form=string)
    assert "column 'price'" in error(created(price="1e999999999"), form=string)
    assert "expected" in error(created(price=12.5), form=string)


def test_of_two_equal_names_the_last_counts() -> None:
    found = read('{"op": "d", "op": "c", "after": {"id": 1, "id": 2, "name": "x"}}')
    assert found.errors == {}
    assert found.rows.column("id").to_pylist() == [1, 2, 1]


def test_unknown_fields_and_absent_columns_are_no_error() -> None:
    found = read('{"op": "c", "after": {"id": 2, "more": [1, {"a": null}]}, "new": 1}')
    assert found.errors == {}
    assert found.rows.to_pylist()[1] == {**dict.fromkeys(found.rows.schema.names), "id": 2}


def test_special_numbers_are_strings() -> None:
    values = [read(created(rate=text)).rows.column("rate")[1].as_py() for text in ("NaN", "Infinity", "-Infinity")]
    assert [str(value) for value in values] == ["nan", "inf", "-inf"]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "a deletion without a key"),
        ("ada", "by the message's key: JSON is malformed"),
        ('{"id": "1"}', "by the message's key: id: expected int"),
        ('{"number": 1}', "the message's key has no value for id"),
        ('{"schema": null, "payload": {"number": 1}}', "the message's key has no value for id"),
    ],
)
def test_a_tombstone_needs_its_key(key: str | None, said: str) -> None:
    assert said in error(None, key=key)
    assert said in error("null", key=key)


def test_a_tombstone_deletes_by_its_key() -> None:
    for key in ('{"id": 5}', '{"schema": null, "payload": {"id": 5}}'):
        for text in (None, "null", '{"schema": null, "payload": null}', '{"op": "d", "before": {"id": null}}'):
            found = read(text, key=key)
            assert found.errors == {}
            assert found.deleted.tolist() == [False, True, False]
            assert found.rows.column("id").to_pylist() == [1, 5, 1]


def schema(**fields: Any) -> dict[str, Any]:
    columns = [{"field": name, **field} for name, field in fields.items()]
    return {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": columns}]}


@pytest.mark.parametrize(
    ("column", "field", "said"),
    [
        (
            "at",
            {"type": "int32", "name": "io.debezium.time.Date"},
            "timestamp, and the schema in the message says io.deb",
        ),
        ("at", {"type": "int64"}, "times='ms', 'us' or 'ns'"),
        ("day", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "is declared as date"),
        ("name", {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}, "is declared as string"),
        ("price", {"type": "bytes"}, "is declared as decimal(6,2)"),
        ("price", {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}, "no scale"),
        ("photo", {"type": "string"}, "is declared as binary"),
    ],
)
def test_a_schema_that_says_something_else(column: str, field: dict[str, Any], said: str) -> None:
    message = {"schema": schema(**{column: field}), "payload": {"op": "c", "after": {"id": 1, column: 5}}}
    assert said in error(json.dumps(message))


def test_the_same_schema_may_stand_behind_its_payload() -> None:
    told = schema(at={"type": "int64", "name": "io.debezium.time.Timestamp"})
    payload = {"op": "c", "after": {"id": 1, "at": 5}}
    usual, turned = json.dumps({"schema": told, "payload": payload}), json.dumps({"payload": payload, "schema": told})
    longer = json.dumps({"schema": told, "payload": payload, "more": {}})
    texts = pa.array([usual, turned, usual, longer, usual, usual[:-1], usual])
    found = read_changes(Envelope(MessageForm("debezium"), tuple(ddl.parse(COLUMNS)), ("id",)), texts)
    assert found.errors == {5: "ends in the middle"}
    assert found.rows.column("at").cast(pa.int64()).to_pylist() == [5000] * 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", 'has no "type"'),
        ('{"type": "upsert"}', "there is no type 'upsert'"),
        ('{"type": "insert"}', 'insert without "data"'),
        ('{"type": "delete", "data": {}}', "delete without a value of the key (id)"),
        ('{"type": "table-truncate"}', "names no keys"),
        ('{"type": "insert", "data": {"id": 1, "at": 5}}', "nothing says of which unit"),
        ('{"type": "insert", "data": {"id": 1}, "ts": "now"}', "ts: expected int"),
    ],
)
def test_what_is_wrong_with_a_message_of_maxwell(text: str, said: str) -> None:
    assert said in error(text, form=MessageForm("maxwell"), good=GOOD_MAXWELL)


def test_json_columns_of_maxwell_are_their_text() -> None:
    text = '{"type": "insert", "data": {"id": 2, "name": {"a": [1, 2.50, "é"]}}}'
    found = read(text, form=MessageForm("maxwell"), good=GOOD_MAXWELL)
    assert found.rows.column("name").to_pylist() == ["ada", '{"a":[1,2.5,"é"]}', "ada"]


def test_other_tables_of_a_topic_are_passed_over() -> None:
    form = MessageForm("maxwell", of="shop.orders")
    good = '{"database": "shop", "table": "orders", "type": "insert", "data": {"id": 1}}'
    for text, key in (
        (good.replace("orders", "users"), None),
        (good.replace('"id"', '"user"').replace("orders", "users"), None),
        (None, '{"database": "shop", "table": "users", "pk.id": 1}'),
    ):
        found = read(text, form=form, key=key, good=good)
        assert (found.at.tolist(), found.errors) == ([0, 2], {})
    found = read(None, form=form, key='{"database": "shop", "table": "orders", "pk.id": 1}', good=good)
    assert found.deleted.tolist() == [False, True, False]
