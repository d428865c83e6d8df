"""Captures of SQLite files: what people do to tables, and what is right in the topics afterwards."""

from __future__ import annotations

import json
import math
import random
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captured_file import FileShop
from riverrun.capture.sqlite.types import converted, topic_type
from riverrun.errors import Conflict, Fenced, Invalid, NotFound
from waiting import until

ORDERS = "create table orders (id integer primary key, who text, amount numeric(12,2))"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[FileShop]:
    made = FileShop(tmp_path)
    yield made
    made.close()


def test_what_is_there_and_what_comes(shop):
    shop.sql("create table orders (id integer primary key, who text, amount int)")
    shop.sql(
        "with recursive i(i) as (select 1 union all select i + 1 from i where i < 30000)"
        " insert into orders select i, 'user ' || i, i from i;"
    )
    status = shop.once("orders")
    assert status["tables"]["orders"]["snapshot_rows"] == 30000
    assert shop.replica("orders") == shop.source("orders")
    shop.sql("update orders set amount = -1 where id < 100; delete from orders where id = 7")
    shop.sql("insert into orders values (-3, null, null)")
    assert shop.once("orders")["lag_bytes"] == 0
    assert shop.replica("orders") == shop.source("orders")
    assert [row["kind"] for row in shop.told()][-2:] == ["snapshot_done", "commit"]
    streamed = [row for row in shop.rows("orders") if row["_transaction"]]
    assert len(streamed) == 99 + 1 + 1
    (gone,) = [row for row in streamed if row["_deleted"]]
    assert (gone["id"], gone["who"]) == (7, None)
    assert abs((gone["_time"] - datetime.now(UTC)).total_seconds()) < 60
    assert shop.river.topic("shop.orders").describe()["captured"]["table"] == "orders"
    assert shop.sql('select count(*) from "riverrun.shop.changes"') == [(0,)]  # nothing is kept that was read


class Statements:
    """Random statements of every kind that touches rows, some of which fail, on tables with other triggers."""

    TABLES = """
    create table a (id integer primary key, u text unique, v int, t int default 0);
    create table b (x text collate nocase, y int, v text, u int unique, primary key (x, y)) without rowid;
    create table c (k text, v, other int references a(id) on delete cascade on update cascade);
    create unique index c_k on c (k) where k is not null;
    create trigger a_touched after insert on a begin update a set t = t + 1 where id = new.id; end;
    create trigger a_moves after update of v on a when new.v = 7 begin update a set id = id + 100 where id = new.id; end;
    create trigger b_returns after delete on b when old.y = 1 begin insert or ignore into b values (old.x, 1, 'back', null); end;
    create trigger c_fails before insert on c when new.v = 3 begin select raise(abort, 'no'); end;
    """

    def __init__(self, db: sqlite3.Connection, dice: random.Random) -> None:
        self.db, self.dice = db, dice

    def one(self) -> None:
        n = self.dice.randrange
        how = self.dice.choice(["", "or replace", "or ignore", "or fail", "or abort"])
        text = self.dice.choice(["'p'", "'P'", "'q'", "'r'", "'ä'", "''"])
        statement = self.dice.choice(
            [
                f"insert {how} into a (id, u, v) values ({n(6)}, {text}, {n(9)})",
                f"insert {how} into a (u, v) values ({text}, {n(9)})",
                f"insert into a (id, u, v) values ({n(6)}, {text}, 1) on conflict do update set v = v + 1",
                f"insert {how} into a (id, u) select id + 3, u from a",
                f"update {how} a set id = {n(6)} where id = {n(6)}",
                f"update {how} a set u = {text}, v = {n(9)} where id > {n(6)}",
                f"delete from a where id = {n(120)}",
                f"insert {how} into b values ({text}, {n(3)}, 'v', {n(5)})",
                f"update {how} b set x = upper(x), u = {n(5)} where y = {n(3)}",
                f"update {how} b set y = {n(3)} where u = {n(5)}",
                f"delete from b where y = {n(3)}",
                f"insert {how} into c values ({text}, {n(5)}, {n(6)})",
                f"update {how} c set k = {text} where v = {n(5)}",
                "delete from c" if n(5) == 0 else f"delete from c where v = {n(5)}",
            ]
        )
        try:
            self.db.execute(statement)
        except sqlite3.IntegrityError:
            pass

    def transaction(self) -> None:
        self.db.execute("begin")
        for _ in range(self.dice.randrange(1, 6)):
            self.one()
        if self.db.in_transaction:  # what fails may have rolled back everything
            self.db.execute(self.dice.choice(["commit", "commit", "rollback"]))


