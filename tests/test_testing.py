"""The testing kit: scripts, the virtual clock, results, and assertions that can fail."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import polars as pl
import pytest

from oracles.orders import SCHEMA, at, order
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, sum
from riverrun.flow.windows import tumbling
from riverrun.testing import (
    END,
    Append,
    Crash,
    Delete,
    Process,
    Tick,
    assert_same_as_batch,
    assert_same_batching,
    run_flow,
)


def shop(**options: Any) -> Flow:
    flow = Flow("shop")
    stream = flow.stream("orders", SCHEMA, time="at", key="user", **options)
    flow.view("windows", stream.window(tumbling("10 seconds"), by="user").agg(rows=count(), total=sum("n")))
    flow.view("users", stream.group("user").agg(rows=count()))
    return flow


def test_rows_in_rows_out() -> None:
    found = run_flow(shop(), {"orders": [order("ada", 1, 2), order("bob", 3), order("ada", 12)]})
    assert found.views["windows"] == [
        {"user": "ada", "window_start": at(0), "window_end": at(10), "rows": 1, "total": 2},
        {"user": "ada", "window_start": at(10), "window_end": at(20), "rows": 1, "total": 1},
        {"user": "bob", "window_start": at(0), "window_end": at(10), "rows": 1, "total": 1},
    ]
    assert found.views["users"].polars.equals(pl.DataFrame({"user": ["ada", "bob"], "rows": [2, 1]}))
    assert found.views["users"].arrow.num_rows == 2
    assert found.watermarks == {"orders": END}


def test_input_stays_open_unless_it_is_drained() -> None:
    found = run_flow(
        shop(lateness="1 second"), [{"orders": [order("ada", 1)]}, {"orders": [order("ada", 11)]}], drain=False
    )
    assert [row["window_start"] for row in found.views["windows"]] == [at(0)]
    assert found.watermarks == {"orders": at(10)}
    assert [epoch.watermarks["orders"] for epoch in found.epochs] == [at(0), at(10)]


def test_changes_by_epoch() -> None:
    found = run_flow(shop(), [{"orders": [order("ada", 1)]}, {"orders": [order("ada", 2), order("bob", 2)]}])
    changes = [[(c.op, c.before, c.after) for c in epoch] for epoch in found.changes["users"]]
    assert changes == [
        [("insert", None, {"user": "ada", "rows": 1})],
        [
            ("update", {"user": "ada", "rows": 1}, {"user": "ada", "rows": 2}),
            ("insert", None, {"user": "bob", "rows": 1}),
        ],
        [],
    ]


def test_the_clock_follows_the_rows_or_stands_still() -> None:
    flow = Flow("clock")
    flow.view(
        "seen", flow.stream("orders", SCHEMA, time="at").select("user", "unix_micros(_received) as at"), key="user"
    )
    rows = [{"orders": [order("ada", 5)]}, {"orders": [order("bob", 2)]}]
    micros = int(at(0).timestamp()) * 1_000_000
    followed = {row["user"]: row["at"] - micros for row in run_flow(flow, rows).views["seen"]}
    assert followed == {"ada": 5_000_000, "bob": 5_000_001}
    ticking = [rows[0], Tick("1 minute"), rows[1], Append("orders", [order("eve", 1)], after=3)]
    found = run_flow(flow, ticking, now=datetime(2026, 1, 1, 12, tzinfo=UTC))
    noon = 12 * 3600 * 1_000_000
    assert [row["at"] - micros - noon for row in found.views["seen"]] == [1, 60_000_002, 63_000_003]


def test_a_backlog_is_one_epoch_and_a_crash_is_none() -> None:
    steps = [Append("orders", [order("ada", 1)]), Append("orders", [order("bob", 2)]), Process(), Crash(), Process()]
    found = run_flow(shop(), steps)
    assert [epoch.number for epoch in found.epochs] == [1, 2]
    assert [epoch.final for epoch in found.epochs] == [False, True]


def test_tombstones() -> None:
    flow = Flow("people")
    flow.view("users", flow.table("users", "user string, age int", key="user"))
    found = run_flow(flow, [{"users": [{"user": "ada", "age": 20}, {"user": "bob"}]}, Delete("users", "ada")])
    assert found.views["users"] == [{"user": "bob", "age": None}]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"order": []}, "names topic 'order'. The flow reads orders"),
        ([{"orders": []}, Append("others", [])], "step 2 of the script names topic 'others'"),
        ([["ada"]], "step 1 of the script is"),
        ({"orders": [{"user": "ada", "amout": 1.0, "at": at(0)}]}, "there is no column 'amout'"),
    ],
)
def test_mistakes_are_named(inputs: Any, message: str) -> None:
    with pytest.raises(Invalid) as error:
        run_flow(shop(), inputs)
    assert message in str(error.value)


def test_engines_have_names() -> None:
    with pytest.raises(Invalid, match="there is no engine 'flink'"):
        run_flow(shop(), {}, engine="flink")


ROWS = [order("ab"[i % 2], i, i) for i in range(30)]
USERS = 'select "user", count(*) as rows from orders group by "user"'


def test_a_wrong_query_is_told_row_by_row() -> None:
    with pytest.raises(AssertionError) as error:
        assert_same_as_batch(
            shop(), {"orders": ROWS}, {"users": USERS.replace("orders", "orders where n > 3 and n < 5")}
        )
    assert "view 'users' differs (view against query, seed 0, run 1, 2 epochs):" in str(error.value)
    assert "user 'a': rows is 15, expected 1" in str(error.value)
    assert "not expected: {user: 'b', rows: 15}" in str(error.value)
    with pytest.raises(AssertionError, match="columns rows, user, expected n, user"):
        assert_same_as_batch(shop(), {"orders": ROWS}, {"users": USERS.replace("rows", "n")})
    with pytest.raises(Invalid, match="has no view 'user'. It has windows, users"):
        assert_same_as_batch(shop(), {"orders": ROWS}, {"user": USERS})
    with pytest.raises(Invalid, match="DuckDB cannot run the query"):
        assert_same_as_batch(shop(), {"orders": ROWS}, {"users": "select nothing from orders"})


def test_a_flow_that_depends_on_the_epochs_is_found_out() -> None:
    """Windows that are not in time lose rows in some orders of arrival, and the kit must see it."""
    backwards = [order("a", 60 - i, i) for i in range(60)]
    with pytest.raises(AssertionError, match="view 'windows' differs .against all in one epoch"):
        assert_same_batching(shop(), {"orders": backwards})
    assert_same_batching(shop(lateness="1 minute"), {"orders": backwards}, shuffle=True)


def test_a_table_keeps_its_order_also_where_all_happens_at_one_moment() -> None:
    flow = shop()
    flow.view("names", flow.table("names", "user string, n int", key="user"))
    names = [{"user": "a", "n": n} for n in range(20)]
    sql = {"names": "from names", "users": USERS}
    assert_same_as_batch(flow, {"orders": [order("a", 5)], "names": names}, sql)


@pytest.mark.parametrize("at", ["plan.begin", "plan.done", "commit.begin"])
def test_a_crash_may_come_while_an_epoch_is_planned(at: str) -> None:
    script = [{"orders": [order("ada", 1)]}, Crash(at=at), {"orders": [order("ada", 2), order("bob", 3)]}]
    found = run_flow(shop(), script)
    assert [epoch.number for epoch in found.epochs] == [1, 2, 3]
    assert found.views["users"] == [{"user": "ada", "rows": 2}, {"user": "bob", "rows": 1}]
    assert run_flow(shop(), [{"orders": ROWS}, Crash(at=at)]).views["users"][0]["rows"] == 15


def test_rows_of_a_topic_go_into_one_with_a_time_column() -> None:
    flow = Flow("first")
    stream = flow.stream("orders", SCHEMA, time="at")
    flow.topic("copies", stream.select("user", "at"))
    copies = run_flow(flow, {"orders": ROWS}).topics["copies"]
    second = Flow("second")
    second.view(
        "users", second.stream("copies", "user string, at timestamp", time="at").group("user").agg(rows=count())
    )
    assert run_flow(second, {"copies": copies}).views["users"] == [{"user": "a", "rows": 15}, {"user": "b", "rows": 15}]
    assert_same_as_batch(second, {"copies": copies}, {"users": USERS.replace("orders", "copies")})


def test_assertions_take_rows_in_every_form_that_a_topic_takes() -> None:
    texts = [{**row, "at": row["at"].isoformat()} for row in ROWS]
    forms: list[Any] = [tuple(ROWS), texts, pl.DataFrame(ROWS).to_pandas() if PANDAS else ROWS, pl.DataFrame(ROWS)]
    for rows in forms:
        assert_same_as_batch(shop(), {"orders": rows}, {"users": USERS}, times=2)
        assert_same_batching(shop(), {"orders": rows}, times=1)
    with pytest.raises(Invalid, match="step 1 of the script names topic 'order'"):
        assert_same_as_batch(shop(), {"order": ROWS}, {"users": USERS})
    with pytest.raises(Invalid, match="there is no column 'amout'"):
        assert_same_batching(shop(), {"orders": [{"user": "ada", "amout": 1.0, "at": at(0)}]})


PANDAS = find_spec("pandas") is not None


@pytest.mark.parametrize("option", ["shards", "partitions", "max_rows"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "two"])
def test_sizes_are_whole_numbers_from_one(option: str, value: Any) -> None:
    with pytest.raises(Invalid, match=f"{option} cannot be {value!r}. Give a whole number from 1"):
        run_flow(shop(), {"orders": ROWS}, **{option: value})


def test_rows_of_a_derived_topic_with_a_null_key_are_input_of_another_flow() -> None:
    """A flow derives a topic with null keys, and another one reads them, as in a river."""
    first, second = Flow("first"), Flow("second")
    first.topic("sums", first.stream("s", "g int").group("g").agg(n=count()), key="g")
    second.view("sums", second.table("sums", "g int, n long", key="g"))
    derived = run_flow(first, {"s": [{"g": None}, {"g": 1}, {"g": None}]}).topics["sums"]
    for script in ({"sums": derived}, [Crash(at="commit.begin"), Append("sums", derived), Process()]):
        rows = run_flow(second, script).views["sums"]
        assert [(row["g"], row["n"]) for row in rows] == [(1, 1), (None, 2)]
    with pytest.raises(Invalid, match="a value is required"):  # what people append is as the topic says
        run_flow(second, {"sums": [{"g": None, "n": 2}]})
