"""One suite for every view store: a backend's tests are its fixtures."""

from __future__ import annotations

import itertools
import math
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracles.views import ViewOracle
from postgres_server import shared_server
from riverrun.durations import wall_clock
from riverrun.errors import Closed, Conflict, Fenced, Invalid, NotFound, OutOfRange, TimedOut
from riverrun.views import Condition, Epoch, Selection, Store, View, ViewSpec
from riverrun.views.columns import rows_of
from riverrun.views.sql.postgres import PostgresDatabase
from riverrun.views.sql.sqlite import SqliteDatabase
from riverrun.views.sql.sqlstore import SqlStore

SCHEMA = "user string, n bigint"
HOUR = 3_600_000_000
_numbers = itertools.count()


def weighted(schema: str, *rows: tuple) -> pa.Table:
    """Rows whose last value is the weight."""
    fields = ViewSpec("x", "f", schema, ()).arrow
    columns = list(zip(*rows, strict=True)) or [()] * (len(fields) + 1)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=False)]
    return pa.table([*arrays, pa.array(columns[-1], pa.int8())], names=[*fields.names, "_weight"])


class Flow:
    """A flow that commits epoch after epoch to one store."""

    def __init__(self, store: Store, *specs: ViewSpec, name: str = "shop") -> None:
        self.store, self.name = store, name
        for spec in specs:
            store.declare(spec)
        self.fence = store.take_fence(name)
        self.epoch = store.last(name).epoch

    def commit(self, changes: dict[str, pa.Table] | None = None, offset: int | None = None, **more) -> bool:
        number = more.pop("epoch", self.epoch + 1)
        positions = {"orders": {0: number * 10 if offset is None else offset}}
        more = {"fence": self.fence, "positions": positions, **more}
        done = self.store.commit(Epoch(self.name, epoch=number, changes=changes or {}, **more))
        self.epoch = max(self.epoch, number)
        return done


def revenue(**more) -> ViewSpec:
    given = {"name": "revenue", "flow": "shop", "schema": SCHEMA, "key": ("user",), "topics": ("orders",), **more}
    return ViewSpec(**given)


def rows(*given: tuple) -> dict[str, pa.Table]:
    return {"revenue": weighted(SCHEMA, *given)}


def contents(store: Store, view: str = "revenue") -> list[tuple]:
    return [tuple(row.values()) for row in View(store, view).rows()]


