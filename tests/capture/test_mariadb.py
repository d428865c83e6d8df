"""Captures of a real MariaDB: what people do to tables, and what is right in the topics afterwards."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from riverrun.errors import Conflict, Fenced, Invalid, Unavailable
from waiting import until

ORDERS = "create table orders (id bigint primary key, who varchar(40), amount decimal(12,2))"


def as_source(maria: Any, table: str) -> dict[Any, Any]:
    names = [row[0] for row in maria.sql(f"show columns from `{table}`")]
    return {row[0]: dict(zip(names, row, strict=True)) for row in maria.sql(f"select * from `{table}`")}


def topic(maria: Any, table: str = "orders") -> str:
    return f"{maria.database}.{table}"


def test_what_is_there_and_what_comes(maria):
    maria.sql(ORDERS)
    maria.sql("insert into orders select seq, concat('user ', seq), seq * 1.25 from seq_1_to_30000")
    status = maria.once("orders")
    assert status["tables"][topic(maria)]["snapshot_rows"] == 30000
    assert maria.replica(topic(maria)) == as_source(maria, "orders")
    maria.sql("update orders set amount = -1 where id < 100")
    maria.sql("delete from orders where id = 7")
    maria.sql("insert into orders values (-3, null, null)")
    maria.sql("replace into orders values (8, 'eight', 8)")
    assert maria.once("orders")["state"] == "stopped"
    assert maria.replica(topic(maria)) == as_source(maria, "orders")
    streamed = [row for row in maria.rows(topic(maria)) if row["_transaction"]]
    assert len({row["_transaction"] for row in streamed}) == 4
    assert [row["kind"] for row in maria.told()][-2:] == ["snapshot_done", "commit"]
    (gone,) = [row for row in streamed if row["_deleted"]]
    assert (gone["id"], gone["who"]) == (7, None)
    assert abs((gone["_time"] - datetime.now(UTC)).total_seconds()) < 60
    assert gone["_position"] == gone["_transaction"]
    assert gone["_position"].startswith("0-7-")


def test_keys_that_change_and_truncate(maria):
    maria.sql("create table notes (id int primary key, n int, body text)")
    maria.sql("insert into notes select seq, 0, repeat('x', 20000) from seq_1_to_5")
    maria.once("notes")
    maria.sql("update notes set id = 20, n = 2 where id = 2")
    maria.sql("begin; update notes set n = 3 where id = 20; update notes set id = 21 where id = 20; commit")
    maria.once("notes")
    assert maria.replica(topic(maria, "notes")) == as_source(maria, "notes")
    maria.sql("insert into notes values (6, 0, 'six')")
    maria.sql("truncate /* all of it */ notes")
    maria.sql("insert into notes values (7, 0, 'seven')")
    maria.once("notes")
    assert maria.replica(topic(maria, "notes")) == as_source(maria, "notes") == {7: {"id": 7, "n": 0, "body": "seven"}}


def test_every_kind_of_value(maria):
    maria.sql(
        "create table kinds (id binary(4) primary key, a tinyint, b smallint unsigned, c mediumint, d int unsigned,"
        " e bigint unsigned, f float, g double, h decimal(12,3), i decimal(60,10), j char(5), k varchar(20) charset latin1,"
        " l text charset utf8mb4, m json, n enum('sad','glad'), o set('a','b','c'), p varbinary(9), q blob, r date,"
        " s datetime(6), t timestamp(3) null, u time(2), v year, w bit(10), x boolean, y point,"
        " z int as (a + 1), aa int as (a + 2) stored)"
    )
    row = (
        "x'0a00', -1, 65535, -8388608, 4294967295, 18446744073709551615, 0.1, 1e300, -12.5, 1e40, 'x', 'Größe €',"
        " 'quote \" comma , line\nbreak 😀', '{\"a\": [1]}', 'glad', 'c,a', x'00ff', x'ff00', '2024-02-29',"
        " '2024-01-01 10:00:00.000001', '2024-01-01 10:00:00.5', '100:00:00.25', 2024, b'101', true, point(1, 2)"
    )
    maria.sql("set time_zone = '+00:00'")
    maria.sql(f"insert into kinds values ({row}, default, default)")
    maria.once("kinds")
    maria.sql("update kinds set c = 0")
    maria.sql("update kinds set c = -8388608")
    maria.sql("set sql_mode = ''")
    maria.sql("insert into kinds (id, r, s, t, o, l) values (x'01020304', '0000-00-00', '0000-00-00', 0, '', '')")
    maria.once("kinds")
    first, _, again, odd = maria.rows(topic(maria, "kinds"))
    plain = {name: value for name, value in first.items() if not name.startswith("_")}
    # Read and streamed alike.
    assert plain == {name: value for name, value in again.items() if not name.startswith("_")}
    assert plain["y"][4:] == maria.sql("select st_aswkb(y) from kinds where y is not null")[0][0]
    assert abs(plain.pop("f") - 0.1) < 1e-8
    del plain["y"]
    assert plain == {
        "id": "0a000000",
        "a": -1,
        "b": 65535,
        "c": -8388608,
        "d": 4294967295,
        "e": Decimal(18446744073709551615),
        "g": 1e300,
        "h": Decimal("-12.500"),
        "i": "1" + "0" * 40 + "." + "0" * 10,
        "j": "x",
        "k": "Größe €",
        "l": 'quote " comma , line\nbreak 😀',
        "m": '{"a": [1]}',
        "n": "glad",
        "o": "a,c",
        "p": b"\x00\xff",
        "q": b"\xff\x00",
        "r": date(2024, 2, 29),
        "s": datetime(2024, 1, 1, 10, 0, 0, 1),
        "t": datetime(2024, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC),
        "u": "100:00:00.25",
        "v": 2024,
        "w": "0000000101",
        "x": 1,
    }
    assert (odd["id"], odd["r"], odd["s"], odd["t"], odd["o"], odd["l"], odd["a"]) == (
        "01020304",
        None,
        None,
        None,
        "",
        "",
        None,
    )
    maria.once("kinds", resnapshot=["kinds"])
    assert maria.rows(topic(maria, "kinds"))[-1]["o"] in ("", "a,c")


def test_columns_come_and_go(maria):
    maria.sql(ORDERS)
    maria.sql("insert into orders values (1, 'ada', 1)")
    maria.once("orders")
    maria.sql("alter table orders add column city varchar(20) default 'Oslo', add column _rank int first")
    maria.sql("insert into orders (id, who, amount, _rank) values (2, 'bob', 2, 7)")
    maria.sql("begin; update orders set amount = 3 where id = 2; commit")
    maria.sql("alter table orders drop column who")
    maria.sql("insert into orders (id, amount) values (3, 3)")
    maria.once("orders")
    found = maria.replica(topic(maria))
    assert found[2] == {"id": 2, "who": "bob", "amount": 3, "city": "Oslo", "col__rank": 7}
    assert found[3] == {"id": 3, "who": None, "amount": 3, "city": "Oslo", "col__rank": None}
    assert maria.river.topic(f"{maria.name}.{topic(maria)}").describe()["captured"]["columns"] == {"col__rank": "_rank"}
    with maria.capture("orders") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        maria.sql("alter table orders add column note text")
        maria.sql("insert into orders (id, note) values (4, 'here')")
        until(lambda: 4 in maria.replica(topic(maria)))
    assert maria.replica(topic(maria))[4]["note"] == "here"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("alter table orders modify amount varchar(20)", "column 'amount' of .*orders was decimal"),
        ("alter table orders drop primary key, add primary key (who)", "the key of .*orders was"),
        ("rename table orders to old_orders; create table orders like old_orders", "renamed to .*old_orders"),
        ("drop table orders; create table orders (id bigint primary key, who varchar(40), amount int)", "dropped"),
        ("set session binlog_row_image = minimal", "logged without who"),
        ("set session binlog_format = statement", "logged as text"),
        ("alter table orders truncate partition p0", "truncate partition"),
        ("xa start 'x'; insert into orders values (9, 'x', 9); xa end 'x'; xa prepare 'x'; xa rollback 'x'", "XA"),
    ],
)
def test_a_table_that_cannot_go_on_stops_alone(maria, change, why):
    maria.sql(f"{ORDERS} partition by hash (id) partitions 2" if "partition" in change else ORDERS)
    maria.sql("create database if not exists others")
    maria.sql("drop table if exists others.users; create table others.users (id int primary key)")
    maria.sql("insert into orders values (1, 'ada', 1)")
    maria.once("orders", "others.users")
    maria.sql("insert into orders values (2, 'bob', 2)")
    with maria.capture("orders", "others.users") as capture:
        until(lambda: 2 in maria.replica(topic(maria)))
        maria.sql(change)
        maria.sql("update orders set amount = 3 where id = 2")
        maria.sql("insert into orders values (3, 'eve', 3)")
        maria.disconnect()  # its settings go with it
        maria.sql("insert into others.users values (1)")
        until(lambda: capture.status()["tables"].get(topic(maria), {}).get("state") == "stopped")
        until(lambda: 1 in maria.replica("others.users"))
        reason = capture.status()["tables"][topic(maria)]["reason"]
        assert re.search(why, reason), reason
        assert "--resnapshot" in reason
    assert set(maria.replica(topic(maria))) == {1, 2}
    again = maria.once("orders", "others.users")["tables"][topic(maria)]  # still
    assert (again["state"], again["reason"] is None) == ("stopped", False)


def test_a_table_that_stopped_is_read_again(maria):
    maria.sql(ORDERS)
    maria.sql("insert into orders values (1, 'ada', 1), (2, 'bob', 2)")
    maria.once("orders")
    maria.sql("set session binlog_row_image = minimal")
    maria.sql("update orders set amount = 9 where id = 1; delete from orders where id = 2")
    maria.disconnect()
    assert maria.once("orders")["tables"][topic(maria)]["state"] == "stopped"
    maria.once("orders", resnapshot=["orders"])
    assert maria.replica(topic(maria)) == as_source(maria, "orders") == {1: {"id": 1, "who": "ada", "amount": 9}}


def test_tables_that_cannot_be_captured(maria):
    maria.sql("create table bare (x int); create table fine (id int primary key)")
    maria.sql("create table flat (id int primary key) engine = Aria")
    maria.sql("create table child (id int primary key, p int, foreign key (p) references fine (id) on delete cascade)")
    maria.sql("create table named (id uuid primary key); create table rough (id double primary key)")
    maria.sql("create table kept (id int primary key) with system versioning")
    names = ("bare", "fine", "flat", "child", "named", "rough", "kept", "nowhere")
    tables = maria.once(*names)["tables"]
    assert tables[topic(maria, "fine")]["state"] == "streaming"
    for name, why in (
        ("bare", "has no primary key"),
        ("flat", "engine = InnoDB"),
        ("child", "on delete cascade"),
        ("named", "type uuid"),
        ("rough", "not exact"),
        ("kept", "system-versioned"),
        ("nowhere", "there is no table"),
    ):
        assert why in tables[topic(maria, name)]["reason"]
    with pytest.raises(Conflict, match="has no table to capture"):
        maria.once("bare")


def test_keys_that_are_named_and_keys_of_several_parts(maria):
    maria.sql("create table log (id int not null, line text)")
    maria.sql(
        "create table items (a varchar(9), n enum('z','y','x'), b binary(3), c bit(3), v int, primary key (a, n, b, c))"
    )
    maria.sql("insert into log values (1, 'a'), (2, 'b')")
    maria.sql(
        "insert into items select concat('k', seq div 40), 1 + seq % 3, unhex(lpad(hex(seq div 3), 6, '0')), seq % 5, seq"
        " from seq_1_to_300"
    )
    maria.river.settings = dataclasses.replace(maria.river.settings, capture_chunk_rows=7)
    maria.once("log", "items", keys={"log": ["id"]})
    maria.sql(
        "update log set line = 'c' where id = 1; update log set id = 5 where id = 2; delete from log where id = 1"
    )
    maria.sql("delete from items where v = 7")
    maria.once("log", "items", keys={"log": ["id"]})
    assert maria.replica(topic(maria, "log")) == {5: {"id": 5, "line": "b"}}
    rows = maria.rows(topic(maria, "items"))
    assert len(rows) == 301  # each was read once
    assert sorted(row["v"] for row in rows if row["v"] and row["v"] != 7) == [v for v in range(1, 301) if v != 7]


def test_odd_names(maria):
    maria.sql("create database if not exists `Größe.2`")
    maria.sql("drop table if exists `Größe.2`.`order items`")
    maria.sql(
        "create table `Größe.2`.`order items` (`the % id` int, `b``c` varchar(9), primary key (`the % id`, `b``c`))"
    )
    maria.river.settings = dataclasses.replace(maria.river.settings, capture_chunk_rows=1)
    maria.sql("insert into `Größe.2`.`order items` values (1, 'x\"y'), (2, 'it''s'), (2, '%s')")
    maria.once("Größe.2.order items")
    maria.sql("delete from `Größe.2`.`order items` where `b``c` = 'it''s'")
    maria.once("Größe.2.order items")
    name = "Gr-C3-B6-C3-9Fe-2E2.order-20items"
    assert set(maria.replica(name, "b`c")) == {'x"y', "%s"}
    assert maria.river.topic(f"{maria.name}.{name}").describe()["captured"]["table"] == "Größe.2.order items"


def test_a_large_transaction_comes_in_parts(maria):
    maria.river.settings = dataclasses.replace(maria.river.settings, capture_transaction_rows=1000)
    maria.sql(ORDERS)
    maria.once("orders")
    maria.sql("insert into orders select seq, 'x', seq from seq_1_to_4500")
    maria.once("orders")
    assert [row["kind"] for row in maria.told()][-5:] == ["part"] * 4 + ["commit"]
    assert len(maria.rows(topic(maria))) == 4500


def test_who_may_not_is_told_what_to_grant(maria):
    maria.sql(ORDERS)
    maria.sql("insert into orders values (1, 'ada', 1)")
    maria.sql("create or replace user reader identified by 's3cret'")
    url = maria.url.replace("root@", "reader:s3cret@")
    with pytest.raises(Unavailable, match="cannot be reached.*Check login") as caught:
        maria.once("orders", url=url.replace("s3cret", "wr0ng"))
    assert "wr0ng" not in str(caught.value)
    with pytest.raises(Unavailable, match="grant replication slave, binlog monitor"):
        maria.once("orders", url=url)
    maria.sql(f"grant select on {maria.database}.* to reader")
    with pytest.raises(Unavailable, match="grant replication slave, binlog monitor"):
        maria.once("orders", url=url)
    maria.sql("grant binlog monitor on *.* to reader")
    with pytest.raises(Unavailable, match="grant replication slave, binlog monitor"):
        maria.once("orders", url=url)
    maria.sql("grant replication slave on *.* to reader")
    maria.once("orders", url=url)
    assert set(maria.replica(topic(maria))) == {1}
    assert "s3cret" not in json.dumps(maria.river.captures())


def test_a_second_capture_takes_over(maria):
    maria.sql(ORDERS)
    maria.sql("insert into orders values (1, 'ada', 1)")
    with maria.capture("orders") as first:
        until(lambda: first.status()["state"] == "streaming")
        with maria.capture("orders") as second:
            until(lambda: second.status()["state"] == "streaming")
            maria.sql("insert into orders values (2, 'bob', 1)")
            until(lambda: 2 in maria.replica(topic(maria)))
            with pytest.raises(Fenced):
                first.wait(20)
    assert len(maria.rows(topic(maria))) == 2


def test_debezium(maria):
    maria.sql("create table users (id int primary key, born date, pay decimal(5,2))")
    maria.sql("insert into users values (1, '1970-01-03', 1.5)")
    maria.once("users", form="debezium")
    maria.sql("insert into users values (2, null, 3)")
    maria.sql("update users set id = 3 where id = 2")
    maria.once("users", form="debezium")
    rows = maria.rows(topic(maria, "users"))
    ops = [(row["key"], json.loads(row["json"])["op"] if row["json"] else None) for row in rows]
    expected = [('{"id":1}', "r"), ('{"id":2}', "c"), ('{"id":2}', "d"), ('{"id":2}', None), ('{"id":3}', "c")]
    assert sorted(ops, key=str) == sorted(expected, key=str)
    assert json.loads(rows[0]["json"])["after"] == {"id": 1, "born": 2, "pay": "1.50"}
    assert json.loads(rows[0]["json"])["source"]["connector"] == "mariadb"


def test_what_people_write_wrong(maria):
    maria.sql(ORDERS)
    for wrong, why in (
        ({"publication": "p"}, "publications are PostgreSQL's"),
        ({"decimal": "x"}, "decimal is precision"),
        ({"url": f"{maria.url}?compress=1"}, "there is no option 'compress'"),
        ({"url": "mariadb://root@127.0.0.1:port/shop"}, "no address of MariaDB"),
    ):
        with pytest.raises(Invalid, match=why):
            maria.once("orders", **wrong)
