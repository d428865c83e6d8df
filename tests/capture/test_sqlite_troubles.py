"""Tables of SQLite files that cannot go on: what they wrote before is in their topics, and nothing is taken for them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from captured_file import FileShop
from riverrun.capture.captured import Captured
from riverrun.capture.changes import CapturedTable, ChangeBatch
from riverrun.capture.sqlite.source import SqliteSource
from riverrun.errors import Transient
from riverrun.river import River
from waiting import until

ORDERS = "create table orders (id integer primary key, who text, amount numeric(12,2))"
MANY = (
    "with recursive i(i) as (select 1 union all select i + 1 from i where i < 3000)"
    " insert into orders select i, 'u', i from i"
)
REPLACED = f"alter table orders rename to old_orders; {ORDERS}"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[FileShop]:
    made = FileShop(tmp_path)
    yield made
    made.close()


def triggers(shop: FileShop, table: str) -> list[str]:
    return [
        name for (name,) in shop.sql("select name from sqlite_master where type = 'trigger' and tbl_name = ?", table)
    ]


@pytest.mark.parametrize("running", [True, False])
def test_a_table_put_in_the_place_of_a_renamed_one_is_another(shop, running):
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1)")
    change = f"begin; {REPLACED}; insert into orders values (1, 'eve', 3); commit"
    if running:
        with shop.capture("orders") as capture:
            until(lambda: capture.status()["state"] == "streaming")
            shop.sql(change)
            until(lambda: capture.status()["tables"]["orders"]["state"] == "stopped")
            reason = capture.status()["tables"]["orders"]["reason"]
    else:
        shop.once("orders")
        shop.sql(change)
        reason = shop.once("orders")["tables"]["orders"]["reason"]
    assert "the triggers of orders are gone" in reason
    assert "--resnapshot orders" in reason
    assert triggers(shop, "old_orders") == []
    shop.once("orders", resnapshot=["orders"])
    shop.sql("insert into orders values (4, 'dan', 4)")
    shop.once("orders")
    assert {key: row["who"] for key, row in shop.replica("orders").items()} == {1: "eve", 4: "dan"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("drop table orders", "there is no table orders"),
        ("alter table orders rename to old_orders", "renamed to old_orders"),
        (f"drop table orders; {ORDERS}", "the triggers of orders are gone"),
        (REPLACED, "the triggers of orders are gone"),
        (f"drop table orders; {ORDERS.replace('who text', 'who int')}", "column 'who' of orders was string"),
    ],
)
@pytest.mark.parametrize("others", [("users",), ()])
def test_what_a_table_wrote_before_its_trouble_is_captured_after_a_restart(shop, change, why, others):
    shop.sql(f"{ORDERS}; create table users (id integer primary key); insert into orders values (1, 'ada', 1)")
    shop.once("orders", *others)
    shop.sql(f"insert into orders values (2, 'bob', 2); {change}; insert into users values (1)")
    orders = shop.once("Orders", *others)["tables"]["orders"]
    assert (orders["state"], why in orders["reason"]) == ("stopped", True)
    assert set(shop.replica("orders")) == {1, 2}
    assert triggers(shop, "old_orders") == []
    if others:
        assert set(shop.replica("users")) == {1}
    assert shop.sql('select count(*) from "riverrun.shop.changes"') == [(0,)]


def test_a_table_that_is_dropped_while_the_source_is_away_between_two_parts(shop, tmp_path, monkeypatch):
    shop.river.close()
    monkeypatch.setenv("RIVERRUN_CAPTURE_TRANSACTION_ROWS", "1000")
    shop.river = River(str(shop.river.path))
    shop.sql(f"{ORDERS}; create table users (id integer primary key)")
    taken = Captured._take
    parts = []

    def take(self: Captured, batch: ChangeBatch) -> None:
        taken(self, batch)
        parts.append(batch.is_part)
        if parts == [True]:
            raise Transient("the file was away for a moment")

    monkeypatch.setattr(Captured, "_take", take)
    with shop.capture("orders", "users") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        shop.sql(f"begin; {MANY}; insert into users values (1); drop table orders; commit")
        until(lambda: 1 in shop.replica("users"))
        until(lambda: capture.status()["tables"]["orders"]["state"] == "stopped")
    assert len(parts) > 2
    assert len(shop.replica("orders")) == 3000


@pytest.mark.parametrize("change", ["drop table orders", "alter table orders rename to old_orders", REPLACED])
def test_a_table_in_trouble_while_its_snapshot_is_made(shop, change, monkeypatch):
    shop.sql(f"{ORDERS}; create table users (id integer primary key); {MANY}")
    read = SqliteSource.chunk
    chunks = []

    def chunk(self: SqliteSource, table: CapturedTable, after: Any, limit: int) -> Any:
        chunks.append(table.id)
        if len(chunks) == 3:
            shop.sql(f"begin; insert into orders values (100000, 'last', 1); {change}; commit")
        return read(self, table, after, 200)

    monkeypatch.setattr(SqliteSource, "chunk", chunk)
    shop.db.close()
    shop.db = sqlite3.connect(shop.file, isolation_level=None, check_same_thread=False)
    with shop.capture("orders", "users") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        assert capture.status()["tables"]["orders"]["state"] == "stopped"
        shop.sql("insert into users values (1)")
        until(lambda: 1 in shop.replica("users"))
    assert 100000 in shop.replica("orders")


def test_a_table_that_is_to_be_read_again_has_all_it_wrote_before_its_trouble(shop):
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1)")
    shop.once("orders")
    shop.sql(
        f"insert into orders values (2, 'bob', 2); drop table orders; {ORDERS}; insert into orders values (3, 'c', 3)"
    )
    for _ in range(2):  # first what it wrote before is captured
        shop.once("orders", resnapshot=["orders"])
    assert set(shop.replica("orders")) == {3}
    assert 2 in {row["id"] for row in shop.rows("orders")}


def test_a_key_whose_table_is_written_in_another_case(shop):
    shop.sql("create table log (n int not null, text text); create unique index log_key on log (n)")
    with shop.capture("LOG", keys={"Log": ["n"]}) as capture:
        until(lambda: capture.status()["state"] == "streaming")
        shop.sql("alter table log add column more text; insert into log values (1, 'a', 'b')")
        until(lambda: 1 in shop.replica("log", "n"))


def test_a_renamed_table_that_is_captured_under_its_new_name_has_no_triggers_of_the_old(shop):
    shop.sql(f"{ORDERS}; create table users (id integer primary key); insert into orders values (1, 'ada', 1)")
    shop.once("orders", "users")
    shop.sql("alter table orders rename to old_orders")
    shop.once("users")
    assert triggers(shop, "old_orders") == []
    shop.sql("alter table old_orders drop column who; insert into old_orders values (2, 2)")
    shop.once("old_orders", "users")
    shop.sql("insert into old_orders values (3, 3)")
    shop.once("old_orders", "users")
    assert set(shop.replica("old_orders")) == {1, 2, 3}
    assert len(triggers(shop, "old_orders")) == 3


def test_a_key_that_became_null_while_no_capture_ran(shop):
    shop.sql("create table t (k text primary key, v int); create table u (id integer primary key)")
    shop.once("t", "u")
    shop.sql("insert into t values ('a', 1); insert into t values (null, 2); insert into u values (1)")
    table = shop.once("t", "u")["tables"]["t"]
    assert (table["state"], "is null" in table["reason"]) == ("stopped", True)
    assert set(shop.replica("t", "k")) == {"a"}
    assert set(shop.replica("u")) == {1}