@given(seed=st.integers(0, 10**9))
@settings(max_examples=25, deadline=None)
def test_whatever_statements_do_is_in_the_topics(tmp_path_factory, seed):
    dice = random.Random(seed)
    shop = FileShop(tmp_path_factory.mktemp("shop"), dice.choice(["wal", "delete"]))
    try:
        shop.sql(Statements.TABLES)
        shop.sql(f"pragma foreign_keys = {dice.randrange(2)}")
        shop.sql(f"pragma recursive_triggers = {dice.randrange(2)}")
        shop.river.settings = replace(
            shop.river.settings, capture_chunk_rows=2, capture_transaction_rows=dice.choice([3, 1000])
        )
        statements = Statements(shop.db, dice)
        for _ in range(dice.randrange(1, 4)):
            for _ in range(dice.randrange(12)):
                statements.transaction()
            shop.once("a", "b", "c", keys={"c": ["k"]})
            for table, key in (("a", ("id",)), ("b", ("x", "y")), ("c", ("k",))):
                assert replica(shop, table, key) == source(shop, table, key), table
    finally:
        shop.close()


def replica(shop: FileShop, table: str, key: tuple[str, ...]) -> dict[Any, Any]:
    kept: dict[Any, Any] = {}
    for row in sorted(shop.rows(table), key=lambda row: (row["_partition"], row["_offset"])):
        kept.pop(tuple(row[name] for name in key), None)
        if not row["_deleted"]:
            kept[tuple(row[name] for name in key)] = {n: v for n, v in row.items() if not n.startswith("_")}
    return kept


def source(shop: FileShop, table: str, key: tuple[str, ...]) -> dict[Any, Any]:
    found = shop.db.execute(f"select * from {table}")
    names = [column[0] for column in found.description]
    rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    for row in rows:
        if table == "c":
            row["v"] = None if row["v"] is None else str(row["v"])  # a column without a type
    return {tuple(row[name] for name in key): row for row in rows}


def test_every_kind_of_value(shop):
    shop.sql(
        "create table kinds (id integer primary key, i bigint, b boolean, r double, d decimal(8,2), n numeric, x blob, t text,"
        " at datetime, j json, anything)"
    )
    row = "9007199254740993, 1, -9e999, 12.345, 1.5, x'00ff', 'zero: ' || char(0) || ' end', '2024-02-29', '{}', 7"
    shop.sql(f"insert into kinds values (1, {row})")
    shop.once("kinds")
    shop.sql(f"insert into kinds values (2, {row})")
    shop.sql("insert into kinds values (3, 'odd', 'odd', 'odd', 'odd', 'odd', 'text', x'ff41', 5, 5.5, x'41')")
    shop.sql("insert into kinds (id) values (4)")
    shop.once("kinds")
    rows = shop.replica("kinds")
    assert rows[1] == {
        "id": 1,
        "i": 9007199254740993,
        "b": True,
        "r": -math.inf,
        "d": Decimal("12.34"),
        "n": "1.5",
        "x": b"\x00\xff",
        "t": "zero: \0 end",
        "at": "2024-02-29",
        "j": "{}",
        "anything": "7",
    }
    assert {**rows[2], "id": 1} == rows[1]  # read and streamed alike
    assert list(rows[3].values()) == [3, None, None, None, None, "odd", b"text", "�A", "5", "5.5", "A"]
    assert set(list(rows[4].values())[1:]) == {None}


def test_values_of_types():
    assert [topic_type(kind) for kind in ("VARCHAR(20)", "tinyint", "interval", "numeric(5)", "FLOAT", "date", "BLOB")] == [
        "string", "bigint", "string", "decimal(5,0)", "double", "string", "binary"
    ]  # fmt: skip
    assert topic_type("numeric", "38,9") == "decimal(38,9)"
    assert converted([2**60 + 1, 0.5, b"x", None], "double").to_pylist() == [float(2**60), 0.5, None, None]
    assert converted([1e300, b"nan", b"7.1", 3], "decimal(4,1)").to_pylist() == [None, None, Decimal("7.1"), Decimal(3)]
    assert converted([b"\xff", b"a", 1, 1.5], "string", is_key=True).to_pylist() == ["x'ff'", "a", "1", "1.5"]