class StoreContract:
    """What every store must do. Backends give `store` and `again`, which opens the same store once more."""

    # Choosing rows by values

    def test_a_selection_compares_values_orders_and_pages(self, store):
        schema = "user string, day date, n bigint, price decimal(8,2), share double, at timestamp, tags array<string>"
        spec = revenue(schema=schema, key=("user", "day"))
        flow = Flow(store, spec)
        day, at = date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC)
        given = [
            ("ada", day, 1, Decimal("9.50"), 0.5, at, ["x"], 1),
            ("ada", None, 2, Decimal("10.00"), math.nan, at + timedelta(hours=1), None, 1),
            (None, day, 3, None, None, None, [], 1),
            ("b%b_!", day, 3, Decimal("-1.00"), -0.5, at, [], 1),
        ]
        flow.commit({"revenue": weighted(schema, *given)})

        def chosen(*conditions: tuple, order: tuple = (), **more) -> list:
            selection = Selection(tuple(Condition(*one) for one in conditions), order, **more)
            return [(row["user"], row["n"]) for row in store.select("revenue", selection).to_pylist()]

        assert sorted(chosen(), key=str) == [("ada", 1), ("ada", 2), ("b%b_!", 3), (None, 3)]
        assert chosen(("user", "eq", "ada"), order=(("n", True),)) == [("ada", 2), ("ada", 1)]
        assert chosen(("user", "eq", None)) == chosen(("price", "eq", None)) == [(None, 3)]
        assert sorted(chosen(("user", "ne", "ada")), key=str) == [("b%b_!", 3), (None, 3)]
        assert chosen(("day", "eq", "2026-01-31"), ("n", "lt", "3")) == [("ada", 1)]
        assert chosen(("day", "eq", None)) == chosen(("share", "eq", math.nan)) == [("ada", 2)]
        assert chosen(("price", "ge", "9.5"), order=(("price", False),)) == [("ada", 1), ("ada", 2)]
        assert chosen(("price", "lt", "9.50")) == [("b%b_!", 3)]
        assert chosen(("at", "gt", "2026-01-31T12:30:00Z")) == [("ada", 2)]
        assert chosen(("user", "has", "DA")) == chosen(("user", "eq", "ada"))
        assert chosen(("user", "has", "%B_")) == [("b%b_!", 3)]
        assert chosen(("user", "has", "%ada")) == chosen(("user", "eq", "' or 1=1 --")) == []
        assert chosen(order=(("price", False),), limit=2) == [(None, 3), ("b%b_!", 3)]
        assert chosen(order=(("price", True),), limit=2, offset=1) == [("ada", 1), ("b%b_!", 3)]
        assert chosen(order=(("price", True),), offset=3) == [(None, 3)]
        for bad, error in (
            (("nobody", "eq", 1), NotFound),
            (("tags", "eq", "x"), Invalid),
            (("n", "eq", "many"), Invalid),
            (("n", "like", "1"), Invalid),
            (("n", "has", "1"), Invalid),
            (("n", "lt", None), Invalid),
        ):
            with pytest.raises(error):
                chosen(bad)
        with pytest.raises(Invalid, match="limit must be"):
            chosen(limit=-1)

    def test_flows_that_have_written(self, store):
        assert store.flows() == []
        Flow(store, revenue())
        Flow(store, name="audit")
        assert store.flows() == ["audit", "shop"]

    # An epoch's rows

    def test_an_epoch_inserts_updates_and_deletes(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1), ("b", 2, 1), ("c", 3, 1)))
        flow.commit(rows(("a", 1, -1), ("a", 10, 1), ("b", 2, -1), ("d", 4, 1)))
        assert contents(store) == [("a", 10), ("c", 3), ("d", 4)]

    def test_equal_rows_cancel_and_a_row_without_retraction_is_an_upsert(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1), ("b", 1, 1)))
        flow.commit(rows(("a", 1, -1), ("a", 1, 1), ("b", 7, 1), ("c", 5, 1), ("c", 5, -1)))
        assert contents(store) == [("a", 1), ("b", 7)]

    def test_of_several_rows_for_a_key_the_last_wins(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1), ("a", 2, 1), ("a", 3, 1), ("a", 2, -1)))
        assert contents(store) == [("a", 3)]

    def test_all_views_of_a_flow_change_together_or_not_at_all(self, store):
        flow = Flow(store, revenue(), revenue(name="orders"))
        with pytest.raises(Invalid, match="no column 'n'"):
            flow.commit({**rows(("a", 1, 1)), "orders": weighted("user string", ("a", 1))})
        assert contents(store) == []
        assert store.last("shop").epoch == 0
        flow.commit({**rows(("a", 1, 1)), "orders": rows(("b", 2, 1))["revenue"]}, epoch=1)
        assert contents(store) + contents(store, "orders") == [("a", 1), ("b", 2)]

    def test_every_type_comes_back_as_it_was(self, store):
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
        flow = Flow(store, spec)
        flow.commit({"types": table.append_column("_weight", pa.array([1, 1, 1]))})
        assert View(store, "types").arrow().equals(table)
        assert View(store, "types").rows() == [empty, full, zero]
        assert View(store, "types").get("full") == full
        assert [change.after for change in View(store, "types").changes(timeout=0)] == [empty, full, zero]

    def test_not_a_number_and_infinities_come_back(self, store):
        flow = Flow(store, ViewSpec("odd", "shop", "x double, y double", ("x",)))
        schema = "x double, y double"
        nan = float("nan")
        flow.commit({"odd": weighted(schema, (nan, nan, 1), (math.inf, -math.inf, 1), (None, 1.0, 1))})
        flow.commit({"odd": weighted(schema, (nan, nan, -1), (nan, 2.0, 1))})
        view = View(store, "odd")
        assert view.get(nan) == {"x": pytest.approx(nan, nan_ok=True), "y": 2.0}
        assert view.get(math.inf)["y"] == -math.inf
        assert view.get(None)["y"] == 1.0
        assert len(view) == 3

    def test_null_parts_of_a_key_compare_equal(self, store):
        schema = "a string, b bigint, c binary, n bigint"
        flow = Flow(store, ViewSpec("nulls", "shop", schema, ("a", "b", "c")))
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

    def test_a_view_without_key_columns_has_one_row(self, store):
        flow = Flow(store, ViewSpec("total", "shop", "n bigint", ()))
        flow.commit({"total": weighted("n bigint", (1, 1))})
        flow.commit({"total": weighted("n bigint", (1, -1), (2, 1))})
        view = View(store, "total")
        assert view.rows() == [{"n": 2}]
        assert view.get([]) == {"n": 2}
        assert view.sql("select n from total") == [{"n": 2}]

    def test_a_view_of_key_columns_only(self, store):
        flow = Flow(store, ViewSpec("seen", "shop", "k string", ("k",)))
        flow.commit({"seen": weighted("k string", ("a", 1), ("b", 1))})
        flow.commit({"seen": weighted("k string", ("a", 1), ("b", -1), ("a", -1), ("a", 1))})
        assert contents(store, "seen") == [("a",)]

    def test_hidden_columns_are_keys_that_readers_do_not_see(self, store):
        schema = "_id string, user string, n bigint"
        flow = Flow(store, ViewSpec("all", "shop", schema, ("_id",), hidden=("_id",)))
        flow.commit({"all": weighted(schema, ("0:0", "a", 1, 1), ("0:1", "a", 1, 1))})
        view = View(store, "all")
        assert view.rows() == [{"user": "a", "n": 1}] * 2
        assert view.sql('select * from "all"') == view.rows()
        assert {change.after["user"] for change in view.changes(timeout=0)} == {"a"}
        with pytest.raises(Invalid, match="no key"):
            view.get("0:0")
        with pytest.raises(Invalid):
            view.rows(where="_id = '0:0'")

    # Epochs and fences

    def test_a_committed_epoch_has_no_effect_when_it_comes_again(self, store, again):
        flow = Flow(store, revenue())
        assert flow.commit(rows(("a", 1, 1)), manifest=b"one")
        assert not flow.commit(rows(("a", 2, 1)), epoch=1, manifest=b"other")
        assert flow.commit(rows(("a", 1, -1), ("a", 3, 1)), epoch=2, manifest=b"two")
        assert not flow.commit(rows(("a", 9, 1)), epoch=1)
        assert contents(again()) == [("a", 3)]
        last = again().last("shop")
        assert (last.epoch, last.fence, last.positions, last.manifest) == (2, 1, {"orders": {0: 20}}, b"two")

    def test_the_same_epoch_with_other_positions_is_refused(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)), offset=10)
        with pytest.raises(Conflict, match="epoch 1 of flow 'shop' was committed with other input positions"):
            flow.commit(rows(("a", 1, 1)), epoch=1, offset=11)

    def test_an_epoch_that_does_not_follow_is_refused(self, store):
        flow = Flow(store, revenue())
        with pytest.raises(Conflict, match="epoch 2 of flow 'shop' does not follow epoch 0"):
            flow.commit(rows(("a", 1, 1)), epoch=2)

    def test_an_older_fence_is_refused_and_told_who_took_over(self, store, again):
        old = Flow(store, revenue())
        old.commit(rows(("a", 1, 1)))
        other = again()
        assert other.take_fence("shop", run="the new one") == 2
        for epoch in (1, 2):
            with pytest.raises(Fenced, match=r"run 1 of flow 'shop'.*run 2 has taken over \(the new one\)"):
                old.commit(rows(("a", 2, 1)), epoch=epoch)
        with pytest.raises(Fenced):
            store.raise_fence("shop", 1)
        assert contents(store) == [("a", 1)]

    def test_a_token_of_another_store_can_be_taken_over(self, store):
        store.declare(revenue())
        store.raise_fence("shop", 7)
        store.raise_fence("shop", 7)
        with pytest.raises(Fenced):
            store.commit(Epoch("shop", 6, 1, {"orders": {0: 1}}))
        assert store.commit(Epoch("shop", 8, 1, {"orders": {0: 1}}))
        assert store.last("shop").fence == 8
        assert store.take_fence("shop") == 9

    def test_flows_do_not_disturb_each_other(self, store):
        shop, other = Flow(store, revenue()), Flow(store, revenue(name="x", flow="other"), name="other")
        shop.commit(rows(("a", 1, 1)))
        other.commit({"x": rows(("b", 1, 1))["revenue"]})
        with pytest.raises(NotFound, match="flow 'other' has declared no view 'revenue'"):
            other.commit(rows(("c", 1, 1)))
        assert contents(store) == [("a", 1)]

    def test_ledger_and_times_are_kept_and_commit_times_never_go_back(self, store):
        flow = Flow(store, revenue())
        flow.commit(committed=5000, received=4000, ledger={"read": 3})
        flow.commit(committed=4000, received=4500, ledger=[{"node": "x"}])
        last = store.last("shop")
        assert (last.committed, last.received, last.ledger) == (5000, 4500, [{"node": "x"}])

    def test_two_runs_race_and_only_the_newer_one_wins(self, store, again):
        store.declare(revenue())
        stores = [again() for _ in range(4)]
        outcome: list[tuple[int, str]] = []

        def run(mine: Store) -> None:
            fence = mine.take_fence("shop")
            try:
                for epoch in range(1, 6):
                    mine.commit(Epoch("shop", fence, epoch, {"orders": {0: epoch}}, rows((str(fence), epoch, 1))))
                outcome.append((fence, "done"))
            except Fenced:
                outcome.append((fence, "fenced"))

        threads = [threading.Thread(target=run, args=(one,)) for one in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(fence for fence, _ in outcome) == [1, 2, 3, 4]
        assert (4, "done") in outcome
        assert store.last("shop").epoch == 5
        assert store.last("shop").fence == 4

    # Declarations

    def test_declaring_again_changes_nothing(self, store):
        Flow(store, revenue()).commit(rows(("a", 1, 1)))
        store.declare(revenue(history="1 day"))
        store.declare(revenue(schema="user string not null, n long", topics=["orders"]))
        assert contents(store) == [("a", 1)]
        assert [spec.name for spec in store.views()] == ["revenue"]

    @pytest.mark.parametrize(
        ("change", "what"),
        [
            ({"schema": "user string, n int"}, "another schema: it has 'user string, n bigint', declared is"),
            ({"key": ("user", "n")}, "another key"),
            ({"topics": ("orders", "users")}, "another topics"),
            ({"flow": "other"}, "another flow"),
            ({"name": "Revenue"}, "differs only in case"),
        ],
    )
    def test_a_mismatch_is_named(self, store, change, what):
        store.declare(revenue())
        with pytest.raises(Conflict, match=what):
            store.declare(revenue(**change))

    @pytest.mark.parametrize("name", ["riverrun:flows", "sqlite_x", "pg_x", "", "x" * 201, "a\0b"])
    def test_names_that_cannot_be(self, name):
        with pytest.raises(Invalid):
            revenue(name=name)

    @pytest.mark.parametrize(
        "name",
        ['say "hi"', "it's", "select", "Mixed Case", "a;drop table x", "é-ü.1", "100%", "a?b", "--", "rows", "t"],
    )
    def test_odd_names_are_only_names(self, store, name):
        column = name + "!"
        schema = f"`{name}` string, `{column}` timestamp, `_x` bigint, `C0` bigint, c1 bigint, xmin bigint"
        flow = Flow(store, ViewSpec(name, "shop", schema, (name,)))
        at = datetime(2026, 1, 1, 12, tzinfo=UTC)
        flow.commit({name: weighted(schema, ("k", at, 1, 2, 3, 4, 1))})
        flow.commit(
            {name: weighted(schema, ("k", at, 1, 2, 3, 4, -1), ("k", at, 5, 6, 7, 8, 1), (None, at, 0, 0, 0, 0, 1))}
        )
        view = View(store, name)
        row = {name: "k", column: at, "_x": 5, "C0": 6, "c1": 7, "xmin": 8}
        quoted, quoted_column = (part.replace('"', '""') for part in (name, column))
        assert view.get("k") == row
        assert view.rows(where=f"\"{quoted}\" = 'k' and \"{quoted_column}\" >= '2026-01-01 12:00:00'") == [row]
        assert view.sql(f'select count(*) as n from "{quoted}"') == [{"n": 2}]
        assert sorted(change.op for change in view.changes(timeout=0)) == ["insert", "insert", "update"]
        store.drop(name)
        with pytest.raises(NotFound):
            View(store, name)

    def test_a_dropped_view_can_be_declared_anew(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)))
        cursor = View(store, "revenue").cursor
        flow.commit(rows(("b", 1, 1)))
        store.drop("revenue")
        store.declare(revenue(schema="user string, m double"))
        assert contents(store) == []
        with pytest.raises(OutOfRange):
            next(View(store, "revenue").changes(since=cursor, timeout=0))

    # Reading

    def test_get_by_value_list_dict_or_text(self, store):
        schema = "user string, start timestamp, n bigint"
        flow = Flow(store, ViewSpec("w", "shop", schema, ("user", "start")))
        start = datetime(2026, 1, 1, tzinfo=UTC)
        flow.commit({"w": weighted(schema, ("a", start, 1, 1))})
        view = View(store, "w")
        row = {"user": "a", "start": start, "n": 1}
        local = start.astimezone(tz=None)
        for key in (["a", start], ("a", local), {"start": start, "user": "a"}, ["a", start.replace(tzinfo=None)]):
            assert view.get(key) == row
        for text in ("2026-01-01T00:00:00", "2026-01-01 00:00:00", "2026-01-01T01:00:00+01:00"):
            assert view.get(["a", text]) == row
        assert view.get(["b", start]) is None
        for bad in ("a", ["a"], ["a", "soon"], {"user": "a"}, ["a", 1.5]):
            with pytest.raises(Invalid):
                view.get(bad)
        with pytest.raises(NotFound, match="Did you mean 'user'"):
            view.get({"usr": "a", "start": start})

    def test_rows_with_a_condition_and_a_limit(self, store):
        schema = "user string, n bigint, at timestamp, day date, price decimal(10,2), ok boolean"
        flow = Flow(store, ViewSpec("v", "shop", schema, ("user",)))
        at, day = datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1)
        given = [
            (f"u{i}", i, at + timedelta(milliseconds=500 * i), day + timedelta(days=i), Decimal(i), i % 2 == 0, 1)
            for i in range(12)
        ]
        flow.commit({"v": weighted(schema, *given)})
        view = View(store, "v")

        def users(where: str, limit: int | None = None) -> list[str]:
            return [row["user"] for row in view.rows(where=where, limit=limit)]

        assert users("n >= 9") == ["u10", "u11", "u9"]
        assert users("n >= 9", 2) == ["u10", "u11"]
        assert users("at > '2026-01-01 00:00:05'") == ["u11"]
        assert users("at = '2026-01-01 00:00:00.5'") == ["u1"]
        assert users("day >= '2026-01-11'") == ["u10", "u11"]
        assert users("price > 9.5 and not ok") == ["u11"]
        assert users("user in ('u1', 'u2') or user like 'u_0'") == ["u1", "u10", "u2"]
        assert view.arrow(limit=0).num_rows == 0
        assert view.arrow(where="ok", limit=2).schema == view.spec.arrow

    @pytest.mark.parametrize(
        "where",
        [
            "",
            "n > 1; drop table x",
            "n > 1) or (1=1",
            "(n > 1",
            "n > 1 -- rest",
            "n > 1 /* rest */",
            "n in (select 1)",
            "exists (with x as (values (1)) select * from x)",
            "user = 'open",
            "user = E'a\\' or 1=1 --'",
            "user = $$a$$",
            "nope = 1",
            "n >",
        ],
    )
    def test_a_condition_is_one_expression_over_the_columns(self, store, where):
        Flow(store, revenue()).commit(rows(("a", 1, 1)))
        with pytest.raises(Invalid):
            View(store, "revenue").rows(where=where)
        assert View(store, "revenue").rows(where="user = 'a;--)' or n = 1")

    def test_sql_reads_all_views_and_binds_values(self, store):
        flow = Flow(store, revenue(), revenue(name="Costs"))
        flow.commit({**rows(("a", 5, 1)), "Costs": rows(("a", 3, 1), ("b", 1, 1))["revenue"]})
        view = View(store, "revenue")
        found = view.sql(
            'select c."user", r.n - c.n as profit from "Costs" c left join revenue r on r."user" = c."user" order by 1'
        )
        assert found == [{"user": "a", "profit": 2}, {"user": "b", "profit": None}]
        assert view.sql(f'select n from "Costs" where "user" = {self.mark}', ["b"]) == [{"n": 1}]

    WRITTEN = (
        "2026-01-01T00:00:02Z",
        "2026-01-01T00:00:02.000+00:00",
        "2026-01-01T01:00:02+01:00",
        "2025-12-31 19:00:02-05",
        "2026-01-01 00:00:02",
        "2026-01-01t00:00:02.000000z",
    )

    @pytest.fixture
    def moments(self, store):
        """Rows at 0, 1, 2, 2.5 and 3 seconds of a day, each with text that looks like a time."""
        schema = "k bigint, at timestamp, local timestamp_ntz, day date, price decimal(10,2), said string"
        flow = Flow(store, ViewSpec("moments", "shop", schema, ("k",)))
        given = []
        for k, second in enumerate((0, 1, 2, 2.5, 3)):
            at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
            said = at.isoformat().replace("+00:00", "Z")
            given.append((k, at, at.replace(tzinfo=None), date(2026, 1, 1 + k), Decimal(k) + Decimal("0.99"), said, 1))
        flow.commit({"moments": weighted(schema, *given)})
        return View(store, "moments")

    @pytest.mark.parametrize("text", WRITTEN)
    def test_times_may_be_written_in_any_way(self, moments, text):
        def chosen(where: str) -> list[int]:
            found = [row["k"] for row in moments.rows(where)]
            assert found == [row["k"] for row in moments.sql(f"select k from moments where {where} order by k")]
            return found

        assert chosen(f"at >= '{text}'") == [2, 3, 4]
        assert chosen(f"'{text}' > at") == [0, 1]
        assert chosen(f"at = '{text}'") == chosen(f"at in ('{text}', '2020-01-01')") == [2]
        assert chosen(f"at between '{text}' and '2026-01-01T00:00:02.5Z'") == [2, 3]
        assert chosen(f"not (at <> '{text}') or (at > '{text}' and k = 4)") == [2, 4]
        assert chosen(f"coalesce(at, at) <= '{text}' and said <> 'it''s'") == [0, 1, 2]
        assert chosen(f"said = '{text}'") == ([2] if text == self.WRITTEN[0] else [])

    def test_days_and_times_are_compared_as_moments(self, moments):
        def chosen(where: str) -> list[int]:
            return [row["k"] for row in moments.rows(where)]

        assert chosen("at = '2026-01-01'") == chosen("at <= '2026-01-01'") == [0]
        assert chosen("local > '2026-01-01T00:00:02Z' and local <= '2026-01-01T00:00:03'") == [3, 4]
        assert chosen("day = '2026-01-02T12:00:00Z'") == chosen("day = '2026-01-02'") == [1]
        assert chosen("at >= timestamp '2026-01-01 00:00:02.5' and day > date '2026-01-04'") == [4]

    def test_literals_in_sql_are_compared_wherever_times_come_from(self, moments):
        sql = (
            "with late as (select k, at as happened from moments where at > '2026-01-01T00:00:01Z')"
            " select k, max(happened) as newest from late group by k"
            " having max(happened) <= '2026-01-01T00:00:02.5Z' order by k -- it's '2026-01-01T00:00:00Z'"
        )
        assert [row["k"] for row in moments.sql(sql)] == [2, 3]
        assert moments.sql("select '2026-01-01T00:00:02Z' as text") == [{"text": "2026-01-01T00:00:02Z"}]

    def test_sql_binds_times_dates_and_decimals(self, moments):
        at = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)

        def chosen(condition: str, *values: object) -> list[int]:
            sql = f"select k from moments where {condition.replace('?', self.mark)} order by k"
            return [row["k"] for row in moments.sql(sql, values)]

        for bound in (at, at.replace(tzinfo=None), at.astimezone(timezone(timedelta(hours=5)))):
            assert chosen("at >= ?", bound) == [2, 3, 4]
            assert chosen("at = ?", bound) == [2]
            assert chosen("k > ? and at < ? and said <> ?", 0, bound, "x") == [1]
        assert chosen("at > ?", at + timedelta(milliseconds=500)) == [4]
        assert chosen("at = ?", date(2026, 1, 1)) == chosen("at <= ?", date(2026, 1, 1)) == [0]
        assert chosen("day = ?", date(2026, 1, 2)) == chosen("day = ?", datetime(2026, 1, 2)) == [1]
        assert chosen("day > ?", datetime(2026, 1, 4, 12)) == [4]
        assert chosen("price = ?", Decimal("1.99")) == [1]
        assert chosen("price > ? and k < ?", Decimal("1.99"), Decimal(4)) == [2, 3]
        assert chosen("k = ?", Decimal("3.0")) == [3]

    def test_sql_gives_not_a_number_as_a_number(self, store):
        schema = "k string, x double"
        flow = Flow(store, ViewSpec("odd", "shop", schema, ("k",)))
        flow.commit({"odd": weighted(schema, ("a", math.nan, 1), ("NaN", 1.5, 1), ("c", None, 1))})
        view = View(store, "odd")
        found = view.sql("select k, x, x as y from odd order by k")
        assert [(row["k"], repr(row["x"]), repr(row["y"])) for row in found] == [
            ("NaN", "1.5", "1.5"),
            ("a", "nan", "nan"),
            ("c", "None", "None"),
        ]
        [largest] = view.sql("select max(x) as x, max(k) as k from odd where k < 'b'")
        assert math.isnan(largest["x"])
        assert view.sql(f"select k from odd where x = {self.mark}", [math.nan]) == [{"k": "a"}]

    def test_sql_times_are_readable(self, store):
        schema = "k bigint, at timestamp, day date"
        flow = Flow(store, ViewSpec("v", "shop", schema, ("k",)))
        moments = [datetime(1969, 12, 31, 23, 59, 59, 500_000), datetime(2026, 1, 1, 12, 30)]
        flow.commit(
            {"v": weighted(schema, *((i, at.replace(tzinfo=UTC), at.date(), 1) for i, at in enumerate(moments)))}
        )
        found = View(store, "v").sql("select cast(at as text) as at, cast(day as text) as day from v order by k")
        shown = [(row["at"].removesuffix("+00"), row["day"]) for row in found]
        assert shown == [("1969-12-31 23:59:59.5", "1969-12-31"), ("2026-01-01 12:30:00", "2026-01-01")]

    @pytest.mark.parametrize(
        "sql",
        [
            "insert into revenue values ('x', 1)",
            'delete from "riverrun:rows:1"',
            'drop table "riverrun:flows"',
            'update "riverrun:flows" set fence = 99',
            "create table x (a int)",
            "create temp table x (a int)",
            "pragma query_only = off",
            "attach 'other.db' as other",
            "vacuum",
            "begin",
            "set transaction read write",
            "copy (select 1) to program 'true'",
            'with x as (delete from "riverrun:flows" returning *) select * from x',
            "select 1; select 2",
            "select load_extension('x')",
            "select * from nowhere",
            "selekt",
            "",
        ],
    )
    def test_sql_only_reads(self, store, sql):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)))
        with pytest.raises(Invalid):
            View(store, "revenue").sql(sql)
        flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
        assert contents(store) == [("a", 2)]

    def test_a_query_that_takes_too_long_is_stopped(self, store):
        Flow(store, revenue()).commit(rows(("a", 1, 1)))
        endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
        with pytest.raises(TimedOut):
            View(store, "revenue").sql(endless, timeout=0.05)
        assert contents(store) == [("a", 1)]

    def test_what_cannot_be_asked_is_the_callers_mistake(self, store):
        Flow(store, revenue()).commit(rows(("a", 1, 1)))
        view = View(store, "revenue")
        for limit in ("1", 1.5, True, -1, 1 << 70):
            with pytest.raises(Invalid, match="limit must be a whole number from 0"):
                view.rows(limit=limit)
        with pytest.raises(Invalid, match="a condition is a string, not 5"):
            view.rows(5)
        with pytest.raises(Invalid, match="not a cursor: 1"):
            view.changes(since=1)
        with pytest.raises(Invalid, match="a query is a string, not None"):
            view.sql(None)
        with pytest.raises(Invalid, match="parameters are a list or a dict"):
            view.sql("select 1", 5)
        one = f"select n from revenue where n = {self.mark}"
        for sql, values in (
            (one, ()),
            (one, (1, 2)),
            (one, (object(),)),
            ("select 1; select 2", ()),
            (one, (1 << 70,)),
        ):
            try:
                assert view.sql(sql, values) == []  # PostgreSQL has numbers of any size
            except Invalid as error:
                assert str(error).startswith("sql: ")
        assert view.sql(one, (1,)) == [{"n": 1}]

    def test_unknown_views_are_named(self, store):
        store.declare(revenue())
        with pytest.raises(NotFound, match=r"there is no view 'revenu'\. Did you mean 'revenue'"):
            View(store, "revenu")

    def test_readers_never_see_half_an_epoch(self, store, again):
        flow = Flow(store, revenue(), revenue(name="copy"))
        keys = [f"k{i}" for i in range(50)]
        halves: list[object] = []
        stop = threading.Event()

        def read() -> None:
            mine = again()
            while not stop.is_set():
                values = {n for _, n in contents(mine)}
                both = View(mine, "copy").sql("select count(*) as n from revenue r join copy c on c.n <> r.n")
                if len(values) > 1 or both != [{"n": 0}]:
                    halves.append((values, both))

        thread = threading.Thread(target=read)
        thread.start()
        for n in range(30):
            old = [(key, n - 1, -1) for key in keys] if n else []
            table = rows(*old, *((key, n, 1) for key in keys))["revenue"]
            flow.commit({"revenue": table, "copy": table})
        stop.set()
        thread.join()
        assert not halves

    def test_a_closed_store_says_so(self, store):
        store.declare(revenue())
        view = View(store, "revenue")
        store.close()
        store.close()
        with pytest.raises(Closed):
            view.rows()
        with pytest.raises(Closed):
            store.take_fence("shop")

    # Positions

    def test_position_and_waiting_for_one(self, store, again):
        flow = Flow(store, revenue())
        view = View(again(), "revenue")
        assert view.position == {}
        flow.commit(rows(("a", 1, 1)), positions={"orders": {0: 5, 1: 3}, "users": {0: 9}})
        assert view.position == {"orders": {0: 5, 1: 3}}
        assert view.rows(at_least={"orders": {0: 5}}, timeout=0) == [{"user": "a", "n": 1}]
        assert view.rows(at_least="orders@0:5,1:3,2:0") == [{"user": "a", "n": 1}]
        with pytest.raises(TimedOut, match=r"has processed orders@0:5,1:3 and not yet orders@1:4"):
            view.rows(at_least="orders@1:4", timeout=0.02)
        with pytest.raises(Invalid, match="does not read topic 'users'; it reads orders"):
            view.rows(at_least="users@0:1")
        with pytest.raises(Invalid, match="not a position"):
            view.rows(at_least="orders:5")

    def test_a_reader_waits_until_its_write_is_there(self, store, again):
        flow = Flow(store, revenue())
        reader = View(again(), "revenue")
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(reader.get("a", at_least="orders@0:20")))
        thread.start()
        flow.commit(rows(("a", 1, 1)))
        flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
        thread.join(10)
        assert found == [{"user": "a", "n": 2}]

    def test_a_view_that_its_flow_left_stays_where_it_is(self, store, again):
        flow = Flow(store, revenue(), revenue(name="left", history="1 hour"))
        table = rows(("a", 1, 1))["revenue"]
        flow.commit({"revenue": table, "left": table})
        flow.commit()
        store.keep_only("shop", flow.fence, ["revenue"])
        flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
        left, kept = View(again(), "left"), View(again(), "revenue")
        assert (left.position, left.cursor) == ({"orders": {0: 20}}, "2")
        assert (kept.position, kept.cursor) == ({"orders": {0: 30}}, "3")
        assert left.rows(at_least="orders@0:20", timeout=0) == [{"user": "a", "n": 1}]
        for read in (left.rows, left.arrow, lambda **how: left.get("a", **how)):
            with pytest.raises(OutOfRange, match="flow 'shop' no longer keeps up view 'left': it stays at orders@0:20"):
                read(at_least="orders@0:21", timeout=10)
        with pytest.raises(OutOfRange, match="no longer keeps up"):
            left.has_processed("orders@0:30")
        assert left.as_of("orders@0:20").rows() == left.as_of(datetime(2100, 1, 1, tzinfo=UTC)).rows() == left.rows()
        with pytest.raises(OutOfRange, match="versions committed from"):
            left.as_of("orders@0:21")
        assert list(left.changes(since=left.cursor, timeout=0)) == []

    def test_a_view_that_comes_back_is_kept_up_again(self, store):
        flow = Flow(store, revenue(), revenue(name="left", history="1 hour"))
        flow.commit({"left": rows(("a", 1, 1))["revenue"]})
        left = View(store, "left")
        old = left.cursor
        store.keep_only("shop", flow.fence, ["revenue"])
        store.keep_only("shop", flow.fence, ["revenue", "left"])
        flow.commit()
        assert left.position == {"orders": {0: 20}}
        store.keep_only("shop", flow.fence, ["revenue"])
        flow.commit()
        token = store.begin_rebuild("shop", [revenue(name="left", history="1 hour")])
        built = {"left": rows(("a", 7, 1))["revenue"]}
        store.commit(Epoch("shop", flow.fence, 1, {"orders": {0: 30}}, built, rebuild=token))
        store.switch(token, flow.fence)
        assert left.rows(at_least="orders@0:30", timeout=0) == [{"user": "a", "n": 7}]
        assert View(store, "revenue").progress.kept_up is False  # the rebuild was of a flow without it
        for gone in (lambda: next(left.changes(since=old, timeout=0)), lambda: left.as_of("orders@0:20")):
            with pytest.raises(OutOfRange):
                gone()
        with pytest.raises(Fenced):
            store.keep_only("shop", store.take_fence("shop") - 1, [])

    # Changes

    def test_changes_tell_what_happened_and_can_be_resumed_anywhere(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1), ("b", 1, 1), ("c", 1, 1)))
        flow.commit()
        flow.commit(rows(("a", 1, -1), ("a", 2, 1), ("b", 5, 1), ("c", 1, -1), ("d", 1, 1)))
        view = View(store, "revenue")
        seen = list(view.changes(timeout=0))
        assert {
            (c.op, c.before and c.before["n"], c.after and c.after["n"], (c.after or c.before)["user"]) for c in seen
        } == {
            *(("insert", None, 1, user) for user in "abcd"),
            ("update", 1, 2, "a"),
            ("update", 1, 5, "b"),
            ("delete", 1, None, "c"),
        }
        assert len(seen) == 7
        for i, change in enumerate(seen):
            assert list(view.changes(since=change.cursor, timeout=0)) == seen[i + 1 :]
        assert list(view.changes(since=view.cursor, timeout=0)) == []
        with pytest.raises(Invalid, match="not a cursor"):
            view.changes(since="yesterday")
        with pytest.raises(OutOfRange, match="up to 3"):
            next(view.changes(since="99", timeout=0))

    def test_an_update_to_the_same_row_is_no_change(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)))
        flow.commit(rows(("a", 1, 1)))
        flow.commit(rows(("a", 1, -1), ("a", 1, 1)))
        assert len(list(View(store, "revenue").changes(timeout=0))) == 1

    def test_changed_rows_are_counted_from_any_commit_on(self, store):
        flow = Flow(store, revenue(), revenue(name="other"))
        assert store.changed("shop", None) == (0, {"revenue": 0, "other": 0})
        flow.commit(rows(("ada", 1, 1), ("bob", 2, 1)))
        first, counted = store.changed("shop", 0)
        assert counted == {"revenue": 2, "other": 0}
        flow.commit(rows(("ada", 1, -1), ("ada", 3, 1)))  # an update is one change
        flow.commit(rows(("bob", 2, -1)))
        newest, counted = store.changed("shop", first)
        assert (newest, counted) == (first + 2, {"revenue": 2, "other": 0})
        assert store.changed("shop", newest) == store.changed("shop", None) == (newest, {"revenue": 0, "other": 0})
        assert store.changed("nobody", 0) == (0, {})

    def test_changes_wait_for_new_ones(self, store, again):
        flow = Flow(store, revenue())
        seen: list[object] = []
        done = threading.Event()

        def follow() -> None:
            for change in View(again(), "revenue").changes(timeout=10):
                seen.append(change.after)
                if len(seen) == 3:
                    break
            done.set()

        thread = threading.Thread(target=follow)
        thread.start()
        for n in range(3):
            flow.commit(rows((f"k{n}", n, 1)))
            flow.commit()
        assert done.wait(10)
        thread.join()
        assert seen == [{"user": f"k{n}", "n": n} for n in range(3)]

    def test_changes_end_after_a_time_without_any_though_epochs_go_on(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)))
        stop = threading.Event()

        def go_on() -> None:
            while not stop.is_set():
                flow.commit()

        thread = threading.Thread(target=go_on)
        thread.start()
        assert len(list(View(store, "revenue").changes(timeout=0.2))) == 1
        stop.set()
        thread.join()

    def test_changes_of_many_rows_come_in_parts(self, store):
        flow = Flow(store, revenue())
        many = 70_001
        flow.commit(rows(*((f"k{i:06}", 0, 1) for i in range(many))))
        pairs = [row for i in range(many) for row in ((f"k{i:06}", 0, -1), (f"k{i:06}", 1, 1))]
        flow.commit(rows(*pairs))
        view = View(store, "revenue")
        changes = list(view.changes(timeout=0))
        assert [c.op for c in changes] == ["insert"] * many + ["update"] * many
        middle = changes[many + 40_000]
        assert next(view.changes(since=middle.cursor, timeout=0)) == changes[many + 40_001]
        assert {c.cursor for c in changes[many - 1 : many]} == {"1"}

    def test_changes_expire_and_an_expired_cursor_is_an_error(self, short):
        flow = Flow(short, revenue(), revenue(name="kept", history="1 hour"))
        start = wall_clock()
        table = rows(("a", 1, 1))["revenue"]
        flow.commit({"revenue": table, "kept": table}, committed=start)
        view, kept = View(short, "revenue"), View(short, "kept")
        first = next(view.changes(timeout=0))
        flow.commit(rows(("a", 1, -1), ("a", 2, 1), ("b", 1, 1)), committed=start + 1)
        partial = next(view.changes(since=first.cursor, timeout=0))
        complete = list(view.changes(timeout=0))[-1]
        flow.commit(committed=start + 120_000_000)
        assert list(view.changes(timeout=0)) == []
        for gone in (first.cursor, partial.cursor):
            with pytest.raises(OutOfRange, match="Read the view, then follow it from its cursor"):
                next(view.changes(since=gone, timeout=0))
        assert list(view.changes(since=complete.cursor, timeout=0)) == []
        assert [c.op for c in kept.changes(timeout=0)] == ["insert"]
        flow.commit(committed=start + 2 * HOUR)
        assert list(kept.changes(timeout=0)) == []

    # Versions

    def test_as_of_a_position_or_a_commit_time(self, store):
        flow = Flow(store, revenue(history="1 hour"))
        start = wall_clock()
        flow.commit(rows(("a", 1, 1), ("b", 1, 1)), committed=start)
        flow.commit(rows(("a", 1, -1), ("a", 2, 1), ("b", 1, -1)), committed=start + 1_000_000)
        flow.commit(rows(("c", 3, 1), ("a", 5, 1)), committed=start + 2_000_000)
        view = View(store, "revenue")
        when = datetime.fromtimestamp(start // 1_000_000, UTC) + timedelta(microseconds=start % 1_000_000)
        versions = [{"a": 1, "b": 1}, {"a": 2}, {"a": 5, "c": 3}]
        for number, expected in enumerate(versions, 1):
            for at in (
                when + timedelta(seconds=number - 0.5),
                {"orders": {0: 10 * number}},
                f"orders@0:{10 * number - 9}",
            ):
                version = view.as_of(at)
                assert {row["user"]: row["n"] for row in version} == expected
                assert (version.epoch, len(version)) == (number, len(expected))
                assert version.get("b") == ({"user": "b", "n": 1} if number == 1 else None)
        for outside in (when - timedelta(seconds=1), {"orders": {0: 31}}):
            with pytest.raises(OutOfRange, match="versions committed from"):
                view.as_of(outside)
        with pytest.raises(Invalid, match="does not read topic"):
            view.as_of({"users": {0: 1}})

    def test_a_version_answers_as_the_view_did(self, store):
        schema = "x double, `a?%b` string, raw binary, price decimal(10,2), at timestamp, tags array<string>, _n bigint"
        key = ("x", "raw", "price")
        flow = Flow(store, ViewSpec("odd", "shop", schema, key, history="1 hour", hidden=("_n",)))
        at = datetime(2026, 1, 1, tzinfo=UTC)
        xs, raws, prices = (None, math.nan, -1.5, math.inf), (None, b"", b"z"), (None, Decimal(10), Decimal(9))
        given = [
            (x, ("m%n" if raw else None), raw, price, at + timedelta(seconds=n), ["a"], n, 1)
            for n, (x, raw, price) in enumerate(itertools.product(xs, raws, prices))
        ]
        flow.commit({"odd": weighted(schema, *given)})
        view = View(store, "odd")
        before = view.arrow()
        conditions = (
            "x is null",
            "x > 0 and price = 9",
            "at >= '2026-01-01T00:00:30Z'",
            "\"a?%b\" like 'm%' and raw is not null",
            "price is null or not x < 0",
        )
        chosen = {where: view.arrow(where) for where in conditions}
        gone = [(*row[:-1], -1) for row in given[::2]]
        flow.commit({"odd": weighted(schema, *gone, (5.0, "new", b"y", Decimal(1), at, None, 99, 1))})
        version = view.as_of("orders@0:10")
        assert repr(version.rows()) == repr(rows_of(before))
        assert repr(version.rows(limit=5)) == repr(rows_of(before.slice(0, 5)))
        for where, expected in chosen.items():
            assert 0 < expected.num_rows < before.num_rows
            assert repr(version.rows(where)) == repr(rows_of(expected))
            assert version.arrow(where, 2).num_rows == 2
        for row in rows_of(before):
            assert repr(version.get([row[name] for name in key])) == repr(row)
        shown = [(row["x"], row["raw"], row["price"]) for row in version.rows()]
        assert shown[:4] == [(-1.5, b"", 9), (-1.5, b"", 10), (-1.5, b"", None), (-1.5, b"z", 9)]
        assert shown[-1] == (None, None, None)
        for bad in ("nope = 1", "x >", "_n = 1", "1; drop table x", ""):
            with pytest.raises(Invalid):
                version.rows(bad)
        with pytest.raises(Invalid, match="limit must be"):
            version.rows(limit=-1)

    def test_as_of_needs_history_and_history_ends(self, short):
        flow = Flow(short, revenue(history="1 minute"), revenue(name="plain"))
        start = wall_clock()
        flow.commit(rows(("a", 1, 1)), committed=start)
        flow.commit(rows(("a", 1, -1), ("a", 2, 1)), committed=start + 1)
        with pytest.raises(Invalid, match="keeps no history"):
            View(short, "plain").as_of({"orders": {0: 10}})
        flow.commit(rows(("a", 2, -1), ("a", 3, 1)), committed=start + 120_000_000)
        with pytest.raises(OutOfRange):
            View(short, "revenue").as_of({"orders": {0: 10}})
        assert View(short, "revenue").as_of({"orders": {0: 20}}).rows() == [{"user": "a", "n": 2}]

    # Rebuilding

    def test_a_rebuild_is_invisible_until_it_is_switched(self, store, again):
        flow = Flow(store, revenue(history="1 hour"))
        flow.commit(rows(("a", 1, 1), ("b", 1, 1)), manifest=b"old")
        token = store.begin_rebuild("shop", [revenue(history="1 hour")])
        assert store.rebuilds("shop") == [token]
        mine = {"rebuild": token, "fence": flow.fence}
        store.commit(Epoch("shop", epoch=1, positions={"orders": {0: 4}}, changes=rows(("a", 7, 1)), **mine))
        with pytest.raises(Conflict, match="has not read up to where the running one is"):
            store.switch(token, flow.fence)
        flow.commit(rows(("c", 1, 1), (None, 1, 1)))
        caught_up = {"positions": {"orders": {0: 20}}, "manifest": b"new", "ledger": {"read": 1}}
        store.commit(Epoch("shop", epoch=2, changes=rows(("c", 1, 1), (None, 2, 1)), **mine, **caught_up))
        assert len(contents(store)) == 4
        before, at = View(store, "revenue").cursor, View(store, "revenue").position
        store.switch(token, flow.fence)
        assert {(row["user"], row["n"]) for row in View(again(), "revenue").rows()} == {("a", 7), ("c", 1), (None, 2)}
        last = store.last("shop")
        assert (last.epoch, last.manifest, last.positions) == (2, b"new", at)
        assert {
            (c.op, (c.after or c.before)["user"]) for c in View(store, "revenue").changes(since=before, timeout=0)
        } == {
            ("update", "a"),
            ("delete", "b"),
            ("update", None),
        }
        assert store.rebuilds("shop") == []
        with pytest.raises(NotFound, match="no rebuild"):
            store.switch(token, flow.fence)
        with pytest.raises(NotFound, match="no rebuild"):
            store.commit(Epoch("shop", epoch=3, positions={"orders": {0: 30}}, **mine))
        flow.epoch = 2
        flow.commit(rows(("a", 7, -1), ("a", 8, 1)), offset=30)
        assert View(store, "revenue").get("a") == {"user": "a", "n": 8}
        assert View(store, "revenue").sql('select n from revenue where "user" is null') == [{"n": 2}]
        assert {row["user"]: row["n"] for row in View(store, "revenue").as_of({"orders": {0: 10}})} == {"a": 1, "b": 1}

    def test_a_rebuild_may_change_columns_and_add_views(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)))
        before = View(store, "revenue")
        cursor = before.cursor
        wide = "user string, n double, m string"
        token = store.begin_rebuild("shop", [revenue(schema=wide), revenue(name="more")])
        changes = {"revenue": weighted(wide, ("a", 0.5, "x", 1)), "more": rows(("b", 1, 1))["revenue"]}
        store.commit(Epoch("shop", flow.fence, 1, {"orders": {0: 10}}, changes, rebuild=token))
        fence = store.take_fence("shop")
        with pytest.raises(Fenced):
            store.switch(token, flow.fence)
        store.switch(token, fence, epoch=40, manifest=b"mine")
        assert (store.last("shop").epoch, store.last("shop").manifest) == (40, b"mine")
        assert contents(store) == [("a", 0.5, "x")]
        assert before.get("a") == {"user": "a", "n": 0.5, "m": "x"}
        assert contents(store, "more") == [("b", 1)]
        assert View(store, "revenue").sql("select * from revenue") == [{"user": "a", "n": 0.5, "m": "x"}]
        with pytest.raises(OutOfRange):
            next(View(store, "revenue").changes(since=cursor, timeout=0))
        assert store.commit(Epoch("shop", fence, 41, {"orders": {0: 20}}))
        with pytest.raises(Fenced):
            flow.commit()

    def test_an_abandoned_rebuild_leaves_nothing(self, store):
        flow = Flow(store, revenue())
        flow.commit(rows(("a", 1, 1)))
        token = store.begin_rebuild("shop", [revenue()])
        store.commit(Epoch("shop", flow.fence, 1, {"orders": {0: 10}}, rows(("x", 1, 1)), rebuild=token))
        store.abandon(token)
        assert store.rebuilds("shop") == []
        assert contents(store) == [("a", 1)]
        with pytest.raises(NotFound):
            store.abandon(token)
        with pytest.raises(Conflict, match="belongs to flow 'shop'"):
            store.begin_rebuild("other", [revenue(flow="other")])
        assert store.rebuilds("other") == []

    # Any changes in any epochs

    @settings(
        max_examples=35,
        deadline=None,
        # Each example has a flow and a view of its own; each backend runs the test for itself.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(data=st.data())
    def test_a_view_is_the_sum_of_its_changes(self, store, data):
        number = next(_numbers)
        schema = "a string, b bigint, x double, at timestamp, price decimal(12,2), tags array<string>"
        spec = ViewSpec(f"v{number}", f"flow{number}", schema, ("a", "b"), history="1 hour")
        flow = Flow(store, spec, name=f"flow{number}")
        view = View(store, spec.name)
        model = ViewOracle(("a", "b"))
        versions = []
        for epoch in range(1, data.draw(st.integers(1, 5), "epochs") + 1):
            changes = data.draw(st.lists(_steps(), max_size=12), f"epoch {epoch}")
            batch = model.weighted(changes)
            table = pa.Table.from_pylist([row for row, _ in batch], spec.arrow)
            flow.commit({spec.name: table.append_column("_weight", pa.array([w for _, w in batch], pa.int8()))})
            model.apply(batch)
            assert _by_key(view.rows()) == _by_key(model.rows())
            for row in model.rows():
                assert view.get({"a": row["a"], "b": row["b"]}) == row
            versions.append((flow.epoch, model.rows()))
        replayed = ViewOracle(("a", "b"))
        for change in view.changes(timeout=0):
            replayed.follow(change)
        assert _by_key(replayed.rows()) == _by_key(model.rows())
        for epoch, expected in versions:
            assert _by_key(view.as_of({"orders": {0: epoch * 10}}).rows()) == _by_key(expected)


def _pairs(mapping: dict | None) -> list | None:
    return None if mapping is None else list(mapping.items())


def _by_key(given: list[dict]) -> dict:
    return {(row["a"], row["b"]): row for row in given}


def _steps() -> st.SearchStrategy:
    """One step: what to do, to which key, and the values."""
    key = st.tuples(st.sampled_from([None, "", "x", "é\"'"]), st.sampled_from([None, 0, -5]))
    values = st.fixed_dictionaries(
        {
            "x": st.none() | st.sampled_from([0.5, -1e300, 0.1, float("inf")]),
            "at": st.none()
            | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)),
            "price": st.none() | st.decimals(-1000, 1000, places=2),
            "tags": st.none() | st.lists(st.none() | st.text('aé"\\', max_size=3), max_size=2),
        }
    )
    return st.tuples(st.sampled_from(["update", "upsert", "delete", "flicker", "nothing"]), key, values)


class TestSqlite(StoreContract):
    mark = "?"

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "views.db"

    @pytest.fixture
    def again(self, path, request):
        def opened(**options) -> SqlStore:
            made = SqlStore(SqliteDatabase(path), **options)
            request.addfinalizer(made.close)
            return made

        return opened

    @pytest.fixture
    def store(self, again):
        return again()

    @pytest.fixture
    def short(self, again):
        return again(changes_kept="1 minute")


class TestPostgres(StoreContract):
    mark = "%s"

    @pytest.fixture
    def again(self, request):
        schema = f'Odd "schema" {next(_numbers)}'

        def opened(**options) -> SqlStore:
            made = SqlStore(PostgresDatabase(shared_server().url, schema=schema), **options)
            request.addfinalizer(made.close)
            return made

        return opened

    @pytest.fixture
    def store(self, again):
        return again()

    @pytest.fixture
    def short(self, again):
        return again(changes_kept="1 minute")
