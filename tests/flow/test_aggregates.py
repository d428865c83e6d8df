"""Aggregates: result types by Spark's rules, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from riverrun.flow import Flow
from riverrun.flow import aggregates as rr
from riverrun.flow.operators.group import Group
from riverrun.flow.operators.window import Window
from riverrun.flow.windows import session, tumbling

SCHEMA = (
    "g string, i int, l bigint, f float, d double, dec decimal(8,2), big decimal(38,10), s string, m map<string,int>"
)
Refusal = Callable[..., str]


@pytest.mark.parametrize(
    ("aggregate", "known"),
    [
        (rr.count(), "bigint"),
        (rr.count("s"), "bigint"),
        (rr.sum("i"), "bigint"),
        (rr.sum("l"), "bigint"),
        (rr.sum("f"), "double"),
        (rr.sum("d * 2"), "double"),
        (rr.sum("dec"), "decimal(18,2)"),
        (rr.sum("big"), "decimal(38,10)"),
        (rr.sum("mine(i)"), None),
        (rr.avg("i"), "double"),
        (rr.avg("dec"), "double"),
        (rr.min("s"), "string"),
        (rr.max("dec"), "decimal(8,2)"),
        (rr.stddev("i"), "double"),
        (rr.first("s"), "string"),
        (rr.last("i + 1"), "int"),
        (rr.distinct("s"), "bigint"),
        (rr.quantile("i", 0.5), "double"),
        (rr.collect("s"), "array<string>"),
        (rr.top("s", 3), "array<struct<value:string,count:bigint>>"),
        (rr.top("mine(s)", 3), None),
        (rr.approx_distinct("s"), "bigint"),
        (rr.approx_quantile("d", 0.99), "double"),
    ],
)
def test_result_types(aggregate: rr.Aggregate, known: str | None, flow: Flow) -> None:
    made = flow.stream("t", SCHEMA).group("g").agg(x=aggregate)
    assert made.schema.columns[0][0] == "g"
    found = made.schema["x"]
    assert (None if found is None else str(found)) == known


def test_a_measure_holds_checked_expressions(flow: Flow) -> None:
    made = flow.stream("t", SCHEMA).group("g").agg(p=rr.quantile("i + 1", 0.9, where="s = 'x' and d > 0"))
    assert isinstance(made.node, Group)
    (measure,) = made.node.measures
    assert (measure.name, measure.kind, measure.q) == ("p", "quantile", 0.9)
    assert measure.value and measure.value.sql == "i + 1"
    assert measure.where and measure.where.sql == "s = 'x' and d > 0"
    assert set(measure.columns) == {"i", "s", "d"}
    assert str(measure) == "quantile(i + 1, 0.9) where s = 'x' and d > 0"


@pytest.mark.parametrize(
    ("per", "micros"), [("second", 1_000_000), ("minute", 60_000_000), ("5 minutes", 300_000_000), (0.5, 500_000)]
)
def test_a_rate_is_per_time(per: str | float, micros: int, flow: Flow) -> None:
    made = flow.stream("t", SCHEMA).window(tumbling("1 minute")).agg(r=rr.rate(per, where="i > 0"))
    assert isinstance(made.node, Window)
    assert made.node.measures[0].per == micros
    assert str(made.schema["r"]) == "double"
    assert rr.rate().per == 1_000_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rr.quantile("i", 1.5), "a quantile lies between 0 and 1, not 1.5"),
        (lambda: rr.approx_quantile("i", "half"), "a quantile lies between 0 and 1, not 'half'"),  # type: ignore[arg-type]
        (lambda: rr.top("s", 0), "top needs a whole number of values, 1 or more, not 0"),
        (lambda: rr.rate("sometimes"), "per: not a duration: 'sometimes'"),
        (lambda: rr.rate("0 s"), "per must be longer than 0"),
    ],
)
def test_refused_when_written(call: Callable[[], Any], message: str, refusal: Refusal) -> None:
    assert refusal(call).startswith(message)


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (rr.sum("s"), "x: sum needs numbers, and 's' is string"),
        (rr.avg("s"), "x: avg needs numbers, and 's' is string"),
        (rr.stddev("m"), "x: stddev needs numbers, and 'm' is map<string,int>"),
        (rr.quantile("s", 0.5), "x: quantile needs numbers, and 's' is string"),
        (rr.max("m"), "x: max compares values, and 'm' is map<string,int>"),
        (rr.distinct("m"), "x: distinct compares values, and 'm' is map<string,int>"),
        (rr.sum("ii"), "x: there is no column 'ii' in 'ii'. Did you mean 'i'?"),
        (rr.count(where="i"), "x: 'i' is int, not boolean. A condition compares"),
        (rr.count(where="j > 0"), "x: there is no column 'j' in 'j > 0'"),
        (rr.sum("sum(i)"), "x: 'sum(i)' aggregates, and this is about one row"),
        (rr.sum("rand()"), "x: 'rand()' is not deterministic: rand"),
        (rr.rate(), "x: rate needs a window of fixed length. Use .window(…).agg(…)"),
        ("count", "x is not an aggregate: 'count'. Write rr.count()"),
    ],
)
def test_refused_when_bound(aggregate: rr.Aggregate, message: str, flow: Flow, refusal: Refusal) -> None:
    rows = flow.stream("t", SCHEMA)
    assert refusal(lambda: rows.group("g").agg(x=aggregate)).startswith(message)


def test_a_session_has_no_rate(flow: Flow, refusal: Refusal) -> None:
    windows = flow.stream("t", SCHEMA).window(session("1 s"))
    assert refusal(lambda: windows.agg(r=rr.rate())).startswith(
        "r: rate needs a window of fixed length, and sessions have none. Use rr.tumbling"
    )


def test_sketches_cannot_take_rows_back(flow: Flow, refusal: Refusal) -> None:
    table = flow.table("t", SCHEMA, key="g")
    assert refusal(lambda: table.group("s").agg(n=rr.approx_distinct("i"))) == (
        "n: approx_distinct cannot take rows back, and rows here may change. Use rr.distinct"
    )