def test_keys_of_every_kind_in_small_chunks(shop):
    shop.river.settings = replace(shop.river.settings, capture_chunk_rows=1)
    shop.sql("create table odd (a text, b real, c blob, primary key (a, b, c))")
    rows = [("x'y", 0.1, b"\0"), ("x'y", 0.1, b"\xff"), ("", -1e300, b""), ("\0a", 2.0, b"a"), ("\0a", 2.5, b"a")]
    for row in rows:
        shop.sql("insert into odd values (?, ?, ?)", *row)
    shop.once("odd")
    assert len(shop.rows("odd")) == len(rows)
    assert {(row["a"], row["b"], row["c"]) for row in shop.rows("odd")} == {
        ("x'y", "0.1", "\0"), ("x'y", "0.1", "x'ff'"), ("", "-1e+300", ""), ("\0a", "2.0", "a"), ("\0a", "2.5", "a")
    }  # fmt: skip


def test_columns_come_and_go(shop):
    shop.sql(ORDERS)
    shop.sql("insert into orders values (1, 'ada', 1)")
    with shop.capture("orders") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        shop.sql("alter table orders add column city text default 'Oslo'; alter table orders add column _rank int")
        shop.sql("insert into orders values (2, 'bob', 2, 'Rome', 5)")  # the old triggers know nothing of it
        until(lambda: 2 in shop.replica("orders") and "city" in shop.replica("orders")[2])
        shop.sql("alter table orders rename column city to town")
        shop.sql("insert into orders values (3, 'eve', 3, 'Bonn', 6)")
        until(lambda: "town" in shop.replica("orders").get(3, {}))
    rows = shop.replica("orders")
    assert (rows[2]["city"], rows[2]["col__rank"]) == ("Rome", 5)
    assert (rows[3]["town"], rows[3]["city"], rows[3]["amount"]) == ("Bonn", None, 3)
    shop.sql("begin; alter table orders add column late int; insert into orders values (4, 'x', 1, 'y', 2, 3); commit")
    shop.once("orders")  # nobody looked meanwhile
    assert shop.replica("orders")[4]["late"] == 3
    with pytest.raises(sqlite3.OperationalError, match="riverrun.shop"):
        shop.sql("alter table orders drop column who")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("alter table orders rename to old_orders", "renamed to old_orders"),
        ("drop table orders", "there is no table orders"),
        (f"drop table orders; {ORDERS}", "the triggers of orders are gone"),
        (f"drop table orders; {ORDERS.replace('who text', 'who int')}", "column 'who' of orders was string"),
        ("drop table orders; create table orders (id int, who text primary key, amount numeric(12,2))", "the key of orders"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_go_on_stops_alone(shop, change, why):
    shop.sql(f"{ORDERS}; create table users (id integer primary key)")
    shop.sql("insert into orders values (1, 'ada', 1)")
    with shop.capture("orders", "users") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        # In one transaction: the capture sees the row and the trouble at once, and gives the row before it stops.
        shop.sql(f"begin; insert into orders values (2, 'bob', 2); {change}; insert into users values (1); commit")
        until(lambda: capture.status()["tables"]["orders"]["state"] == "stopped")
        until(lambda: 1 in shop.replica("users"))
        assert why in capture.status()["tables"]["orders"]["reason"]
    assert set(shop.replica("orders")) == {1, 2}
    shop.sql("insert into users values (2)")  # no trigger of ours is in its way
    again = shop.once("orders", "users")["tables"]
    assert again["orders"]["state"] == "stopped"
    assert again["orders"]["reason"]
    assert set(shop.replica("users")) == {1, 2}


def test_a_table_that_lost_its_triggers_is_read_again(shop):
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1), (2, 'bob', 1)")
    shop.once("orders")
    shop.sql(f"drop table orders; {ORDERS}; insert into orders values (2, 'eve', 1), (3, 'eve', 1)")
    assert "--resnapshot orders" in shop.once("orders")["tables"]["orders"]["reason"]
    shop.once("orders", resnapshot=["orders"])
    assert shop.replica("orders") == {key: {**row, "amount": Decimal(1)} for key, row in shop.source("orders").items()}
    shop.sql("delete from orders")
    shop.once("orders")
    assert shop.replica("orders") == {}


