"""Tables in SQLite: rowids for whole numbers, and nulls in keys."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest

from riverrun.views import Epoch, View, ViewSpec, open_store
from riverrun.views.sql import sqlite_tables


def spec(key: tuple[str, ...], name: str = "v") -> ViewSpec:
    return ViewSpec(name, "flow", "k bigint, s string", key, ("t",), history="1 hour")


def rows(*given: tuple) -> pa.Table:
    k, s, weight = zip(*given, strict=True)
    return pa.table({"k": pa.array(k, pa.int64()), "s": pa.array(s, pa.string()), "_weight": weight})


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "views.db") as store:
        store.take_fence("flow")
        yield store


def commit(store, *given: tuple, view: str = "v", **more) -> None:
    number = store.last("flow", more.get("rebuild")).epoch + 1
    store.commit(Epoch("flow", 1, number, {"t": {0: number}}, {view: rows(*given)}, **more))


def has_rowid(store, view: str) -> bool:
    with closing(sqlite3.connect(store.database.path)) as db:
        [(*_, plan)] = db.execute(f"explain query plan select * from {view} where k = 3 and s = 'x'")
    return "INTEGER PRIMARY KEY" in plan


def test_one_whole_number_is_a_rowid_and_any_other_key_is_not(store):
    for name, key in (("one", ("k",)), ("other", ("s",)), ("both", ("k", "s")), ("neither", ())):
        store.declare(spec(key, name))
        assert has_rowid(store, name) == (name == "one")


def test_a_null_among_whole_numbers_is_a_key_like_any_other(store):
    store.declare(spec(("k",)))
    commit(store, (2, "two", 1), (1, "one", 1), (-(2**63), "least", 1))
    assert has_rowid(store, "v")
    view = View(store, "v")
    commit(store, (None, "none", 1), (1, "one", -1), (1, "new", 1))
    assert not has_rowid(store, "v")
    assert [tuple(row.values()) for row in view.rows()] == [(-(2**63), "least"), (1, "new"), (2, "two"), (None, "none")]
    assert view.get(None) == {"k": None, "s": "none"}
    commit(store, (None, "none", -1), (None, "again", 1), (3, "three", 1))
    assert view.sql("select s from v where k is null") == [{"s": "again"}]
    assert view.rows("k > 1") == [{"k": 2, "s": "two"}, {"k": 3, "s": "three"}]
    assert len(view.as_of("t@0:1")) == 3
    commit(store, (None, "again", -1))
    assert view.get(None) is None
    assert [change.op for change in view.changes(since="1", timeout=0)].count("update") == 2


def test_a_null_in_the_first_rows_or_in_a_rebuild(store):
    store.declare(spec(("k",)))
    commit(store, (None, "none", 1), (1, "one", 1))
    token = store.begin_rebuild("flow", [spec(("k",))])
    commit(store, (None, "new", 1), (5, "five", 1), rebuild=token)
    store.switch(token, 1)
    assert View(store, "v").rows() == [{"k": 5, "s": "five"}, {"k": None, "s": "new"}]
    assert [spec.name for spec in store.views()] == ["v"]


def test_tables_that_were_made_without_rowids_go_on(store, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(sqlite_tables, "_has_rowid", lambda view: False)
        store.declare(spec(("k",)))
    commit(store, (1, "one", 1), (2, "two", 1))
    commit(store, (1, "one", -1), (2, "two", -1), (2, "new", 1), (None, "none", 1))
    assert View(store, "v").rows() == [{"k": 2, "s": "new"}, {"k": None, "s": "none"}]
