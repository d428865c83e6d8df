"""Avro of many rows at once: what goes the fast way is exactly what goes record by record, and what cannot goes so."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun import ddl
from riverrun.log.spec import TopicSpec

pytest.importorskip("fastavro", reason="fastavro is not installed")

from riverrun.log.kafka import avro_values
from riverrun.log.kafka.avro_columns import decode_columns, encode_columns
from riverrun.log.kafka.avro_values import AvroValues

NUMBERS = "n bigint, small tinyint, whole int, ok boolean, amount double, rough float"
SCHEMA = f"user string, {NUMBERS}, raw binary, day date, at timestamp"
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda moment: moment.replace(tzinfo=UTC))
ROWS = st.fixed_dictionaries(
    {
        "user": st.none() | st.text(),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-128, 127),
        "whole": st.none() | st.integers(-(2**31), 2**31 - 1),
        "ok": st.none() | st.booleans(),
        "amount": st.none() | st.floats(allow_nan=False),
        "rough": st.none() | st.floats(width=32, allow_nan=False),
        "raw": st.none() | st.binary(),
        "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "at": st.none() | MOMENTS,
    }
)


def values(schema: str = SCHEMA, *older: str, **options: Any) -> AvroValues:
    spec = TopicSpec("t", schema, format="avro", **options).resolve()
    versions = [*older, schema]
    return AvroValues(spec, {i + 1: ddl.arrow_schema(ddl.parse(one)) for i, one in enumerate(versions)}, len(versions))


@given(st.lists(ROWS, max_size=8), st.integers(0, 3))
def test_what_is_written_at_once_is_what_is_written_record_by_record(rows: list[Any], skipped: int) -> None:
    codec = values()
    batch = pa.RecordBatch.from_pylist(rows, codec.schema).slice(skipped)  # its buffers are those of the whole
    fast = codec.encode(batch)
    assert encode_columns(batch) == fast
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_values, "encode_columns", lambda *_: None)
        assert codec.encode(batch) == fast
    if fast:
        read = decode_columns(fast, codec.schema, [])
        assert read is not None and read.equals(batch)


@given(st.lists(ROWS, min_size=1, max_size=3), st.data())
def test_what_is_read_at_once_is_what_is_read_record_by_record(rows: list[Any], data: st.DataObject) -> None:
    """Also of bytes that are none of the schema's: cut, longer, or with others in between."""
    codec = values("user string, n bigint, ok boolean, amount double, at timestamp", time="at")
    written = codec.encode(pa.RecordBatch.from_pylist(rows, codec.schema))
    hurt = bytearray(data.draw(st.sampled_from(written)))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(hurt)))
        hurt[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    given_values = [*written, bytes(hurt)]
    versions = [0] * len(given_values)
    fast = codec.decode(given_values, versions)
    slow = codec._one_by_one(given_values, versions)
    assert (list(fast.kept), fast.bad) == (list(slow.kept), slow.bad)
    assert fast.rows.equals(slow.rows)


def test_records_of_older_versions_lack_columns() -> None:
    codec = values("user string, n bigint, more string", "user string", "user string, n bigint")
    written = values("user string, n bigint").encode(pa.RecordBatch.from_pydict({"user": ["ada", None], "n": [1, 2]}))
    decoded = codec.decode(written, [2, 2])
    assert decoded.rows.to_pylist() == [{"user": "ada", "n": 1, "more": None}, {"user": None, "n": 2, "more": None}]
    assert codec.decode([*written, b"\x02\x02x"], [2, 2, 1]).rows.column("user").to_pylist() == ["ada", None, "x"]


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\x02", b"\x04", b"\x01", b"\x02\x80", b"\x02\x02", b"\x00\x00", b"\x02\x01", b"\x02\xff\xff\xff\xff\xff\xff",
        b"\x02" + b"\x80" * 12, b"\x02\x02\xff", b"\x02" + b"\xff" * 9 + b"\x7f",
    ],
)  # fmt: skip
def test_what_is_no_record_is_no_row(value: bytes) -> None:
    codec = values("user string")
    assert decode_columns([b"\x02\x02a", value], codec.schema, []) is None
    decoded = codec.decode([b"\x02\x02a", value], [0, 0])
    assert decoded.rows.to_pylist() == [{"user": "a"}] and list(decoded.bad) == [1]


def test_a_time_beyond_the_calendar_is_no_row() -> None:
    codec = values("at timestamp", time="at")
    far = pa.array([2**62]).cast(pa.timestamp("us", "UTC"))
    written = encode_columns(pa.RecordBatch.from_arrays([far], names=["at"]))
    assert written is not None
    assert decode_columns(written, codec.schema, []) is None
    assert list(codec.decode(written, [0]).bad) == [0]


@pytest.mark.parametrize("kind", ["decimal(5,2)", "array<int>", "map<string,int>", "struct<a: int>"])
def test_other_types_go_record_by_record(kind: str) -> None:
    codec = values(f"v {kind}")
    batch = pa.RecordBatch.from_pylist([{"v": None}], codec.schema)
    assert encode_columns(batch) is None
    assert codec.decode(codec.encode(batch), [0]).rows.equals(batch)
