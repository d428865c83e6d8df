"""Rows written as Debezium's messages, and read again: nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oracles.envelopes import COLUMNS, ROWS
from oracles.orders import examples
from riverrun import ddl
from riverrun.envelopes.encoding import encode_key, encode_message, written_values
from riverrun.envelopes.envelope import Envelope, MessageForm
from riverrun.envelopes.reading import read_changes

ALL = tuple(ddl.parse(COLUMNS))
STRUCT = pa.struct(list(ddl.arrow_schema(ALL)))
SOURCE = {"connector": "riverrun", "name": "shop", "db": "shop", "schema": "public", "table": "orders"}


def rows(values: list[Any]) -> pa.StructArray:
    return pa.array(values, STRUCT)


def encoded(ops: list[str], before: list[Any], after: list[Any], transaction: Any = None) -> pa.Table:
    """Messages, one for each op, and their keys."""
    olds, news = objects(before), objects(after)
    texts = [
        encode_message(op, old, new, {**SOURCE, "ts_ms": number}, 5, transaction)
        for number, (op, old, new) in enumerate(zip(ops, olds, news, strict=True))
    ]
    keys = [encode_key({"id": row["id"]}) if (row := new or old) else None for old, new in zip(olds, news, strict=True)]
    return pa.table({"key": pa.array(keys, pa.string()), "json": pa.array(texts, pa.string())})


def objects(values: list[Any]) -> list[dict[str, Any] | None]:
    """Rows as they stand in messages."""
    there = rows([value for value in values if value is not None])
    written = zip(*(written_values(column) for column in there.flatten()), strict=True)
    return [None if value is None else dict(zip(STRUCT.names, next(written), strict=True)) for value in values]


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("rc"), st.none(), ROWS),
        st.tuples(st.just("u"), st.none() | ROWS, ROWS),
        st.tuples(st.just("d"), ROWS, st.none()),
    ),
    max_size=8,
)


@given(CHANGES, st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.1]))
@examples(60)
def test_what_is_written_is_read_again(changes: list[Any], rate: float) -> None:
    for _, _, after in changes[:1]:
        if after is not None:
            after["rate"] = rate
    ops, before, after = ([one[part] for one in changes] for part in range(3))
    written = encoded(ops, before, after)
    envelope = Envelope(MessageForm("debezium", times="us", decimals="string"), ALL, ("id",))
    found = read_changes(envelope, written.column("json"), written.column("key"))
    assert found.errors == {}
    expected = []
    for number, (op, old, new) in enumerate(changes):
        if op == "d" or (old is not None and old["id"] != new["id"]):
            expected.append((number, True, {**dict.fromkeys(new or old), "id": old["id"]}))
        if op != "d":
            expected.append((number, False, new))
    assert repr(list(zip(found.at.tolist(), found.deleted.tolist(), rows_of(found.rows), strict=True))) == repr(
        [(at, gone, row) for (at, gone, _), row in zip(expected, rows_of_values(expected), strict=True)]
    )
    assert found.times.to_pylist() == [at * 1000 for at, _, _ in expected]


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    return batch.to_pylist()  # type: ignore[no-any-return]


def rows_of_values(expected: list[Any]) -> list[Any]:
    """The rows as Arrow gives them back, so that zones and zeros look the same."""
    return rows([row for _, _, row in expected]).to_pylist()  # type: ignore[no-any-return]


def test_the_keys_of_messages_name_the_row() -> None:
    one, two = (dict.fromkeys((column.name for column in ALL), None) | {"id": number} for number in (1, 2))
    written = encoded(["c", "u", "d", "t"], [None, one, two, None], [one, two, None, None])
    assert written.column("key").to_pylist() == ['{"id":1}', '{"id":2}', '{"id":2}', None]


def test_a_message_is_as_debezium_documents_it() -> None:
    row = dict.fromkeys(STRUCT.names) | {"id": 7, "name": 'a"b', "photo": b"\x00\x01", "tags": ["x", None]}
    begun = {"id": "571:53195829", "total_order": 1, "data_collection_order": 1}
    (text,) = encoded(["c"], [None], [row], transaction=begun).column("json").to_pylist()
    message = json.loads(text)
    assert list(message) == ["before", "after", "source", "op", "ts_ms", "transaction"]
    assert message["after"] == {**row, "photo": "AAE="}
    assert message["source"] == {**SOURCE, "ts_ms": 0}
    assert (message["before"], message["op"], message["ts_ms"], message["transaction"]) == (None, "c", 5, begun)
