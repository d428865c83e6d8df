"""Values that are not one value: what a flow accepts at its declaration runs, and what cannot run is refused there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import riverrun as rr
from riverrun.flow import Stream, Table
from riverrun.testing import run_flow

VALUES: dict[str, tuple[Any, Any]] = {
    "binary": (b"a", b"\xff\x00"),
    "array<int>": ([1, 2], [3]),
    "struct<a:int,b:string>": ({"a": 1, "b": "x"}, {"a": 2, "b": "y"}),
    "struct<a:array<int>>": ({"a": [1]}, {"a": [2]}),
    "map<string,int>": ({"x": 1}, {"y": 2}),
}
NODES: dict[str, Callable[[Stream, Table], Any]] = {
    "min": lambda s, t: s.group("id").agg(r=rr.min("x")),
    "max of a table": lambda s, t: t.group().agg(r=rr.max("x")),
    "max of sessions": lambda s, t: s.window(rr.session(5), by="id").agg(r=rr.max("x")),
    "first": lambda s, t: s.group("id").agg(r=rr.first("x")),
    "first of a table": lambda s, t: t.group().agg(r=rr.first("x")),
    "distinct": lambda s, t: s.group("id").agg(r=rr.distinct("x")),
    "distinct of a table": lambda s, t: t.group().agg(r=rr.distinct("x")),
    "approx_distinct": lambda s, t: s.group("id").agg(r=rr.approx_distinct("x")),
    "top": lambda s, t: s.group("id").agg(r=rr.top("x", 2)),
    "top of a table": lambda s, t: t.group().agg(r=rr.top("x", 2)),
    "collect": lambda s, t: s.group("id").agg(r=rr.collect("x")),
    "collect of a table": lambda s, t: t.group().agg(r=rr.collect("x")),
    "dedupe": lambda s, t: s.dedupe("x", within=5),
    "group by": lambda s, t: s.group("x").agg(n=rr.count()).group().agg(n=rr.sum("n")),
    "join": lambda s, t: s.join(s, on="x", within=5),
    "lookup": lambda s, t: s.join(s.latest("x"), on="x"),
    "join of tables": lambda s, t: t.join(s.latest("id"), on="x"),
    "percolate": lambda s, t: s.with_columns(words="'a b'").percolate(t.select("*", "'b' as query"), text="words"),
}
_KEYED = {"dedupe", "group by", "join", "lookup", "join of tables"}
_ENDS = {"min", "max of a table", "max of sessions"}
_COUNTED = {"distinct", "distinct of a table", "approx_distinct"}
REFUSED: dict[str, set[str]] = {
    "binary": set(),
    "array<int>": _ENDS | _COUNTED | _KEYED | {"first of a table"},
    "struct<a:int,b:string>": _ENDS,
    "struct<a:array<int>>": _ENDS | _COUNTED | _KEYED | {"first of a table"},
    "map<string,int>": _ENDS | _COUNTED | _KEYED | {"first of a table", "top", "top of a table"},
}


@pytest.mark.parametrize("kind", VALUES)
def test_what_is_accepted_runs_and_the_rest_is_refused_where_it_is_written(kind: str) -> None:
    flow = rr.Flow("f")
    columns = f"id int, x {kind}, at timestamp"
    stream = flow.stream("s", columns, time="at", lateness=60)
    table = flow.table("t", columns, key="id", time="at")
    refused = set()
    for number, (name, node) in enumerate(NODES.items()):
        try:
            flow.view(f"v{number}", node(stream, table))
        except rr.Invalid as error:
            assert "test_nested_types.py:" in str(error)
            assert error.hint == "Use a part of it, or to_json of it"
            refused.add(name)
    assert refused == REFUSED[kind]

    start, values = datetime(2026, 1, 1, tzinfo=UTC), (*VALUES[kind], None)

    def rows(first: int, count: int) -> list[dict[str, Any]]:
        numbers = range(first, first + count)
        return [{"id": n % 3, "x": values[n % 3 - n % 2], "at": start + timedelta(seconds=n)} for n in numbers]

    gone = [{"id": 0, "_deleted": True}]
    views = run_flow(flow, [{"s": rows(0, 5), "t": rows(0, 5)}, {"s": rows(2, 1), "t": gone}, {"t": rows(4, 4)}]).views
    assert all(views[f"v{number}"] for number, name in enumerate(NODES) if name not in refused)


def test_different_bytes_are_counted() -> None:
    flow = rr.Flow("f")
    rows = flow.stream("s", "x binary")
    flow.view("v", rows.group().agg(n=rr.approx_distinct("x"), exact=rr.distinct("x")))
    found = run_flow(flow, {"s": [{"x": bytes([n, 255])} for n in (0, 1, 200, 255, 1)]}).views["v"]
    assert found == [{"n": 4, "exact": 4}]
