"""Rows → batches, and rows → bytes → batches. The two ways must agree, whatever the rows are."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.errors import Invalid, RecordTooLarge
from riverrun.log.packing import Packing
from riverrun.log.rows import RowSchema, key_text
from riverrun.log.spec import TopicSpec

LIMIT = 2000


def row_schema(schema: str, **options: Any) -> RowSchema:
    return RowSchema(TopicSpec("t", schema, **options).resolve(), LIMIT)


whole = st.integers(-(2**53), 2**53)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
times = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(dt.UTC))
singles = st.floats(width=32, allow_nan=False)
VALUES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "s": ("string", texts),
    "b": ("boolean", st.booleans()),
    "t": ("tinyint", st.integers(-128, 127)),
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "l": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "f": ("float", singles | st.integers(-(2**24), 2**24)),
    "d": ("double", st.floats(allow_nan=False) | whole),
    "day": ("date", st.dates()),
    "at": ("timestamp", times | times.map(dt.datetime.isoformat)),
    "wall": ("timestamp_ntz", st.datetimes()),
    "raw": ("binary", st.binary(max_size=8)),
    "price": ("decimal(6,2)", st.decimals(-9999, 9999, places=2)),
    "tags": ("array<string>", st.lists(st.none() | texts, max_size=3)),
    "counts": ("map<string,double>", st.dictionaries(texts, st.none() | whole, max_size=3)),
    "place": ("struct<lat:double,on:date>", st.fixed_dictionaries({}, optional={"lat": whole, "on": st.dates()})),
}
rows = st.lists(st.fixed_dictionaries({}, optional={n: st.none() | values for n, (_, values) in VALUES.items()}))
EVERYTHING = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())


@settings(max_examples=150, deadline=None)
@given(rows)
def test_packed_rows_make_the_same_batch(given_rows: list[dict[str, Any]]) -> None:
    schema = row_schema(EVERYTHING)
    packing = Packing(schema)
    assert packing.batch([packing.pack(row) for row in given_rows]).equals(schema.batch(given_rows))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4) | times,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*VALUES, "other", "_deleted", "_time"]), anything, max_size=3))
def test_both_ways_refuse_the_same_rows(row: dict[str, Any]) -> None:
    schema = row_schema(EVERYTHING)
    packing = Packing(schema)

    def outcome(check: Any) -> str:
        try:
            check(row)
        except Invalid as error:
            return str(error)
        return "taken"

    assert outcome(packing.pack) == outcome(schema.batch)


def test_rows_packed_before_the_schema_grew_can_be_read() -> None:
    old, new = Packing(row_schema("a int, s string")), Packing(row_schema("a int, s string, n bigint, tags array<int>"))
    packed = [old.pack({"a": 1}), old.pack({"a": 2, "s": "x"}), new.pack({"a": 3, "n": 7, "tags": [1]})]
    assert new.batch(packed).to_pylist() == [
        {"a": 1, "s": None, "n": None, "tags": None},
        {"a": 2, "s": "x", "n": None, "tags": None},
        {"a": 3, "s": None, "n": 7, "tags": [1]},
    ]


def test_tombstones_can_be_packed_among_rows() -> None:
    schema = row_schema("k string, n bigint NOT NULL, at timestamp", key="k", time="at")
    packing = Packing(schema)
    given_rows = [{"k": "a", "n": 1, "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}, {"k": "a", "_deleted": True}]
    batch = packing.batch([packing.pack(row) for row in given_rows])
    assert batch.column("_deleted").to_pylist() == [False, True]
    assert batch.equals(schema.batch(given_rows))


def test_only_a_tombstone_may_leave_out_what_is_required() -> None:
    packing = Packing(row_schema("k string, n bigint NOT NULL", key="k"))
    with pytest.raises(Invalid, match="column 'n': a value is required"):
        packing.pack({"k": "a", "_deleted": False})
    with pytest.raises(Invalid, match="column 'k': a value is required"):
        packing.pack({"n": 1, "_deleted": True})


@pytest.mark.parametrize("size", [LIMIT - 200, LIMIT - 100, LIMIT, LIMIT + 1, LIMIT * 2])
def test_the_limit_of_a_record_is_the_same_both_ways(size: int) -> None:
    schema = row_schema("s string, n bigint, tags array<bigint>")
    for row in ({"s": "x" * size}, {"tags": [None] * (size // 8)}, {"s": "é" * (size // 2), "n": 1}):
        outcomes = []
        for check in (Packing(schema).pack, schema.batch):
            try:
                check(row)
                outcomes.append("taken")
            except RecordTooLarge as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


class Custom(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return {"k": "a"}[name]

    def __iter__(self) -> Any:
        return iter(["k"])

    def __len__(self) -> int:
        return 1


def test_any_mapping_is_a_row() -> None:
    schema = row_schema("k string, n bigint")
    assert schema.batch(Custom()).to_pylist() == [{"k": "a", "n": None}]
    assert schema.batch([Custom(), {"n": 1}]).to_pylist() == [{"k": "a", "n": None}, {"k": None, "n": 1}]
    packing = Packing(schema)
    assert packing.batch([packing.pack(Custom())]).to_pylist() == [{"k": "a", "n": None}]


def test_odd_column_names() -> None:
    schema = row_schema("`a b` int, `größe` int, `class` int, `c0` int, `$.x` int, `0` int")
    row = {"a b": 1, "größe": 2, "class": 3, "c0": 4, "$.x": 5, "0": 6}
    packing = Packing(schema)
    assert schema.batch(row).to_pylist() == packing.batch([packing.pack(row)]).to_pylist() == [row]
    with pytest.raises(Invalid, match="column 'größe'"):
        schema.batch({"größe": "x"})


def test_the_first_bad_row_is_named_among_many() -> None:
    schema = row_schema("n bigint, p decimal(4,2)")
    good = [{"n": i, "p": Decimal("1.5")} for i in range(500)]
    with pytest.raises(Invalid, match="row 321, column 'n'"):
        schema.batch([*good[:321], {"n": "x"}, *good[321:], {"n": None, "z": 1}])
    with pytest.raises(Invalid, match="row 123, column 'p'"):
        schema.batch([*good[:123], {"p": Decimal("100")}, *good])


def test_infinities_are_floats_and_what_would_become_one_is_refused() -> None:
    schema = row_schema("f float")
    assert schema.batch([{"f": math.inf}, {"f": -math.inf}, {"f": None}]).column("f").to_pylist() == [
        math.inf,
        -math.inf,
        None,
    ]
    with pytest.raises(Invalid, match="row 1, column 'f': -1e\\+300 is too large"):
        schema.batch([{"f": math.inf}, {"f": -1e300}])
    assert schema.batch(pa.table({"f": [math.inf, 3.4e38]})).num_rows == 2


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.none() | texts, st.none() | st.integers(-5, 5)), min_size=2, unique=True))
def test_different_keys_have_different_texts(keys: list[tuple[str | None, int | None]]) -> None:
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in keys], pa.string()), "b": pa.array([b for _, b in keys], pa.int32())}
    )
    texts_of = key_text(batch, ["a", "b"]).to_pylist()
    assert len(set(texts_of)) == len(keys)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"s": 5}, "column 's': expected `str | null`, got `int`"),
        ({"b": 1}, "column 'b': expected `bool | null`, got `int`"),
        ({"n": 300}, "column 'n': expected `int` <= 127, not 300"),
    ],
)
def test_a_number_is_repeated_where_it_is_too_large_and_not_where_it_is_of_another_type(row: dict, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        row_schema("s string, b boolean, n tinyint").batch([row])
    assert str(caught.value) == f"topic t, row 0, {said}"
