"""Views read by key and by condition, also while they change."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows, weighted
from riverrun.durations import FIRST, LAST
from riverrun.errors import Closed, Invalid, NotFound
from riverrun.views import View, ViewSpec


def test_get_by_value_list_dict_or_text(store):
    schema = "user string, start timestamp, n bigint"
    flow = ViewFlow(store, ViewSpec("w", "shop", schema, ("user", "start")))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    flow.commit({"w": weighted(schema, ("a", start, 1, 1))})
    view = View(store, "w")
    row = {"user": "a", "start": start, "n": 1}
    local = start.astimezone(tz=None)
    for key in (["a", start], ("a", local), {"start": start, "user": "a"}):
        assert view.get(key) == row
    for text in ("2026-01-01T00:00:00", "2026-01-01 00:00:00", "2026-01-01T01:00:00+01:00"):
        assert view.get(["a", text]) == row
    assert view.get(["b", start]) is None
    for bad in ("a", ["a"], ["a", "soon"], {"user": "a"}, ["a", 1.5], ["a", start.replace(tzinfo=None)]):
        with pytest.raises(Invalid):
            view.get(bad)
    with pytest.raises(NotFound, match="Did you mean 'user'"):
        view.get({"usr": "a", "start": start})


def test_rows_with_a_condition_and_a_limit(store):
    schema = "user string, n bigint, at timestamp, day date, price decimal(10,2), ok boolean"
    flow = ViewFlow(store, ViewSpec("v", "shop", schema, ("user",)))
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
def test_a_condition_is_one_expression_over_the_columns(store, where):
    ViewFlow(store, revenue()).commit(rows(("a", 1, 1)))
    with pytest.raises(Invalid):
        View(store, "revenue").rows(where=where)
    assert View(store, "revenue").rows(where="user = 'a;--)' or n = 1")


def test_what_cannot_be_asked_is_the_callers_mistake(store, mark):
    ViewFlow(store, revenue()).commit(rows(("a", 1, 1)))
    view = View(store, "revenue")
    for limit in ("1", 1.5, True, -1, 1 << 70):
        with pytest.raises(Invalid, match="limit must be a whole number, 0 or more"):
            view.rows(limit=limit)
    with pytest.raises(Invalid, match="a condition is a string, not 5"):
        view.rows(5)
    with pytest.raises(Invalid, match="not a cursor: 1"):
        view.changes(since=1)
    with pytest.raises(Invalid, match="a query is a string, not None"):
        view.sql(None)
    with pytest.raises(Invalid, match="parameters are a list or a dict"):
        view.sql("select 1", 5)
    one = f"select n from revenue where n = {mark}"
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


def test_unknown_views_are_named(store):
    store.declare(revenue())
    with pytest.raises(NotFound, match=r"there is no view 'revenu'\. Did you mean 'revenue'"):
        View(store, "revenu")


def test_readers_never_see_half_an_epoch(store, again):
    flow = ViewFlow(store, revenue(), revenue(name="copy"))
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


def test_a_closed_store_says_so(store):
    store.declare(revenue())
    view = View(store, "revenue")
    store.close()
    store.close()
    with pytest.raises(Closed):
        view.rows()
    with pytest.raises(Closed):
        store.take_fence("shop")


def test_times_that_a_datetime_cannot_say_are_the_first_and_the_last(store):
    """A window that ends in the year 10000, say: whoever reads the view, its changes, or SQL over it goes on."""
    schema = "user string, at timestamp, day date, seen array<timestamp>"
    spec = ViewSpec("v", "shop", schema, ("user",))
    flow = ViewFlow(store, spec)
    kinds = dict(zip(spec.arrow.names, spec.arrow.types, strict=True))
    beyond = {
        "user": pa.array(["early", "late"]),
        "at": pa.array([FIRST - 1, LAST + 1]).cast(kinds["at"]),
        "day": pa.array([-719_163, 2_932_897], pa.int32()).cast(kinds["day"]),
        "seen": pa.ListArray.from_arrays([0, 1, 2], pa.array([FIRST - 1, LAST + 1]).cast(kinds["at"])).cast(
            kinds["seen"]
        ),
        "_weight": pa.array([1, 1], pa.int8()),
    }
    flow.commit({"v": pa.table(beyond)})
    view = View(store, "v")
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    for found in (view.rows(), view.arrow().to_pylist(), [view.get("early"), view.get("late")]):
        assert [(row["at"], row["seen"]) for row in found if row] == [(first, [first]), (last, [last])]
        assert [row["day"] for row in found if row] == [date(1, 1, 1), date(9999, 12, 31)]
    assert [change.after["at"] for change in store.changes("v", None) if change.after] == [first, last]
    assert store.query("select count(*) as n from v") == [{"n": 2}]
