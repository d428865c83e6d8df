"""The testing kit against Spark: expressions mean the same, and a script comes to the same."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from oracles.expressions import COLUMNS, ROWS, SQL
from oracles.orders import SCHEMA, order
from riverrun.flow import Flow
from riverrun.flow.aggregates import count, max, sum
from riverrun.flow.windows import session, side, tumbling
from riverrun.spark.types import spark_schema
from riverrun.testing import Append, Crash, Delete, compare_engines, run_flow
from riverrun.testing.projection import compute

pytestmark = pytest.mark.spark


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 12)
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def test_expressions_mean_the_same(spark_session: Any) -> None:
    table = pa.Table.from_pylist(ROWS, schema=COLUMNS)
    rows = [[row[name] for name in COLUMNS.names] for row in ROWS]
    frame = spark_session.createDataFrame(rows, spark_schema(COLUMNS))
    spark = frame.selectExpr(*(f"{sql} AS c{number}" for number, sql in enumerate(SQL))).toArrow()
    here = compute(SQL, table).cast(pa.schema([field.with_nullable(True) for field in spark.schema]))
    values = zip(SQL, here.columns, spark.columns, strict=True)
    found = {sql: [[plain(v) for v in column.to_pylist()] for column in columns] for sql, *columns in values}
    assert {sql: both for sql, both in found.items() if both[0] != both[1]} == {}


def test_a_script_comes_to_the_same(expressions: str) -> None:
    flow = Flow("shop")
    stream = flow.stream("orders", SCHEMA, time="at", key="user", lateness="5 seconds", max_skew="1 hour")
    users = flow.table("users", "user string, city string", key="user")
    once = stream.dedupe(["user", "at"], within="1 minute")
    windows = once.window(tumbling("10 seconds"), by="item", late=side("late"))
    flow.view("windows", windows.agg(rows=count(), total=sum("n * 2"), paid=sum("amount", where="n > 3")))
    flow.view("sessions", stream.window(session("5 seconds"), by="user", emit="update").agg(most=max("amount")))
    flow.view("cities", users.where("city != 'Rome'").group("city").agg(people=count()))
    flow.view("both", stream.where("n < 3").union(stream.select("*")).drop("item"))
    flow.view("places", stream.select("item", "upper(user) as who", "_partition as p", "_offset as o"), key="item")
    flow.topic("totals", once.group("user").agg(rows=count(), paid=sum("amount / 2")), key="user")
    rows = [order("abc"[i % 3], i, i % 7, ["tea", "rye", None][i % 3], i / 10) for i in range(40)]
    people = [{"user": u, "city": c} for u, c in zip("abcd", ["Oslo", "Rome", "Oslo", None], strict=True)]
    script = [
        Append("users", people),
        {"orders": rows + rows[:5]},
        Crash(),
        Append("orders", [order("a", 2), order("b", 50)]),
        Delete("users", "a"),
    ]
    local, spark = compare_engines(flow, script, partitions=2)
    assert len(local.views["windows"]) == 13
    assert len(local.topics["late"]) == 1
    assert local.ledger_of("stream-orders") == spark.ledger_of("stream-orders")
    assert local.watermarks == spark.watermarks


def test_sql_reaches_spark_as_it_was_written(expressions: str) -> None:
    """Names, texts and functions that a parser would write in another way, through several nodes."""
    flow = Flow("written")
    stream = flow.stream("orders", "`it's` string, `a``b` int, n int, at timestamp", time="at")
    named = stream.with_columns(said="concat(`it's`, '\\'s')", m="n + 1 -- one more").where("`it's` <> 'o''neil'")
    flow.view("named", named.select("*", "concat(said, \"'\", '/* no */') as quoted", "m * 2 as m2").drop("at"))
    local, spark = compare_engines(flow, {"orders": WRITTEN})
    assert [row["quoted"] for row in spark.views["named"]] == ["bob's'/* no */", "eve's'/* no */"]
    assert local.views["named"] == spark.views["named"]


WRITTEN = [
    {"it's": name, "a`b": n, "n": n * 1000, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    for n, name in enumerate(["bob", "o'neil", "eve"])
]


def test_what_only_spark_knows_reaches_it_as_it_was_written(spark_session: Any) -> None:
    flow = Flow("known")
    stream = flow.stream("orders", "`it's` string, `a``b` int, n int, at timestamp", time="at")
    made = stream.select(
        "n",
        "n + 1 as m",
        "to_char(n, '0009') as four",
        "log10(n + 1) as tens",
        "struct(n, `a``b`) as pair",
        "transform(array(n, 1), n -> n + `a``b`) as sums",
        "concat(`it's`, r'\\d') as raw",
    ).select("m", "four", "tens", "struct(m, pair.`a``b`) as `it's`", "sums", "raw", "struct(four, m) as two")
    flow.view("made", made)
    shouted = stream.transform(lambda frame: frame.withColumn("loud's", frame["it's"]))
    flow.view("shouted", shouted.drop("at", "n"))
    found = run_flow(flow, {"orders": WRITTEN[1:2]}, engine="spark")
    assert found.views["made"] == [
        {
            "m": 1001,
            "four": "1000",
            "tens": pytest.approx(math.log10(1001)),
            "it's": {"m": 1001, "a`b": 1},
            "sums": [1001, 2],
            "raw": "o'neil\\d",
            "two": {"four": "1000", "m": 1001},
        }
    ]
    assert found.views["shouted"] == [{"it's": "o'neil", "a`b": 1, "loud's": "o'neil"}]
