"""The net effect of weighted rows, against adding them up one by one."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.views import ViewOracle
from riverrun.views.keyed_changes import net
from riverrun.views.layout import DELETE, INSERT, NEW, OLD, OP

SCHEMA = {"a": pl.String, "b": pl.Int64, "x": pl.Float64, "w": pl.Int64}
KEY = ("a", "b")


def changes(*rows: tuple) -> list[tuple]:
    return net(pl.DataFrame(rows, SCHEMA, orient="row"), "w", KEY).rows()


def test_one_row_inserts_or_deletes():
    assert changes(("k", 1, 0.5, 1)) == [("k", 1, 0.5, INSERT)]
    assert changes(("k", 1, 0.5, -1)) == [("k", 1, 0.5, DELETE)]


def test_an_old_and_a_new_row_are_an_update_in_whatever_order_they_come():
    update = [("k", 1, 0.5, OLD), ("k", 1, 0.7, NEW)]
    assert changes(("k", 1, 0.5, -1), ("k", 1, 0.7, 1)) == update
    assert changes(("k", 1, 0.7, 1), ("k", 1, 0.5, -1)) == update


def test_equal_rows_cancel():
    nan = float("nan")
    assert changes(("k", 1, 0.5, -1), ("k", 1, 0.5, 1)) == []
    assert changes((None, None, nan, -1), (None, None, nan, 1)) == []
    assert changes((None, 1, None, 1), (None, 1, None, -1)) == []
    assert changes(("k", 1, 0.5, -1), ("k", 1, 0.7, 1), ("k", 1, 0.7, -1)) == [("k", 1, 0.5, DELETE)]
    assert changes(("k", 1, 0.5, 0)) == []


def test_the_last_row_wins():
    assert changes(("k", 1, 1.0, 1), ("k", 1, 2.0, 1), ("k", 1, 1.0, 1)) == [("k", 1, 1.0, INSERT)]
    assert changes(("k", 1, 1.0, 1), ("k", 1, 1.0, 1), ("k", 1, 2.0, 1), ("k", 1, 1.0, -1)) == [("k", 1, 2.0, INSERT)]


def test_nothing_comes_of_nothing():
    assert changes() == []


def test_keys_come_sorted():
    found = changes(("b", 2, 0.0, 1), ("a", 3, 0.0, 1), ("b", 1, 0.0, -1), ("a", 3, 1.0, -1))
    assert [row[:2] for row in found] == [("a", 3), ("a", 3), ("b", 1), ("b", 2)]


def test_a_table_of_keys_only():
    rows = pl.DataFrame({"k": ["a", "b", "b"], "w": [1, -1, 1]})
    assert net(rows, "w", ["k"]).rows() == [("a", INSERT)]


def test_columns_of_any_name_stay_as_they_are():
    odd = pl.DataFrame({"k": [1, 1, 2, 2, 2], "_op": ["a", "b", "c", "c", "d"], "_order": 7, "_run": 8, "_last": 9})
    changes = net(odd.with_columns(w=pl.Series([-1, 1, 1, -1, 1])), "w", ["k"])
    assert changes.drop(OP).rows() == [(1, "a", 7, 8, 9), (1, "b", 7, 8, 9), (2, "d", 7, 8, 9)]
    assert changes[OP].to_list() == [OLD, NEW, INSERT]


_ROW = st.tuples(
    st.sampled_from([None, "", "k"]),
    st.sampled_from([None, 0]),
    st.sampled_from([None, 0.5, 1.5]),
    st.sampled_from([-1, 1]),
)


@settings(max_examples=120, deadline=None)
@given(st.lists(_ROW, max_size=20))
def test_the_sum_is_what_one_by_one_gives(rows):
    expected = ViewOracle(KEY)
    expected.apply([(dict(zip(("a", "b", "x"), row, strict=False)), row[3]) for row in rows])
    found = ViewOracle(KEY)
    before = None
    for a, b, x, op in changes(*rows):
        if op in (INSERT, NEW):
            assert (op == NEW) == (before == (a, b))
            found.apply([({"a": a, "b": b, "x": x}, 1)])
        before = (a, b) if op == OLD else None
    assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows()))