def test_tables_that_cannot_be_captured(shop):
    shop.sql(
        "create table bare (x int); create table fine (id integer primary key); create table nulls (k text primary key)"
    )
    shop.sql(
        "insert into nulls values (null); create table loose (a int, b int); create table text_key (k int primary key)"
    )
    shop.sql("insert into text_key values ('abc'); create table folded (id integer primary key, e text)")
    shop.sql("create unique index lower_e on folded (lower(e))")
    names = ("bare", "fine", "nulls", "loose", "text_key", "folded", "nowhere")
    tables = shop.once(*names, keys={"loose": ["a"]})["tables"]
    assert tables["fine"]["state"] == "streaming"
    for table, why in {
        "bare": "has no primary key",
        "nulls": "is null or not of the type",
        "loose": "no unique index on its key",
        "text_key": "is null or not of the type",
        "folded": "unique index on an expression",
        "nowhere": "there is no table nowhere",
    }.items():
        assert why in tables[table]["reason"]
    with pytest.raises(Conflict, match="has no table to capture"):
        shop.once("bare")


def test_a_key_that_becomes_null_stops_its_table(shop):
    shop.sql(
        "create table t (k text primary key, v int); insert into t values ('a', 1); create table u (id integer primary key)"
    )
    with shop.capture("t", "u") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        shop.sql(
            "begin; insert into t values ('b', 2); insert into t values (null, 3); insert into u values (1); commit"
        )
        until(lambda: capture.status()["tables"]["t"]["state"] == "stopped")
        assert "is null" in capture.status()["tables"]["t"]["reason"]
        until(lambda: 1 in shop.replica("u"))
    assert set(shop.replica("t", "k")) == {"a", "b"}


@pytest.mark.parametrize("what", ["uninstalled", "restored", "restored and written to", "another"])
def test_a_source_that_lost_something_asks_for_a_new_snapshot(shop, what):
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1), (2, 'bob', 2)")
    shop.once("orders")
    shop.sql("insert into orders values (3, 'eve', 3)")
    shop.once("orders")
    shop.sql("pragma wal_checkpoint(truncate)")
    shutil.copy(shop.file, shop.path / "copy.db")
    shop.sql("insert into orders values (4, 'eve', 3), (5, 'eve', 3)")
    shop.once("orders")
    shop.db.close()
    for tail in ("", "-wal", "-shm"):
        Path(f"{shop.file}{tail}").unlink(missing_ok=True)
    if what != "another":
        shutil.copy(shop.path / "copy.db", shop.file)
    shop.db = sqlite3.connect(shop.file, isolation_level=None)
    if what == "another":
        shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1)")
    if what == "restored and written to":
        shop.sql("insert into orders values (6, 'six', 6), (7, 'seven', 7), (8, 'eight', 8)")
    if what == "uninstalled":
        from riverrun.capture.sqlite.source import SqliteSource

        source = SqliteSource(shop.url, "shop")
        assert source.uninstall()
        source.close()
        assert shop.sql("select name from sqlite_master where name like '%riverrun%'") == []
    with pytest.raises(Conflict, match="--resnapshot all"):
        shop.once("orders")
    shop.once("orders", resnapshot=["all"])
    assert set(shop.replica("orders")) == set(shop.source("orders"))
    shop.sql("update orders set amount = 9 where id = 1")
    shop.once("orders")
    assert shop.replica("orders")[1]["amount"] == 9


def test_a_file_that_is_replaced_while_it_is_captured(shop):
    shop.sql("pragma journal_mode = delete")  # a log of writes that stays behind belongs to the file before
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1)")
    with shop.capture("orders") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        other = sqlite3.connect(shop.path / "other.db")
        other.executescript(ORDERS)
        other.close()
        (shop.path / "other.db").rename(shop.file)
        with pytest.raises(Conflict, match="not the one"):
            capture.wait(20)


def test_a_writer_that_holds_the_file_is_waited_for(shop, monkeypatch):
    monkeypatch.setattr("riverrun.capture.sqlite.session._PATIENCE", 0.1)
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1)")
    shop.once("orders")
    with shop.capture("orders") as capture:
        shop.sql("insert into orders values (9, 'sue', 9)")
        until(lambda: 9 in shop.replica("orders"))
        until(lambda: shop.sql('select count(*) from "riverrun.shop.changes"') == [(0,)])  # it has nothing to write now
        shop.sql("insert into orders values (2, 'bob', 2)")
        shop.sql("begin immediate")
        shop.sql("insert into orders values (?, 'eve', 1)", 3)
        until(lambda: 2 in shop.replica("orders"))  # readers do not wait for it
        shop.sql("commit")
        until(lambda: 3 in shop.replica("orders"))
    shop.sql("begin immediate")
    with shop.capture("orders") as capture:
        until(lambda: capture.status()["state"] == "waiting")
        assert "locked" in capture.status()["reason"]
        shop.sql("commit")
        until(lambda: capture.status()["state"] == "streaming")


