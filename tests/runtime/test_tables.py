"""Tables of whole flows: groups, latest, dedupe, versus, changelogs; and chains of them."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import ORDERS, SCHEMA, at, examples, order
from riverrun.flow import Flow
from riverrun.flow.aggregates import avg, count, distinct, max, min, quantile, stddev, sum
from riverrun.flow.stream import Stream
from riverrun.flow.windows import correct, session, tumbling
from riverrun.log.partitioner import partition_of
from riverrun.testing import (
    Advance,
    Append,
    Crash,
    Delete,
    Process,
    assert_same_as_batch,
    assert_same_batching,
    run_flow,
)

SEEDS = st.integers(0, 99)
USERS = "user string, city string, age int"
CHANGES = st.lists(
    st.builds(
        lambda user, city, age, gone: (
            {"user": user, "_deleted": True} if gone else {"user": user, "city": city, "age": age}
        ),
        st.sampled_from(["ada", "bob", "eve", "kim"]),
        st.sampled_from(["Oslo", "Rome", None]),
        st.one_of(st.none(), st.integers(18, 21)),
        st.integers(0, 4).map(lambda roll: roll == 0),
    ),
    max_size=20,
)
LATEST = """
    select user, item, n, "at" from (
        select *, row_number() over (partition by item order by "at" desc, n desc) as place from orders) where place = 1
