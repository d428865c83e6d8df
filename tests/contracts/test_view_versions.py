"""Views as they were."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from contracts.view_flow import ViewFlow, revenue, rows, weighted
from riverrun.durations import wall_clock
from riverrun.errors import Invalid, OutOfRange
from riverrun.views import View, ViewSpec
from riverrun.views.columns import rows_of


def test_as_of_a_position_or_a_commit_time(store):
    flow = ViewFlow(store, revenue(history="1 hour"))
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


def test_a_version_answers_as_the_view_did(store):
    schema = "x double, `a?%b` string, raw binary, price decimal(10,2), at timestamp, tags array<string>, _n bigint"
    key = ("x", "raw", "price")
    flow = ViewFlow(store, ViewSpec("odd", "shop", schema, key, history="1 hour", hidden=("_n",)))
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


def test_as_of_needs_history_and_history_ends(short):
    flow = ViewFlow(short, revenue(history="1 minute"), revenue(name="plain"))
    start = wall_clock()
    flow.commit(rows(("a", 1, 1)), committed=start)
    flow.commit(rows(("a", 1, -1), ("a", 2, 1)), committed=start + 1)
    with pytest.raises(Invalid, match="keeps no history"):
        View(short, "plain").as_of({"orders": {0: 10}})
    flow.commit(rows(("a", 2, -1), ("a", 3, 1)), committed=start + 120_000_000)
    with pytest.raises(OutOfRange):
        View(short, "revenue").as_of({"orders": {0: 10}})
    assert View(short, "revenue").as_of({"orders": {0: 20}}).rows() == [{"user": "a", "n": 2}]
