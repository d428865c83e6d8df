"""JSON of many rows at once: what goes the fast way is exactly what goes row by row, and what cannot goes row by row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun import ddl
from riverrun.log.kafka import json_values
from riverrun.log.kafka.json_columns import encode_columns
from riverrun.log.kafka.json_values import JsonValues
from riverrun.log.spec import TopicSpec

SCHEMA = "user string, n bigint, small tinyint, ok boolean, amount double, at timestamp"
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(tzinfo=UTC))
ROWS = st.fixed_dictionaries(
    {
        "user": st.none() | st.text(),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-128, 127),
        "ok": st.none() | st.booleans(),
        "amount": st.none() | st.floats(),
        "at": st.none() | MOMENTS | st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    }
)
HOSTILE = st.sampled_from(
    [
        "1", "-0", "1.0", "1e2", "1E400", "-1e-400", "9223372036854775808", "9007199254740993", "128", "0.1", "true", "null",
        "NaN", "Infinity", '"NaN"', '"Infinity"', '""', '"user"', '"\\u0075ser"', '"\\ud800"', '"a\\nb"', '"ü€😀"', "[]", "{}",
        '"2026-01-01T00:00:00Z"', '"2026-01-01 00:00:00Z"', '"2026-01-01T00:00:00"', '"2026-01-01T00:00Z"', '"2026-01-01Z"',
        '"2026-01-01T00:00:60Z"', '"2026-01-01T24:00:00Z"', '"2026-02-30T00:00:00Z"', '"0001-01-01T00:00:00+01:00"',
        '"9999-12-31T23:59:59.999999-01:00"', '"2026-01-01T00:00:00.1234567Z"', '"2026-01-01T00:00:00.5+14:59"',
        '"2026-01-01T00:00:00+25:00"', '"2026-01-01t00:00:00z"', '"10000-01-01T00:00:00Z"', "01", "+1", ".5", "1.", "'x'",
    ]
)  # fmt: skip
NAMES = st.sampled_from(["user", "n", "small", "ok", "amount", "at", "other", "User", "\\u006e"])
OBJECTS = st.lists(st.tuples(NAMES, HOSTILE), max_size=6).map(
    lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
)
TEXTS = OBJECTS | st.sampled_from(
    ['{"n":1}{"n":2}', "", " ", "[]", '{"n":1}\n', '{"n":1,}', '{"n":1} x', '{"n"', "{}}", "null"]
)


def values(schema: str = SCHEMA, **options: Any) -> JsonValues:
    spec = TopicSpec("t", schema, **options).resolve()
    return JsonValues(spec, {1: ddl.arrow_schema(ddl.parse(schema))}, 1)


def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JsonValues, "_at_once", lambda *_: None)
    monkeypatch.setattr(json_values, "encode_columns", lambda *_: None)


@given(st.lists(ROWS, max_size=8))
def test_what_is_written_at_once_is_what_is_written_row_by_row(rows: list[Any]) -> None:
    codec = values()
    batch = pa.RecordBatch.from_pylist(rows, codec.schema)
    fast = codec.encode(batch)
    with pytest.MonkeyPatch.context() as patch:
        slowly(patch)
        slow = codec.encode(batch)
    assert [json.loads(text) for text in fast] == [json.loads(text) for text in slow]
    assert codec.decode(fast, []).rows.column("at").equals(batch.column("at"))


@given(st.lists(TEXTS, min_size=1, max_size=4), st.booleans())
def test_what_is_read_at_once_is_what_is_read_row_by_row(texts: list[str], required: bool) -> None:
    codec = values(**({"time": "at"} if required else {}))
    given_values = [text.encode() for text in texts]
    fast = codec.decode(given_values, [0] * len(texts))
    with pytest.MonkeyPatch.context() as patch:
        slowly(patch)
        slow = codec.decode(given_values, [0] * len(texts))
    assert (list(fast.kept), fast.bad) == (list(slow.kept), slow.bad)
    assert fast.rows.equals(slow.rows)


def test_plain_rows_go_at_once() -> None:
    codec = values()
    rows = [
        {"user": f"u{i}", "n": i, "small": 1, "ok": True, "amount": i / 7, "at": datetime(2026, 1, 1, tzinfo=UTC)}
        for i in range(9)
    ]
    written = encode_columns(pa.RecordBatch.from_pylist(rows, codec.schema))
    assert written is not None
    assert (
        written[1]
        == b'{"user":"u1","n":1,"small":1,"ok":true,"amount":0.14285714285714285,"at":"2026-01-01T00:00:00Z"}'
    )
    read = codec._at_once(written)
    assert read is not None and read.to_pylist() == rows
    lacking = codec._at_once([*written, b"{}", b'{ "n" : null }'])
    assert lacking is not None and lacking.column("n").null_count == 2


@pytest.mark.parametrize("kind", ["float", "decimal(5,2)", "date", "binary", "array<int>", "timestamp_ntz"])
def test_other_types_go_row_by_row(kind: str) -> None:
    codec = values(f"v {kind}")
    assert encode_columns(pa.RecordBatch.from_pylist([{"v": None}], codec.schema)) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"n":1,"n":1}', '{"n":1,"n":null}', '{"n":null,"n":1}', '{"user":"a","user":"b"}', '{"n":1,"other":2}',
        '{"user":"\\u0041"}', '{"amount":"NaN"}', '{"n":"1"}', '{"n":1', '{"at":"2026-01-01T00:00:00"}',
    ],
)  # fmt: skip
def test_what_may_give_a_name_twice_is_looked_at_again(text: str) -> None:
    assert values()._at_once([b'{"n":7}', text.encode()]) is None


def test_a_negative_zero_stays_one() -> None:
    rows = pa.RecordBatch.from_pydict({"amount": pa.array([-0.0, 1.5])})
    assert encode_columns(rows) is None
