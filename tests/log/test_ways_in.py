"""The same rows make the same batch, however many there are and whatever they come in."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.errors import Invalid, RecordTooLarge
from riverrun.log.rows import RowSchema, is_larger
from riverrun.log.spec import TopicSpec

SCHEMA = (
    "k string, n bigint, small tinyint, x double, f float, ok boolean, at timestamp, day date, price decimal(10,2), "
    "raw binary, tags array<string>, place struct<lat: double, name: string>, counts map<string, int>"
)
ROW = {
    "k": "ada",
    "n": 1 << 40,
    "small": -128,
    "x": 0.1,
    "f": 1.5,
    "ok": True,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("12.30"),
    "raw": b"\x00\xff",
    "tags": ["a", None],
    "place": {"lat": 1.0, "name": None},
    "counts": {"a": 1},
}


def row_schema(schema: str = SCHEMA, limit: int = 1 << 20, **options: object) -> RowSchema:
    return RowSchema(TopicSpec("t", schema, **options).resolve(), limit)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.sampled_from(sorted(ROW))), min_size=1, max_size=5), st.integers(0, 120))
def test_few_and_many_rows_are_read_alike(kept, others):
    """Any columns may be left out; `others` rows more decide which way the rows go."""
    schema = row_schema()
    rows = [{name: ROW[name] for name in names} for names in kept]
    batch = schema.batch([*rows, *[ROW] * others])
    assert batch.schema.equals(schema.arrow)
    assert batch.slice(0, len(rows)).to_pylist() == pa.RecordBatch.from_pylist(rows, schema=schema.arrow).to_pylist()
    assert batch.slice(len(rows)).to_pylist() == pa.RecordBatch.from_pylist([ROW] * others, schema.arrow).to_pylist()


@pytest.mark.parametrize("rows", [1, 63, 64, 200])
def test_arrow_and_dicts_make_the_same_batch(rows):
    schema = row_schema()
    from_dicts = schema.batch([ROW] * rows)
    table = pa.Table.from_batches([from_dicts])
    for given_rows in (from_dicts, table, table.select(table.column_names[::-1]), pa.concat_tables([table])):
        batch = schema.batch(given_rows)
        assert batch.equals(from_dicts)
        assert batch.schema.equals(schema.arrow)


@pytest.mark.parametrize("rows", [1, 200])
@pytest.mark.parametrize("bad", [{"n": 1.5}, {"k": b"x"}, {"at": 1}, {"small": 128}, {"other": 1}, {"k": "\ud800"}])
def test_what_is_refused_is_refused_in_every_way_and_named(bad, rows):
    with pytest.raises(Invalid) as refusal:
        row_schema().batch([*[ROW] * (rows - 1), {**ROW, **bad}])
    assert next(iter(bad)) in str(refusal.value)
    assert f"row {rows - 1}" in str(refusal.value)


@pytest.mark.parametrize("rows", [1, 200])
def test_a_required_value_may_be_missing_from_no_way_in(rows):
    schema = row_schema("k string not null, n bigint", key="k")
    dicts = [*[{"k": "a", "n": 1}] * (rows - 1), {"n": 1}]
    table = pa.Table.from_pylist(dicts, schema=pa.schema([("k", pa.string()), ("n", pa.int64())]))
    as_declared = pa.RecordBatch.from_arrays(table.to_batches()[0].columns, schema=schema.arrow)
    for given_rows in (dicts, table, table.to_batches()[0], as_declared):
        with pytest.raises(Invalid, match=f"row {rows - 1}, column 'k': a value is required"):
            schema.batch(given_rows)


@pytest.mark.parametrize("rows", [1, 200])
def test_tombstones_among_few_and_many(rows):
    schema = row_schema("k string, n bigint not null", key="k")
    batch = schema.batch([*[{"k": "a", "n": 1}] * (rows - 1), {"k": "a", "_deleted": True}])
    assert batch.schema.names == ["k", "n", "_deleted"]
    assert batch.to_pylist()[-1] == {"k": "a", "n": None, "_deleted": True}


def test_sizes_are_of_the_rows_not_of_the_buffers_they_share():
    big = pa.array(["x" * 100] * 1000)
    slice_of_many = pa.record_batch({"a": big}).slice(0, 2)
    assert not is_larger(slice_of_many, 1000)
    assert is_larger(pa.record_batch({"a": big}), 1000)
    one = pa.array(["x" * 600])
    assert is_larger(pa.record_batch({"a": one, "b": one}), 1000)  # the same buffer, twice
    with pytest.raises(RecordTooLarge, match="row 0"):
        row_schema("a string, b string", limit=1000).batch(pa.record_batch({"a": one, "b": one}))
