"""Every type goes through every part of a flow; names of any kind, and columns that nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from oracles.orders import at
from riverrun.errors import Invalid
from riverrun.flow import Flow
from riverrun.flow.aggregates import (
    approx_distinct,
    approx_quantile,
    avg,
    collect,
    count,
    distinct,
    first,
    last,
    max,
    min,
    quantile,
    rate,
    stddev,
    sum,
    top,
)
from riverrun.flow.stream import Stream
from riverrun.flow.windows import hopping, session, tumbling
from riverrun.testing import assert_same_as_batch, assert_same_batching, run_flow

SCHEMA = """
    `Odd Name` string, d decimal(12, 2), day date, ok boolean, w timestamp, raw binary, tags array<string>,
    place struct<x: double, y: double>, n int, small smallint, f float, m map<string, int>, At timestamp
"""
ROWS = [
    {
        "Odd Name": ["a b", "c`d", None][i % 3],
        "d": Decimal(i) / 4 if i % 4 else None,
        "day": date(2026, 1, 1 + i % 3),
        "ok": [True, False, None][i % 3],
        "w": at(i * 7),
        "raw": bytes([i % 2]),
        "tags": ["x"] * (i % 3),
        "place": {"x": i * 1.0, "y": None} if i % 2 else None,
        "n": i,
        "small": i % 5,
        "f": i / 2,
        "m": {"k": i},
        "At": at(i),
    }
    for i in range(20)
]


def flow_of(build: Callable[[Flow, Stream], Any]) -> Flow:
    flow = Flow("types")
    build(flow, flow.stream("t", SCHEMA, time="at", lateness="1 minute"))
    return flow


BUILT: dict[str, Callable[[Flow, Stream], Any]] = {
    "rows": lambda flow, s: (flow.view("v", s), flow.topic("o", s), flow.view("newest", s, key="day")),
    "decimals": lambda flow, s: flow.view("v", s.group("d").agg(n=sum("small"), f=sum("f"), c=collect("tags"))),
    "times": lambda flow, s: flow.view("v", s.group("w").agg(p=first("place"), q=last("m"), r=max("raw"))),
    "bytes": lambda flow, s: flow.view("v", s.group("raw").agg(n=count(), most=max("day"), least=min("w"))),
    "structs": lambda flow, s: flow.view(
        "v", s.group("day").agg(n=distinct("place"), t=top("tags", 2), x=sum("place.x"))
    ),
    "hidden": lambda flow, s: flow.view("v", s.group("day").agg(o=max("_offset"), t=min("_time"), k=max("_key"))),
    "computed": lambda flow, s: flow.view(
        "v", s.with_columns(m="date_trunc('minute', w)", up="upper(`odd name`)").group(["m", "up"]).agg(n=count())
    ),
    "numbers": lambda flow, s: flow.view(
        "v",
        s.window(hopping("10 s", "5 s")).agg(
            r=rate("minute"),
            sd=stddev("n"),
            q=quantile("n", 0.9),
            about=approx_distinct("n"),
            middle=approx_quantile("n", 0.5),
        ),
    ),
    "sessions": lambda flow, s: flow.view(
        "v", s.window(session("3 s"), by="small", emit="update").agg(n=count(), q=collect("n")).where("n > 1")
    ),
    "nobody needs them": lambda flow, s: (
        flow.view(
            "v",
            s.select("n", "small", "`odd name` as q", "d * 2 as dd").where("q is not null").group("Q").agg(t=sum("N")),
        ),
        flow.view("u", s.select("n", "f as x").union(s.select("small as n", "d as x")).group("n").agg(rows=count())),
        flow.view("w", s.with_columns(a="n + 1", b="small * 2").latest("day").select("day", "a")),
    ),
}


@pytest.mark.parametrize("what", BUILT)
def test_batchings_agree(what: str) -> None:
    assert_same_batching(flow_of(BUILT[what]), {"t": ROWS}, times=2, partitions=2)


def test_odd_names_and_types_in_keys() -> None:
    def build(flow: Flow, s: Stream) -> None:
        flow.view(
            "groups", s.group(["odd name", "day", "ok"]).agg(n=count(), total=sum("d"), mean=avg("d"), most=max("w"))
        )
        renamed = s.select("`odd name` as who", "at as happened", "d * 2 as double", "n")
        flow.view("windows", renamed.window(tumbling("5 s"), by="who").agg(double=sum("double"), end=max("happened")))

    sql = {
        "groups": 'select "Odd Name", day, ok, count(*) n, sum(d) total, avg(d) mean, max(w) most from t group by all',
        "windows": 'select "Odd Name" as who, time_bucket(interval 5 second, "At") as window_start, '
        'window_start + interval 5 second as window_end, sum(d * 2) as double, max("At") as end from t group by all',
    }
    assert_same_as_batch(flow_of(build), {"t": ROWS}, sql, times=2)


def test_a_key_cannot_be_nested() -> None:
    with pytest.raises(Invalid, match=r"'tags' is array<string>, which cannot be a key"):
        flow_of(lambda flow, s: flow.view("v", s.group("tags").agg(n=count())))


@pytest.mark.parametrize(
    ("kind", "value"),
    [("date", date(2026, 1, 1)), ("timestamp", at(1)), ("timestamp_ntz", datetime(2026, 1, 1)), ("boolean", True)]
    + [(kind, 3) for kind in ("tinyint", "smallint", "int", "bigint")]
    + [("float", 1.5), ("double", 1.5), ("string", "x")],
)
def test_the_least_and_the_largest_where_one_key_has_only_nulls(kind: str, value: Any) -> None:
    flow = Flow("least")
    rows = flow.stream("s", f"k int, v {kind}, at timestamp", time="at")
    flow.view("ends", rows.group("k").agg(low=min("v"), high=max("v")))
    given = [{"k": 1, "v": None, "at": at(1)}, {"k": 2, "v": value, "at": at(1)}, {"k": 2, "v": None, "at": at(1)}]
    empty, full = run_flow(flow, {"s": given}).views["ends"]
    assert (empty["low"], empty["high"]) == (None, None)
    assert (full["low"], full["high"]) == (value, value)
