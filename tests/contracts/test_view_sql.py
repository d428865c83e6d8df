"""Views read by SQL, and times, dates and decimals as people write them there."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows, weighted
from riverrun.errors import Invalid, TimedOut
from riverrun.views import View, ViewSpec


def test_sql_reads_all_views_and_binds_values(store, mark):
    flow = ViewFlow(store, revenue(), revenue(name="Costs"))
    flow.commit({**rows(("a", 5, 1)), "Costs": rows(("a", 3, 1), ("b", 1, 1))["revenue"]})
    view = View(store, "revenue")
    found = view.sql(
        'select c."user", r.n - c.n as profit from "Costs" c left join revenue r on r."user" = c."user" order by 1'
    )
    assert found == [{"user": "a", "profit": 2}, {"user": "b", "profit": None}]
    assert view.sql(f'select n from "Costs" where "user" = {mark}', ["b"]) == [{"n": 1}]


WRITTEN = (
    "2026-01-01T00:00:02Z",
    "2026-01-01T00:00:02.000+00:00",
    "2026-01-01T01:00:02+01:00",
    "2025-12-31 19:00:02-05",
    "2026-01-01 00:00:02",
    "2026-01-01t00:00:02.000000z",
)


@pytest.fixture
def moments(store):
    """Rows at 0, 1, 2, 2.5 and 3 seconds of a day, each with text that looks like a time."""
    schema = "k bigint, at timestamp, local timestamp_ntz, day date, price decimal(10,2), said string"
    flow = ViewFlow(store, ViewSpec("moments", "shop", schema, ("k",)))
    given = []
    for k, second in enumerate((0, 1, 2, 2.5, 3)):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        said = at.isoformat().replace("+00:00", "Z")
        given.append((k, at, at.replace(tzinfo=None), date(2026, 1, 1 + k), Decimal(k) + Decimal("0.99"), said, 1))
    flow.commit({"moments": weighted(schema, *given)})
    return View(store, "moments")


@pytest.mark.parametrize("text", WRITTEN)
def test_times_may_be_written_in_any_way(moments, text):
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
    assert chosen(f"said = '{text}'") == ([2] if text == WRITTEN[0] else [])


def test_days_and_times_are_compared_as_moments(moments):
    def chosen(where: str) -> list[int]:
        return [row["k"] for row in moments.rows(where)]

    assert chosen("at = '2026-01-01'") == chosen("at <= '2026-01-01'") == [0]
    assert chosen("local > '2026-01-01T00:00:02Z' and local <= '2026-01-01T00:00:03'") == [3, 4]
    assert chosen("day = '2026-01-02T12:00:00Z'") == chosen("day = '2026-01-02'") == [1]
    assert chosen("at >= timestamp '2026-01-01 00:00:02.5' and day > date '2026-01-04'") == [4]


def test_literals_in_sql_are_compared_wherever_times_come_from(moments):
    sql = (
        "with late as (select k, at as happened from moments where at > '2026-01-01T00:00:01Z')"
        " select k, max(happened) as newest from late group by k"
        " having max(happened) <= '2026-01-01T00:00:02.5Z' order by k -- it's '2026-01-01T00:00:00Z'"
    )
    assert [row["k"] for row in moments.sql(sql)] == [2, 3]
    assert moments.sql("select '2026-01-01T00:00:02Z' as text") == [{"text": "2026-01-01T00:00:02Z"}]


def test_sql_binds_times_dates_and_decimals(moments, mark):
    at = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)

    def chosen(condition: str, *values: object) -> list[int]:
        sql = f"select k from moments where {condition.replace('?', mark)} order by k"
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


def test_sql_gives_not_a_number_as_a_number(store, mark):
    schema = "k string, x double"
    flow = ViewFlow(store, ViewSpec("odd", "shop", schema, ("k",)))
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
    assert view.sql(f"select k from odd where x = {mark}", [math.nan]) == [{"k": "a"}]


def test_sql_times_are_readable(store):
    schema = "k bigint, at timestamp, day date"
    flow = ViewFlow(store, ViewSpec("v", "shop", schema, ("k",)))
    moments = [datetime(1969, 12, 31, 23, 59, 59, 500_000), datetime(2026, 1, 1, 12, 30)]
    flow.commit({"v": weighted(schema, *((i, at.replace(tzinfo=UTC), at.date(), 1) for i, at in enumerate(moments)))})
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
def test_sql_only_reads(store, sql):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    with pytest.raises(Invalid):
        View(store, "revenue").sql(sql)
    flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
    assert contents(store) == [("a", 2)]


def test_a_query_that_takes_too_long_is_stopped(store):
    ViewFlow(store, revenue()).commit(rows(("a", 1, 1)))
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(TimedOut):
        View(store, "revenue").sql(endless, timeout=0.05)
    assert contents(store) == [("a", 1)]
