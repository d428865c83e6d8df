"""Indexes of views: made, changed and kept, whatever the database."""

from __future__ import annotations

import pytest

from contracts.view_flow import ViewFlow, contents, revenue, rows
from riverrun.errors import Invalid
from riverrun.views.sql.catalogue import find_view
from riverrun.views.sql.tables import table_of


def indexed(store, view="revenue"):
    """Over which columns of the table there are indexes beside that of the key."""
    with store.database.reading() as db:
        table = table_of(find_view(db, view)).strip('"')
        if store.database.__class__.__name__ == "SqliteDatabase":
            made = [
                row[0] for row in db.all("select sql from sqlite_master where type = 'index' and tbl_name = ?", table)
            ]
        else:
            made = [
                row[0]
                for row in db.all(
                    "select indexdef from pg_indexes where schemaname = current_schema() and tablename = ?", table
                )
            ]
    found = [text.rpartition("(")[2].rstrip(")") for text in made if text and "UNIQUE" not in text]
    return sorted(text.replace('"', "").split(", ") for text in found)


def test_rows_are_found_by_other_columns_than_the_key(store):
    flow = ViewFlow(store, revenue(indexes=[["n"], ["n", "user"]]))
    flow.commit(rows(("a", 1, 1), ("b", 2, 1)))
    flow.commit(rows(("a", 1, -1), ("a", 2, 1)))
    (first, second) = indexed(store)
    assert (len(first), len(second)) == (1, 2)
    assert second[0] == first[0]
    assert store.query("select count(*) as n from revenue where n = 2") == [{"n": 2}]
    assert store.spec("revenue").indexes == (("n",), ("n", "user"))


def test_indexes_come_and_go_with_the_declaration(store):
    flow = ViewFlow(store, revenue(indexes=[["n"]]))
    flow.commit(rows(("a", 1, 1)))
    store.declare(revenue(indexes=[["user", "n"], ["n"]]))
    assert len(indexed(store)) == 2
    store.declare(revenue())
    assert indexed(store) == []
    assert contents(store) == [("a", 1)]


def test_a_rebuild_has_them(store):
    flow = ViewFlow(store, revenue())
    flow.commit(rows(("a", 1, 1)), offset=10)
    rebuild = store.begin_rebuild("shop", [revenue(indexes=[["n"]])])
    flow.commit(rows(("a", 1, 1)), epoch=1, offset=10, rebuild=rebuild)
    store.switch(rebuild, flow.fence)
    assert len(indexed(store)) == 1


def test_columns_must_be_there_and_comparable():
    with pytest.raises(Invalid, match="view 'revenue' has no column 'm'"):
        revenue(indexes=[["m"]])
    with pytest.raises(Invalid, match="column 'tags' cannot be in an index, it is an array, map or struct"):
        revenue(schema="user string, tags array<string>", indexes=[["tags"]])
