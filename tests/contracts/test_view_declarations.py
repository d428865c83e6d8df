"""What a view may be, and what may change about it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows, weighted
from riverrun.errors import Conflict, Invalid, NotFound, OutOfRange
from riverrun.views import View, ViewSpec


def test_declaring_again_changes_nothing(store):
    ViewFlow(store, revenue()).commit(rows(("a", 1, 1)))
    store.declare(revenue(history="1 day"))
    store.declare(revenue(schema="user string not null, n long", topics=["orders"]))
    assert contents(store) == [("a", 1)]
    assert [spec.name for spec in store.views()] == ["revenue"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"schema": "user string, n int"}, "another schema: it has 'user string, n bigint', declared is"),
        ({"key": ("user", "n")}, "another key"),
        ({"topics": ("orders", "users")}, "another topics"),
        ({"flow": "other"}, "another flow"),
        ({"name": "Revenue"}, "differs only in case"),
    ],
)
def test_a_mismatch_is_named(store, change, what):
    store.declare(revenue())
    with pytest.raises(Conflict, match=what):
        store.declare(revenue(**change))


@pytest.mark.parametrize("name", ["riverrun:flows", "sqlite_x", "pg_x", "", "x" * 201, "a\0b"])
def test_names_that_cannot_be(name):
    with pytest.raises(Invalid):
        revenue(name=name)


@pytest.mark.parametrize(
    "name",
    ['say "hi"', "it's", "select", "Mixed Case", "a;drop table x", "é-ü.1", "100%", "a?b", "--", "rows", "t"],
)
def test_odd_names_are_only_names(store, name):
    column = name + "!"
    schema = f"`{name}` string, `{column}` timestamp, `_x` bigint, `C0` bigint, c1 bigint, xmin bigint"
    flow = ViewFlow(store, ViewSpec(name, "shop", schema, (name,)))
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    flow.commit({name: weighted(schema, ("k", at, 1, 2, 3, 4, 1))})
    flow.commit(
        {name: weighted(schema, ("k", at, 1, 2, 3, 4, -1), ("k", at, 5, 6, 7, 8, 1), (None, at, 0, 0, 0, 0, 1))}
    )
    view = View(store, name)
    row = {name: "k", column: at, "_x": 5, "C0": 6, "c1": 7, "xmin": 8}
    quoted, quoted_column = (part.replace('"', '""') for part in (name, column))
    assert view.get("k") == row
    assert view.rows(where=f"\"{quoted}\" = 'k' and \"{quoted_column}\" >= '2026-01-01 12:00:00'") == [row]
    assert view.sql(f'select count(*) as n from "{quoted}"') == [{"n": 2}]
    assert sorted(change.op for change in view.changes(timeout=0)) == ["insert", "insert", "update"]
    store.drop(name)
    with pytest.raises(NotFound):
        View(store, name)


def test_a_dropped_view_can_be_declared_anew(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)))
    cursor = View(store, "revenue").cursor
    flow.commit(rows(("b", 1, 1)))
    store.drop("revenue")
    store.declare(revenue(schema="user string, m double"))
    assert contents(store) == []
    with pytest.raises(OutOfRange):
        next(View(store, "revenue").changes(since=cursor, timeout=0))
