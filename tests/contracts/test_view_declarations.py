"""What a view may be, and what may change about it."""

from __future__ import annotations

import re
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


ODD = ["riverrun:flows", "", "x" * 201, "a\0b", "..", "a/b", "totals\n", "<script>", "a b", "é"]


@pytest.mark.parametrize("name", ["sqlite_x", "pg_x", *ODD])
def test_names_of_views_that_could_be_paths_or_markup_are_refused(name):
    with pytest.raises(Invalid):
        revenue(name=name)


@pytest.mark.parametrize("name", ODD)
def test_names_of_flows_that_could_be_paths_or_markup_are_refused(store, name):
    """A name becomes part of paths and addresses, whoever gives it."""
    for declare in (lambda: revenue(flow=name), lambda: store.take_fence(name), lambda: store.raise_fence(name, 1)):
        with pytest.raises(Invalid, match="cannot be the name of a flow"):
            declare()
    assert store.flows() == []


@pytest.mark.parametrize(
    "name",
    ['say "hi"', "it's", "select", "Mixed Case", "a;drop table x", "é-ü.1", "100%", "a?b", "--", "rows", "t"],
)
def test_odd_names_are_only_names(store, name):
    """Of columns any; of views those that SQL has a meaning for."""
    column, view_name = name + "!", name if re.fullmatch(r"[\w.-]+", name, re.ASCII) else "odd"
    schema = f"`{name}` string, `{column}` timestamp, `_x` bigint, `C0` bigint, c1 bigint, xmin bigint"
    flow = ViewFlow(store, ViewSpec(view_name, "shop", schema, (name,)))
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    flow.commit({view_name: weighted(schema, ("k", at, 1, 2, 3, 4, 1))})
    flow.commit(
        {view_name: weighted(schema, ("k", at, 1, 2, 3, 4, -1), ("k", at, 5, 6, 7, 8, 1), (None, at, 0, 0, 0, 0, 1))}
    )
    view = View(store, view_name)
    row = {name: "k", column: at, "_x": 5, "C0": 6, "c1": 7, "xmin": 8}
    quoted, quoted_column = (part.replace('"', '""') for part in (name, column))
    assert view.get("k") == row
    assert view.rows(where=f"\"{quoted}\" = 'k' and \"{quoted_column}\" >= '2026-01-01 12:00:00'") == [row]
    assert view.sql(f'select count(*) as n from "{view_name}"') == [{"n": 2}]
    assert sorted(change.op for change in view.changes(timeout=0)) == ["insert", "insert", "update"]
    store.drop(view_name)
    with pytest.raises(NotFound):
        View(store, view_name)


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
