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
from riverrun.testing import Append, Crash, Delete, compare_engines
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


def test_a_script_comes_to_the_same() -> None:
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
