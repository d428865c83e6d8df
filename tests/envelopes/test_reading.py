"""Messages of Debezium and Maxwell as rows, against an oracle in plain Python."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oracles import envelopes as oracle
from oracles.envelopes import CHANGES, COLUMNS, WRITINGS, Change, Writing
from oracles.orders import examples
from riverrun import ddl
from riverrun.envelopes.changes import MessageChanges
from riverrun.envelopes.envelope import Envelope, MessageForm
from riverrun.envelopes.reading import read_changes

ALL = tuple(ddl.parse(COLUMNS))


def read(form: MessageForm, messages: list[tuple[str | None, str | None]]) -> MessageChanges:
    keys, texts = (pa.array([message[part] for message in messages], pa.string()) for part in (0, 1))
    return read_changes(Envelope(form, ALL, ("id",)), texts, keys)


def found(changes: MessageChanges) -> list[tuple[int, bool, Any]]:
    """Changes as the oracle has them."""
    rows = changes.rows.to_pylist()
    assert all(
        value is None
        for row, gone in zip(rows, changes.deleted, strict=True)
        if gone
        for value in list(row.values())[1:]
    )
    return [
        (int(at), bool(gone), {"id": row["id"]} if gone else row)
        for at, gone, row in zip(changes.at, changes.deleted, rows, strict=True)
    ]


@given(CHANGES, WRITINGS)
@examples(60)
def test_debezium(changes: list[Change], how: Writing) -> None:
    told = how.schema
    form = MessageForm("debezium", None if told or how.times == "iso" else how.times, None if told else how.decimals)
    read_now = read(form, [oracle.debezium(change, how) for change in changes])
    assert read_now.errors == {}
    assert found(read_now) == oracle.expected(changes, how.times)
    assert read_now.kept.null_count == len(read_now.kept)


@given(CHANGES)
@examples(40)
def test_maxwell(changes: list[Change]) -> None:
    read_now = read(MessageForm("maxwell"), [oracle.maxwell(change) for change in changes])
    assert read_now.errors == {}
    assert found(read_now) == oracle.expected(changes)


@given(st.lists(st.tuples(CHANGES, WRITINGS), max_size=3))
@examples(40)
def test_schemas_may_change_from_message_to_message(stretches: list[tuple[list[Change], Writing]]) -> None:
    described = [(changes, Writing(how.times, how.decimals, True)) for changes, how in stretches]
    messages = [oracle.debezium(change, how) for changes, how in described for change in changes]
    expected, begin = [], 0
    for changes, how in described:
        expected += [(begin + at, gone, row) for at, gone, row in oracle.expected(changes, how.times)]
        begin += len(changes)
    # mixed, so that no two neighbours need to have one schema
    order = sorted(range(len(messages)), key=lambda at: (at * 7919) % 31)
    read_now = read(MessageForm("debezium"), [messages[at] for at in order])
    assert read_now.errors == {}
    assert sorted(((order[at], gone, row) for at, gone, row in found(read_now)), key=lambda one: one[:1]) == expected


@given(CHANGES, WRITINGS, st.lists(st.integers(0, 11), max_size=3))
@examples(60)
def test_what_cannot_be_read_does_not_touch_its_neighbours(changes: list[Change], how: Writing, bad: list[int]) -> None:
    form = MessageForm("debezium", how.times if how.times != "iso" else None, how.decimals)
    messages = [oracle.debezium(change, how) for change in changes]
    wrong = {at for at in bad if at < len(messages)}
    for at in wrong:
        messages[at] = (messages[at][0], '{"op": "c", "after": {"id": 1, "day": "31 January"}}')
    read_now = read(form, messages)
    assert set(read_now.errors) == wrong
    assert found(read_now) == [one for one in oracle.expected(changes, how.times) if one[0] not in wrong]


def test_times_are_those_of_the_source() -> None:
    form, row = MessageForm("debezium"), {"id": 1}
    sources: list[Any] = [{"ts_ms": 5}, {"ts_ms": 5, "ts_us": 5001}, {}, None]
    messages = [json_of({"op": "c", "after": row, "source": source, "ts_ms": 7}) for source in sources]
    assert read(form, [(None, text) for text in messages]).times.to_pylist() == [5000, 5001, 7000, 7000]
    assert read(form, [(None, json_of({"op": "c", "after": row})), ('{"id": 1}', None)]).times.to_pylist() == [
        None,
        None,
    ]
    told = read(MessageForm("maxwell"), [(None, json_of({"type": "insert", "ts": 3, "data": row}))])
    assert told.times.to_pylist() == [3_000_000]


def json_of(value: Any) -> str:
    return json.dumps(value)