def test_triggers_are_made_before_and_removed_afterwards(shop, riverrun):
    shop.sql(f"{ORDERS}; insert into orders values (1, 'ada', 1)")
    address = ["capture", shop.url, "--name", "shop"]
    assert "triggers on orders" in riverrun(*address, "--tables", "orders", "--install").out
    shop.sql("insert into orders values (2, 'bob', 2)")
    shop.once("orders", snapshot="never")
    assert set(shop.replica("orders")) == {2}  # what came since
    assert json.loads(riverrun(*address, "--uninstall", "--json").out) == {"name": "shop", "removed": True}
    assert shop.sql("select name from sqlite_master where name like '%riverrun%'") == []
    assert "there is nothing in" in riverrun(*address, "--uninstall").out
    assert "no table ordrs. Did you mean 'orders'?" in riverrun(*address, "--tables", "ordrs", "--install").err


def test_one_river_at_a_time(shop, tmp_path):
    import riverrun as rr

    shop.sql(ORDERS)
    with shop.capture("orders") as first:
        until(lambda: first.status()["state"] == "streaming")
        with rr.River(str(tmp_path / "other")) as other:
            with pytest.raises(Conflict, match="keeps its changes for a capture named shop already"):
                other.capture(shop.url, ["orders"], "shop").run(once=True)
            other.capture(shop.url, ["orders"], "second").run(once=True)  # under another name
        with shop.capture("orders") as second:
            until(lambda: second.status()["state"] == "streaming")
            shop.sql("insert into orders values (2, 'bob', 1)")
            until(lambda: 2 in shop.replica("orders"))
            with pytest.raises(Fenced):
                first.wait(20)
    assert len(shop.rows("orders")) == 1


def test_debezium(shop):
    shop.sql("create table users (id integer primary key, pay numeric(5,2)); insert into users values (1, 1.5)")
    shop.once("users", form="debezium")
    shop.sql("insert into users values (2, 1); update users set id = 3 where id = 2; delete from users where id = 1")
    shop.once("users", form="debezium")
    rows = shop.rows("users")
    ops = sorted(((row["key"], json.loads(row["json"])["op"] if row["json"] else None) for row in rows), key=str)
    assert ops == sorted(
        [('{"id":1}', "r"), ('{"id":2}', "c"), ('{"id":2}', "d"), ('{"id":2}', None), ('{"id":3}', "c"),
         ('{"id":1}', "d"), ('{"id":1}', None)], key=str
    )  # fmt: skip
    first = json.loads(rows[0]["json"])
    assert first["after"] == {"id": 1, "pay": "1.50"}
    assert (first["source"]["connector"], first["source"]["schema"]) == ("sqlite", None)


def test_a_table_called_transactions_and_odd_names(shop):
    shop.sql('create table transactions (id integer primary key, "group" text)')
    shop.sql("""create table "order ""items"".2" ("the id" int primary key not null, "it's" text, rowid text)""")
    shop.sql("""insert into transactions values (1, 'x'); insert into "order ""items"".2" values (1, 'a', 'b')""")
    shop.once("transactions", 'order "items".2')
    shop.sql("""update transactions set "group" = 'y'; update "order ""items"".2" set "it's" = 'c', "the id" = 2""")
    shop.once("Transactions", 'order "items".2')  # SQLite knows no case
    assert shop.replica("-74ransactions") == {1: {"id": 1, "group": "y"}}
    assert shop.replica("order-20-22items-22-2E2", "the id") == {2: {"the id": 2, "it's": "c", "rowid": "b"}}


def test_what_people_write_wrong(shop):
    def run(address: str, **options: Any) -> None:
        shop.river.capture(address, ["orders"], "x", **options).run(once=True)

    (shop.path / "text.db").write_text("this is not a database, but text that is long enough to be looked at" * 20)
    for address, options, error, why in (
        ("sqlite:", {}, Invalid, "names a file"),
        ("sqlite::memory:", {}, Invalid, "names a file"),
        (f"sqlite:{shop.path}/nowhere.db", {}, NotFound, "there is no file"),
        (f"sqlite:{shop.path}/text.db", {}, Invalid, "not a database"),
        (shop.url, {"publication": "p"}, Invalid, "a publication is PostgreSQL's"),
        (shop.url, {"decimal": "x"}, Invalid, "precision and scale"),
    ):
        with pytest.raises(error, match=why):
            run(address, **options)
    assert not (shop.path / "nowhere.db").exists()
