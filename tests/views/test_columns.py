"""Values come back from a store as they went in."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun import ddl
from riverrun.errors import Invalid
from riverrun.views.columns import conform, give_back, keep, kept_as, rows_of, scalar

_SCALARS = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
    "binary": st.binary(max_size=5),
    "date": st.dates(date(1, 1, 1)),
    "timestamp": st.datetimes().map(lambda at: at.replace(tzinfo=UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(12,3)": st.decimals(-(10**8), 10**8, places=3),
    "decimal(38,20)": st.decimals(-(10**10), 10**10, places=20),
}


def _types(depth: int) -> st.SearchStrategy:
    """DDL types with strategies for their values."""
    plain = st.sampled_from(sorted(_SCALARS)).map(lambda name: (name, _SCALARS[name]))
    if not depth:
        return plain
    inner = _types(depth - 1)
    arrays = inner.map(lambda t: (f"array<{t[0]}>", st.lists(st.none() | t[1], max_size=3)))
    maps = st.tuples(st.sampled_from(["string", "bigint", "date"]), inner).map(
        lambda kv: (f"map<{kv[0]},{kv[1][0]}>", st.dictionaries(_SCALARS[kv[0]], st.none() | kv[1][1], max_size=3))
    )
    structs = st.tuples(inner, inner).map(
        lambda ab: (
            f"struct<a: {ab[0][0]}, `b c`: {ab[1][0]}>",
            st.fixed_dictionaries({"a": st.none() | ab[0][1], "b c": st.none() | ab[1][1]}),
        )
    )
    return plain | arrays | maps | structs


@settings(max_examples=150, deadline=None)
@given(_types(2).flatmap(lambda t: st.tuples(st.just(t[0]), st.lists(st.none() | t[1], max_size=4))))
def test_what_is_kept_comes_back(typed):
    name, values = typed
    kind = ddl.to_arrow(ddl.parse_type(name))
    given_values = pa.array([_as_arrow(value, kind) for value in values], kind)
    kept = keep(given_values)
    assert kept.type == kept_as(kind).arrow
    assert give_back(kept, kind).equals(given_values)


def _as_arrow(value: object, kind: pa.DataType) -> object:
    """Maps as lists of pairs, all the way down."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(k, _as_arrow(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _as_arrow(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_as_arrow(item, kind.value_type) for item in value]
    return value


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("42", pa.int64(), 42),
        ("true", pa.bool_(), True),
        ("1.5", pa.decimal128(8, 2), Decimal("1.50")),
        ("2026-01-01", pa.date32(), date(2026, 1, 1)),
        ("2026-01-01T00:00:00Z", pa.timestamp("us", "UTC"), datetime(2026, 1, 1, tzinfo=UTC)),
        ("text", pa.string(), "text"),
        (None, pa.int64(), None),
    ],
)
def test_a_key_may_be_given_as_text(value, kind, expected):
    assert scalar(value, "k", kind)[0].as_py() == expected


@pytest.mark.parametrize(("value", "kind"), [("x", pa.int64()), (1, pa.string()), (1, pa.date32()), (300, pa.int8())])
def test_a_value_of_another_type_is_refused(value, kind):
    with pytest.raises(Invalid, match="is not a value of column 'k'"):
        scalar(value, "k", kind)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(Invalid, match=r"^2026-01-01 12:00:00 is a time without a zone\. Give it one"):
        scalar(datetime(2026, 1, 1, 12), "k", pa.timestamp("us", "UTC"))
    assert scalar(datetime(2026, 1, 1), "k", pa.timestamp("us"))[0].as_py() == datetime(2026, 1, 1)


def test_a_table_must_have_the_columns():
    table = pa.table({"b": [1], "a": [2], "more": [3]})
    assert conform(table, pa.schema([("a", pa.int8()), ("b", pa.float64())]), "t").to_pylist() == [{"a": 2, "b": 1.0}]
    for schema in (pa.schema([("c", pa.int8())]), pa.schema([("a", pa.date32())])):
        with pytest.raises(Invalid, match="t: "):
            conform(table, schema, "t")


@given(st.data(), st.sampled_from(sorted(_SCALARS)))
@settings(max_examples=60, deadline=None)
def test_rows_have_the_values_of_the_columns(data, kind):
    values = data.draw(st.lists(st.none() | _SCALARS[kind], max_size=5))
    table = pa.table({"a": pa.array(values, ddl.to_arrow(ddl.parse_type(kind))), "b": list(range(len(values)))})
    rows = rows_of(table)
    assert rows == table.to_pylist()
    assert [str(row["a"]) for row in rows] == [str(row["a"]) for row in table.to_pylist()]