"""
FIRSTS = '(select * from orders qualify row_number() over (partition by user, item, n, "at") = 1)'
WINDOW = 'select item, time_bucket(interval 10 seconds, "at") as start, count(*) as rows, sum(n) as total'


def orders(flow: Flow, lateness: str = "8 seconds") -> Stream:
    return flow.stream("orders", SCHEMA, time="at", key="user", lateness=lateness)


def unique_places(rows: list[Any]) -> list[Any]:
    """Rows whose `n` tells apart those of one moment."""
    return [dict(row, n=number) for number, row in enumerate(rows)]


@given(ORDERS, SEEDS)
@examples(6)
def test_groups_and_latest_rows(rows: list[Any], seed: int) -> None:
    flow = Flow("shop")
    items = orders(flow).group("item")
    numbers = items.agg(
        rows=count(), total=sum("n"), mean=avg("amount"), least=min("amount"), middle=quantile("n", 0.5)
    )
    flow.view("items", numbers)
    flow.view("users", items.agg(users=distinct("user")))
    sql = {
        "items": "select item, count(*) as rows, sum(n) as total, avg(amount) as mean, min(amount) as least, "
        "quantile_cont(n, 0.5) as middle from orders group by item",
        "users": "select item, count(distinct user) as users from orders group by item",
    }
    assert_same_as_batch(flow, {"orders": rows}, sql, seed=seed, times=2, partitions=2)


@given(ORDERS, SEEDS)
@examples(5)
def test_the_latest_row_of_each_key(rows: list[Any], seed: int) -> None:
    flow = Flow("shop")
    flow.view("latest", orders(flow).select("user", "item", "n", "at").latest("item"))
    moments = {row["at"]: row for row in unique_places(rows)}
    assert_same_as_batch(flow, {"orders": list(moments.values())}, {"latest": LATEST}, seed=seed, times=2, partitions=2)


@given(ORDERS, SEEDS)
@examples(6)
def test_windows_and_groups_without_repeats(rows: list[Any], seed: int) -> None:
    flow = Flow("shop")
    once = orders(flow).dedupe(["user", "item", "n", "at"], within="30 seconds")
    flow.view("once", once.drop("amount"))
    flow.view("windows", once.window(tumbling("10 seconds"), by="item").agg(rows=count(), total=sum("n")))
    flow.view("items", once.group("item").agg(rows=count(), total=sum("n")))
    sql = {
        "once": f"select * exclude amount from {FIRSTS}",
        "windows": f"{WINDOW.replace('as start', 'as window_start, window_start + interval 10 seconds as window_end')} "
        f"from {FIRSTS} group by all",
        "items": f"select item, count(*) as rows, sum(n) as total from {FIRSTS} group by item",
    }
    doubled = [copy for row in rows for copy in (row, row)]
    assert_same_as_batch(flow, {"orders": doubled}, sql, seed=seed, times=2, partitions=2)


@given(ORDERS, st.sampled_from(["final", "update", "correct"]), SEEDS)
@examples(6)
def test_groups_of_windows(rows: list[Any], how: str, seed: int) -> None:
    flow = Flow("shop")
    options: dict[str, Any] = {"late": correct("2 minutes")} if how == "correct" else {"emit": how}
    windows = orders(flow).window(tumbling("10 seconds"), by="item", **options).agg(rows=count(), total=sum("n"))
    busiest = (
        windows.where("rows > 1")
        .group("item")
        .agg(windows=count(), most=max("rows"), sum=sum("total"), last=max("window_end"))
    )
    flow.view("busiest", busiest)
    flow.view("sizes", windows.group("rows").agg(windows=count()))
    inner = f"({WINDOW} from orders group by all)"
    sql = {
        "busiest": "select item, count(*) as windows, max(rows) as most, sum(total) as sum, "
        f"max(start) + interval 10 seconds as last from {inner} where rows > 1 group by item",
        "sizes": f"select rows, count(*) as windows from {inner} group by rows",
    }
    assert_same_as_batch(flow, {"orders": rows}, sql, seed=seed, times=2, shuffle=how != "correct")


@given(ORDERS, SEEDS)
@examples(5)
def test_groups_of_sessions(rows: list[Any], seed: int) -> None:
    flow = Flow("shop")
    sessions = orders(flow).window(session("5 seconds"), by="user", emit="update").agg(rows=count())
    flow.view("sizes", sessions.group("rows").agg(sessions=count()))
    assert_same_batching(flow, {"orders": rows}, seed=seed, times=2, shuffle=True)


@given(ORDERS, st.sampled_from(["final", "update"]), SEEDS)
@examples(6)
def test_a_window_beside_the_one_before(rows: list[Any], emit: str, seed: int) -> None:
    flow = Flow("shop")
    windows = orders(flow).window(tumbling("10 seconds"), by="item", emit=emit).agg(rows=count(), total=sum("n"))
    flow.view("growth", windows.versus("20 seconds").with_columns(more="rows - coalesce(rows_before, 0)"))
    inner = f"({WINDOW} from orders group by all)"
    growth = f"""
        select a.item, a.start as window_start, a.start + interval 10 seconds as window_end, a.rows, a.total,
        b.rows as rows_before, b.total as total_before, a.rows - coalesce(b.rows, 0) as more from {inner} a
        left join {inner} b on a.item is not distinct from b.item and b.start + interval 20 seconds = a.start
    """
    assert_same_as_batch(flow, {"orders": rows}, {"growth": growth}, seed=seed, times=2)


@given(CHANGES, SEEDS)
@examples(8)
def test_a_changelog_is_a_table(changes: list[Any], seed: int) -> None:
    flow = Flow("people")
    users = flow.table("users", USERS, key="user")
    flow.view("users", users)
    flow.view("adults", users.where("age > 18").select("user", "upper(city) as city"))
    flow.view("cities", users.group("city").agg(people=count(), oldest=max("age"), mean=avg("age")))
    flow.view("ages", users.group("city").agg(people=count()).group("people").agg(cities=count()))
    sql = {
        "users": "from users",
        "adults": "select user, upper(city) as city from users where age > 18",
        "cities": "select city, count(*) as people, max(age) as oldest, avg(age) as mean from users group by city",
        "ages": "select people, count(*) as cities from "
        "(select count(*) as people from users group by city) group by people",
    }
    assert_same_as_batch(flow, {"users": changes}, sql, seed=seed, times=2, partitions=2)


@given(CHANGES, CHANGES, SEEDS)
@examples(6)
def test_a_union_of_tables(changes: list[Any], others: list[Any], seed: int) -> None:
    flow = Flow("people")
    users = flow.table("users", USERS, key="user").union(flow.table("guests", USERS, key="user").where("age > 18"))
    flow.view("all", users)
    flow.view("cities", users.group("city").agg(people=count()))
    all_ = "(from users union all from guests where age > 18)"
    sql = {"all": f"from {all_}", "cities": f"select city, count(*) as people from {all_} group by city"}
    assert_same_as_batch(flow, {"users": changes, "guests": others}, sql, seed=seed, times=2, partitions=2)


def test_of_a_topic_read_twice_the_table_sees_tombstones_and_the_stream_does_not() -> None:
    flow = Flow("people")
    flow.view("now", flow.table("users", USERS, key="user"))
    flow.view("ever", flow.stream("users", USERS, key="user").group().agg(rows=count()))
    gone = {"user": "ada", "_deleted": True}
    rows = [{"user": "ada", "city": "Oslo", "age": 20}, {"user": "bob", "city": "Rome", "age": 21}]
    found = run_flow(flow, [{"users": rows}, Crash(), {"users": [gone]}])
    assert found.views["now"] == [rows[1]]
    assert found.views["ever"] == [{"rows": 2}]
    counted = [(one["node"], one["input"], one["read"], one["accepted"], one["deleted"]) for one in found.ledger[:3]]
    assert counted == [
        ("table-users", "topic", 3, 3, 1),
        ("stream-users", "topic", 2, 2, 0),
        ("table-users", "in", 3, 3, 1),
    ]


def test_the_ledger_counts_a_tombstone_as_a_row_of_its_topic_and_a_promise_as_none() -> None:
    flow = Flow("people")
    flow.view("users", flow.table("users", "user string, at timestamp", key="user", time="at"))
    row = {"user": "ada", "at": at(1)}
    found = run_flow(flow, [{"users": [row]}, Delete("users", "ada"), Advance("users", 0, at(60)), Process()])
    topic, kernel = found.ledger
    for entry in (topic, kernel):
        assert (entry["read"], entry["accepted"], entry["deleted"]) == (2, 2, 1)


def test_of_rows_with_the_same_time_the_later_partition_counts_for_latest_and_the_later_receipt_for_a_view() -> None:
    """`latest` goes by event time, and in it by the place in the log; a view with a key by when rows came in."""
    flow = Flow("shop")
    rows = flow.stream("orders", "user string, item string, at timestamp", time="at", key="user", lateness=60)
    flow.view("latest", rows.latest("item").select("item", "user"))
    flow.view("newest", rows.select("item", "user"), key="item")
    upper, lower = ("ada", "bob")
    assert [partition_of(user.encode(), 2) for user in (upper, lower)] == [1, 0]
    first, second = (Append("orders", [{"user": user, "item": "tea", "at": at(1)}], 1) for user in (upper, lower))
    for script in ([first, second, Process()], [first, Process(), second, Process()]):
        found = run_flow(flow, script, partitions=2)
        assert found.views["latest"] == [{"item": "tea", "user": upper}]
        assert found.views["newest"] == [{"item": "tea", "user": lower}]


def test_the_group_of_everything_has_no_row_where_there_are_no_rows() -> None:
    """SQL would have one, with the count 0."""
    flow = Flow("people")
    flow.view("all", flow.table("users", USERS, key="user").group().agg(people=count()))
    steps = [{"users": [{"user": "ada", "city": "Oslo", "age": 20}]}]
    assert run_flow(flow, []).views["all"] == []
    assert run_flow(flow, steps).views["all"] == [{"people": 1}]
    assert run_flow(flow, [*steps, Delete("users", "ada")]).views["all"] == []


def test_an_update_and_its_opposite_in_one_epoch_change_nothing() -> None:
    flow = Flow("people")
    flow.view("users", flow.table("users", USERS, key="user"))
    there = {"user": "ada", "city": "Oslo", "age": 20}
    again = [Append("users", [{"user": "ada", "_deleted": True}]), Append("users", [there]), Process()]
    found = run_flow(flow, [{"users": [there]}, *again])
    assert found.views["users"] == [there]
    assert [len(epoch) for epoch in found.changes["users"]] == [1, 0, 0]


def test_dedupe_keeps_the_first_in_log_order() -> None:
    flow = Flow("shop")
    flow.view("once", orders(flow).dedupe("item", within="10 seconds").select("item", "n", "at"))
    rows = [order("ada", 5, 1), order("ada", 2, 2), order("ada", 15, 3), order("ada", 15.5, 4), order("ada", 16, 5)]
    found = run_flow(flow, [{"orders": rows[:2]}, {"orders": rows[2:]}])
    assert sorted(row["n"] for row in found.views["once"]) == [1, 4]
    assert found.ledger_of("dedupe")["duplicates"] == 3
    assert found.views["once"][0]["at"] == at(5)


@given(ORDERS, st.integers(0, 99))
@examples(4)
def test_which_row_came_first_does_not_depend_on_epochs(rows: list[Any], seed: int) -> None:
    """Rows of one item are in several partitions; the order they came in decides."""
    flow = Flow("shop")
    stream = orders(flow, "1 minute")
    once = stream.dedupe("item", within="10 seconds")
    flow.view("newest", stream.select("item", "user", "n"), key="item")
    flow.view("once", once)
    flow.view("newest-once", once.union(stream.where("n > 0")).select("item", "user", "n"), key="item")
    assert_same_batching(flow, {"orders": unique_places(rows)}, seed=seed, times=2, partitions=3)


def test_values_at_the_end_of_double_leave_no_trace_when_they_go() -> None:
    """Sums and squares of them do not fit a double while they are there; what stays is as if they had never been."""
    flow = Flow("readings")
    group = flow.table("a", "k int, v double", key="k").group()
    flow.view("g", group.agg(total=sum("v"), mean=avg("v"), spread=stddev("v")))
    rows = [{"k": 1, "v": 1.0}, {"k": 2, "v": 3.0}]
    largest = sys.float_info.max
    odd = [{"k": 3, "v": largest}, {"k": 4, "v": largest}, {"k": 5, "v": 1e200}, {"k": 6, "v": -3e160}]
    deleted = [Delete("a", row["k"]) for row in odd]
    for script in ([{"a": rows + odd}, *deleted], [{"a": odd}, Crash(), {"a": rows}, *deleted]):
        (row,) = run_flow(flow, script).views["g"]
        assert (row["total"], row["mean"], row["spread"]) == (4.0, 2.0, math.sqrt(2))
    (row,) = run_flow(flow, [{"a": rows + odd}]).views["g"]
    assert (row["total"], row["mean"]) == (math.inf, math.inf)
    (row,) = run_flow(flow, [{"a": [rows[0], odd[2]]}]).views["g"]
    assert row["total"] == 1e200
    assert row["spread"] == pytest.approx(1e200 / math.sqrt(2))
