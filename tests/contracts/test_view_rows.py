"""What an epoch's changes make of a view's rows."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows, weighted
from riverrun.errors import Invalid
from riverrun.views import View, ViewSpec


def test_an_epoch_inserts_updates_and_deletes(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1), ("b", 2, 1), ("c", 3, 1)))
    flow.commit(rows(("a", 1, -1), ("a", 10, 1), ("b", 2, -1), ("d", 4, 1)))
    assert contents(store) == [("a", 10), ("c", 3), ("d", 4)]


def test_equal_rows_cancel_and_a_row_without_retraction_is_an_upsert(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1), ("b", 1, 1)))
    flow.commit(rows(("a", 1, -1), ("a", 1, 1), ("b", 7, 1), ("c", 5, 1), ("c", 5, -1)))
    assert contents(store) == [("a", 1), ("b", 7)]


def test_of_several_rows_for_a_key_the_last_wins(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1), ("a", 2, 1), ("a", 3, 1), ("a", 2, -1)))
    assert contents(store) == [("a", 3)]


def test_all_views_of_a_flow_change_together_or_not_at_all(store):
    flow = ViewFlow(store, revenue(), revenue(name="orders"))
    with pytest.raises(Invalid, match="no column 'n'"):
        flow.commit({**rows(("a", 1, 1)), "orders": weighted("user string", ("a", 1))})
    assert contents(store) == []
    assert store.last("shop").epoch == 0
    flow.commit({**rows(("a", 1, 1)), "orders": rows(("b", 2, 1))["revenue"]}, epoch=1)
    assert contents(store) + contents(store, "orders") == [("a", 1), ("b", 2)]


def test_every_type_comes_back_as_it_was(store):
    schema = (
        "k string, i8 tinyint, i16 smallint, i32 int, i64 bigint, f float, d double, flag boolean, at timestamp,"
        " naive timestamp_ntz, day date, price decimal(38,10), raw binary, tags array<string>,"
        ' point struct<x: double, `odd "name`: int, at: timestamp, raw: binary, price: decimal(10,3), day: date>,'
        " counts map<string,bigint>, nested array<struct<xs: array<double>>>, keyed map<int,date>"
    )
    at = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    point = {
        "x": float("-inf"),
        'odd "name': None,
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "raw": b"\x00\xff",
        "price": Decimal("1.500"),
        "day": date(1999, 1, 1),
    }
    full = {
        "k": "full",
        "i8": -128,
        "i16": 32767,
        "i32": -(2**31),
        "i64": 2**63 - 1,
        "f": 0.5,
        "d": 0.1,
        "flag": True,
        "at": at,
        "naive": datetime(9999, 12, 31, 23, 59, 59, 999_999),
        "day": date(1900, 2, 28),
        "price": Decimal("-1234567890123456789012345678.0000000001"),
        "raw": b"\x00\x01\xff",
        "tags": ["a", None, 'quote " and é', ""],
        "point": point,
        "counts": {"a": 1, "": 2**60},
        "nested": [{"xs": [1.0, None, 1e300]}, None, {"xs": []}],
        "keyed": {1: date(2020, 1, 1), 2: None},
    }
    empty = dict.fromkeys(full) | {"k": "empty"}
    zero = {
        **empty,
        "k": "zero",
        "i64": 0,
        "d": 0.0,
        "flag": False,
        "at": datetime(1970, 1, 1, tzinfo=UTC),
        "price": Decimal("0E-10"),
        "raw": b"",
        "tags": [],
        "counts": {},
    }
    spec = ViewSpec("types", "shop", schema, ("k",))
    given = [{**row, "counts": _pairs(row["counts"]), "keyed": _pairs(row["keyed"])} for row in (empty, full, zero)]
    table = pa.Table.from_pylist(given, spec.arrow)
    flow = ViewFlow(store, spec)
    flow.commit({"types": table.append_column("_weight", pa.array([1, 1, 1]))})
    assert View(store, "types").arrow().equals(table)
    assert View(store, "types").rows() == [empty, full, zero]
    assert View(store, "types").get("full") == full
    assert [change.after for change in View(store, "types").changes(timeout=0)] == [empty, full, zero]


def test_not_a_number_and_infinities_come_back(store):
    flow = ViewFlow(store, ViewSpec("odd", "shop", "x double, y double", ("x",)))
    schema = "x double, y double"
    nan = float("nan")
    flow.commit({"odd": weighted(schema, (nan, nan, 1), (math.inf, -math.inf, 1), (None, 1.0, 1))})
    flow.commit({"odd": weighted(schema, (nan, nan, -1), (nan, 2.0, 1))})
    view = View(store, "odd")
    assert view.get(nan) == {"x": pytest.approx(nan, nan_ok=True), "y": 2.0}
    assert view.get(math.inf)["y"] == -math.inf
    assert view.get(None)["y"] == 1.0
    assert len(view) == 3


def test_null_parts_of_a_key_compare_equal(store):
    schema = "a string, b bigint, c binary, n bigint"
    flow = ViewFlow(store, ViewSpec("nulls", "shop", schema, ("a", "b", "c")))
    keys = list(itertools.product((None, "", "x"), (None, 0, 1), (None, b"", b"x")))
    flow.commit({"nulls": weighted(schema, *((*key, 1, 1) for key in keys))})
    flow.commit({"nulls": weighted(schema, *((*key, 2, 1) for key in keys if None in key))})
    gone = [key for key in keys if key[0] is None]
    flow.commit({"nulls": weighted(schema, *((*key, 2, -1) for key in gone))})
    view = View(store, "nulls")
    assert {tuple(row.values()) for row in view.rows()} == {
        (*key, 2 if None in key else 1) for key in keys if key not in gone
    }
    assert view.get(["x", None, b""]) == {"a": "x", "b": None, "c": b"", "n": 2}
    assert view.get([None, None, None]) is None
    assert len(view.rows(where="b is null")) == 6
    assert len(view.rows(where="a = 'x' and c is null")) == 3


def test_a_view_without_key_columns_has_one_row(store):
    flow = ViewFlow(store, ViewSpec("total", "shop", "n bigint", ()))
    flow.commit({"total": weighted("n bigint", (1, 1))})
    flow.commit({"total": weighted("n bigint", (1, -1), (2, 1))})
    view = View(store, "total")
    assert view.rows() == [{"n": 2}]
    assert view.get([]) == {"n": 2}
    assert view.sql("select n from total") == [{"n": 2}]


def test_a_view_of_key_columns_only(store):
    flow = ViewFlow(store, ViewSpec("seen", "shop", "k string", ("k",)))
    flow.commit({"seen": weighted("k string", ("a", 1), ("b", 1))})
    flow.commit({"seen": weighted("k string", ("a", 1), ("b", -1), ("a", -1), ("a", 1))})
    assert contents(store, "seen") == [("a",)]


def test_hidden_columns_are_keys_that_readers_do_not_see(store):
    schema = "_id string, user string, n bigint"
    flow = ViewFlow(store, ViewSpec("all", "shop", schema, ("_id",), hidden=("_id",)))
    flow.commit({"all": weighted(schema, ("0:0", "a", 1, 1), ("0:1", "a", 1, 1))})
    view = View(store, "all")
    assert view.rows() == [{"user": "a", "n": 1}] * 2
    assert view.sql('select * from "all"') == view.rows()
    assert {change.after["user"] for change in view.changes(timeout=0)} == {"a"}
    with pytest.raises(Invalid, match="no key"):
        view.get("0:0")
    with pytest.raises(Invalid):
        view.rows(where="_id = '0:0'")


def _pairs(mapping: dict | None) -> list | None:
    return None if mapping is None else list(mapping.items())
