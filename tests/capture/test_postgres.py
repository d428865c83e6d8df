"""Captures of a real PostgreSQL: what people do to tables, and what is right in the topics afterwards."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from riverrun.errors import Conflict, Invalid, Unavailable
from waiting import until

ORDERS = "create table orders (id bigint primary key, who text, amount numeric(12,2))"


NAMES = (
    "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum"
)


def as_source(shop: Any, table: str) -> dict[Any, Any]:
    names = [row[0] for row in shop.sql(NAMES, table)]
    return {row[0]: dict(zip(names, row, strict=True)) for row in shop.sql(f"select * from {table}")}


def test_what_is_there_and_what_comes(shop):
    shop.sql(ORDERS)
    shop.sql("insert into orders select i, 'user ' || i, i * 1.25 from generate_series(1, 30000) i")
    status = shop.once("orders")
    assert status["tables"]["public.orders"]["snapshot_rows"] == 30000
    assert shop.replica("public.orders") == as_source(shop, "orders")
    shop.sql("update orders set amount = -1 where id < 100")
    shop.sql("delete from orders where id = 7")
    shop.sql("insert into orders values (-3, null, 'NaN')")
    assert shop.once("orders")["state"] == "stopped"
    source = as_source(shop, "orders")
    source[-3]["amount"] = None  # NaN is no decimal
    assert shop.replica("public.orders") == source
    streamed = [row for row in shop.rows("public.orders") if row["_transaction"]]
    assert {row["_transaction"] for row in streamed if row["id"] == 7} != {
        row["_transaction"] for row in streamed if row["id"] == 8
    }
    assert [row["kind"] for row in shop.told()][-2:] == ["snapshot_done", "commit"]
    (gone,) = [row for row in streamed if row["_deleted"]]
    assert (gone["id"], gone["who"]) == (7, None)
    assert abs((gone["_time"] - datetime.now(UTC)).total_seconds()) < 60
    assert shop.river.topic(f"{shop.name}.public.orders").describe()["captured"]["table"] == "public.orders"


def test_keys_that_change_values_that_are_not_sent_and_truncate(shop):
    shop.sql("create table notes (id int primary key, n int, body text)")
    shop.sql("alter table notes alter body set storage external")
    big = "x" * 20_000
    shop.sql("insert into notes select i, 0, %s || i from generate_series(1, 5) i", big)
    shop.once("notes")
    shop.sql("update notes set n = 1 where id in (1, 2)")
    shop.sql("update notes set id = 20, n = 2 where id = 2")
    shop.sql("begin; update notes set n = 3 where id = 20; update notes set id = 21 where id = 20; commit")
    shop.once("notes")
    assert shop.replica("public.notes") == as_source(shop, "notes")
    assert shop.replica("public.notes")[21]["body"] == big + "2"
    shop.sql(
        "begin; insert into notes values (6, 0, 'six'); truncate notes; insert into notes values (7, 0, 'seven'); commit"
    )
    shop.once("notes")
    assert shop.replica("public.notes") == as_source(shop, "notes") == {7: {"id": 7, "n": 0, "body": "seven"}}


def test_every_kind_of_value(shop):
    shop.sql("create type mood as enum ('sad', 'glad'); create domain price as numeric(8,2)")
    shop.sql(
        "create table kinds (id uuid primary key, a smallint, b int, c bigint, d real, e float8, f numeric, g boolean,"
        " h date, i timestamp, j timestamptz, k jsonb, l bytea, m int[], n interval, o mood, p price, q time, r text, s bit(3))"
    )
    row = (
        "'0e37df36-f698-11e6-8dd4-cb9ced3df976', -1, 2, 9007199254740993, 1.5, 'Infinity', 1e40, true, '2024-02-29',"
        " '2024-01-01 10:00:00.000001', '2024-01-01 10:00:00+02', '{\"a\": [1]}', '\\x00ff', '{1,null,3}', '1 day', 'glad', 12.5,"
        " '10:00', E'quote \" comma , line\nbreak', B'101'"
    )
    shop.sql(f"insert into kinds values ({row})")
    shop.once("kinds")
    shop.sql("update kinds set b = 2")
    shop.sql("insert into kinds (id, h, j, r) values (gen_random_uuid(), 'infinity', '-infinity', '')")
    shop.once("kinds")
    first, again, odd = shop.rows("public.kinds")
    plain = {name: value for name, value in first.items() if not name.startswith("_")}
    assert plain == {
        name: value for name, value in again.items() if not name.startswith("_")
    }  # read and streamed alike
    assert plain == {
        "id": "0e37df36-f698-11e6-8dd4-cb9ced3df976",
        "a": -1,
        "b": 2,
        "c": 9007199254740993,
        "d": 1.5,
        "e": float("inf"),
        "f": "1" + "0" * 40,
        "g": True,
        "h": date(2024, 2, 29),
        "i": datetime(2024, 1, 1, 10, 0, 0, 1),
        "j": datetime(2024, 1, 1, 8, tzinfo=UTC),
        "k": '{"a": [1]}',
        "l": b"\x00\xff",
        "m": "{1,NULL,3}",
        "n": "1 day",
        "o": "glad",
        "p": Decimal("12.50"),
        "q": "10:00:00",
        "r": 'quote " comma , line\nbreak',
        "s": "101",
    }
    assert (odd["h"], odd["j"].year, odd["r"], odd["a"]) == (date(9999, 12, 31), 1, "", None)


def test_columns_come_and_go(shop):
    shop.sql(ORDERS)
    shop.sql("insert into orders values (1, 'ada', 1)")
    shop.once("orders")
    shop.sql("alter table orders add column city text default 'Oslo', add column _rank int")
    shop.sql("insert into orders values (2, 'bob', 2, 'Rome', 5)")
    shop.sql("alter table orders drop column who")
    shop.sql("insert into orders values (3, 3, 'Bonn')")
    shop.once("orders")
    rows = shop.replica("public.orders")
    assert (rows[2]["city"], rows[2]["col__rank"], rows[2]["who"]) == ("Rome", 5, "bob")
    assert (rows[3]["city"], rows[3]["who"]) == ("Bonn", None)
    described = shop.river.topic(f"{shop.name}.public.orders").describe()["captured"]
    assert described["columns"] == {"col__rank": "_rank"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("alter table orders alter amount type text", "column 'amount' of public.orders was decimal"),
        ("alter table orders drop constraint orders_pkey, add primary key (who)", "the key of public.orders was"),
        (
            "alter table orders rename to old_orders; create table orders (x int)",
            "renamed|not in publication",  # who sees it first
        ),
        ("alter publication riverrun_{name} drop table orders", "not in publication"),
    ],
)
def test_a_table_that_cannot_go_on_stops_alone(shop, change, why):
    shop.sql(ORDERS)
    shop.sql("create table users (id int primary key)")
    shop.sql("insert into orders values (1, 'ada', 1)")
    shop.once("orders", "users")
    shop.sql("insert into orders values (2, 'bob', 2)")
    with shop.capture("orders", "users") as capture:
        until(lambda: 2 in shop.replica("public.orders"))
        shop.sql(change.format(name=shop.name))
        if "publication" not in change:
            target = "old_orders" if "rename" in change else "orders"
            shop.sql(f"insert into {target} values (3, 'eve', '3')")
        shop.sql("insert into users values (1)")
        capture._target = None
        until(lambda: capture.status()["tables"].get("public.orders", {}).get("state") == "stopped")
        until(lambda: 1 in shop.replica("public.users"))
        assert re.search(why, capture.status()["tables"]["public.orders"]["reason"])
    status = shop.river.captures()[0]
    assert status["tables"]["public.orders"]["state"] == "stopped"
    assert set(shop.replica("public.orders")) == {1, 2}
    again = shop.once("orders", "users")["tables"]["public.orders"]  # still
    assert again["state"] == "stopped"
    assert again["reason"]


def test_tables_that_cannot_be_captured(shop):
    shop.sql("create table bare (x int); create table fine (id int primary key)")
    shop.sql("create table silent (id int primary key); alter table silent replica identity nothing")
    status = shop.once("bare", "fine", "silent", "nowhere", keys={"public.fine": ["id"]})
    tables = status["tables"]
    assert tables["public.fine"]["state"] == "streaming"
    assert "has no primary key" in tables["public.bare"]["reason"]
    assert "replica identity default" in tables["public.silent"]["reason"]
    assert "there is no table public.nowhere" in tables["public.nowhere"]["reason"]
    shop.sql("insert into bare values (1)")
    shop.sql("update bare set x = 2")  # would fail if it were published
    with pytest.raises(Conflict, match="has no table to capture"):
        shop.once("bare")


def test_a_table_without_key_and_all_of_its_columns_as_identity(shop):
    shop.sql("create table log (id int not null, line text); alter table log replica identity full")
    shop.sql("insert into log values (1, 'a'), (2, 'b')")
    shop.once("log", keys={"log": ["id"]})
    shop.sql("update log set line = 'c' where id = 1; update log set id = 5 where id = 2; delete from log where id = 1")
    shop.once("log", keys={"log": ["id"]})
    assert shop.replica("public.log") == {5: {"id": 5, "line": "b"}}


def test_odd_names_and_partitions(shop):
    shop.sql(
        'create schema "Größe"; create table "Größe"."order items.2" ("the id" int, "b" text, primary key ("the id", b))'
    )
    shop.sql("""insert into "Größe"."order items.2" values (1, 'x"y'), (2, 'it''s'), (2, '%%')""")
    shop.sql("create table events (id int, day date, primary key (id, day)) partition by range (day)")
    shop.sql("create table events_1 partition of events for values from ('2024-01-01') to ('2025-01-01')")
    shop.sql("insert into events values (1, '2024-03-01')")
    shop.once("Größe.order items.2", "events")
    shop.sql("insert into events values (2, '2024-04-01')")
    shop.sql("""delete from "Größe"."order items.2" where b = 'x"y'""")
    shop.once("Größe.order items.2", "events")
    topic = f"{shop.name}.Gr-C3-B6-C3-9Fe.order-20items-2E2"
    assert topic in shop.river.topics()
    live = {row["b"] for row in shop.replica("Gr-C3-B6-C3-9Fe.order-20items-2E2", "b").values()}
    assert live == {"it's", "%%"}
    assert shop.river.topic(topic).describe()["captured"]["table"] == "Größe.order items.2"
    assert set(shop.replica("public.events")) == {1, 2}


def test_a_large_transaction_comes_in_parts(shop):
    import dataclasses

    shop.river.settings = dataclasses.replace(shop.river.settings, capture_transaction_rows=1000)
    shop.sql(ORDERS)
    shop.once("orders")
    shop.sql("insert into orders select i, 'x', i from generate_series(1, 4500) i")
    shop.once("orders")
    assert [row["kind"] for row in shop.told()][-5:] == ["part"] * 4 + ["commit"]
    assert len(shop.rows("public.orders")) == 4500
    assert json.loads(shop.told()[-1]["ends"])


def test_a_row_that_no_topic_takes_stops_its_table_alone(shop):
    shop.sql("create table notes (id int primary key, body text); create table users (id int primary key)")
    shop.sql("insert into notes values (1, 'small')")
    shop.once("notes", "users")
    shop.sql("begin; insert into notes values (2, repeat('x', 2000000)); insert into users values (1); commit")
    tables = shop.once("notes", "users")["tables"]
    assert tables["public.notes"]["state"] == "stopped"
    assert "max_record_bytes" in tables["public.notes"]["reason"]
    assert set(shop.replica("public.users")) == {1}
    shop.sql("delete from notes where id = 2")
    tables = shop.once("notes", "users", resnapshot=["notes"])["tables"]
    assert tables["public.notes"]["state"] == "streaming"
    assert set(shop.replica("public.notes")) == {1}


def test_always_reads_tables_again_and_never_does_not(shop):
    shop.sql(ORDERS)
    shop.sql("insert into orders values (1, 'ada', 1)")
    shop.once("orders", snapshot="never")
    assert shop.rows("public.orders") == []
    shop.once("orders", snapshot="always")
    shop.once("orders", snapshot="always")
    assert [row["id"] for row in shop.rows("public.orders")] == [1, 1]
    shop.sql("create table users (id int primary key); insert into users values (1)")
    shop.once("orders", "users")  # a table more
    assert set(shop.replica("public.users")) == {1}


def test_who_may_not_publish_is_told_what_the_owner_must_do(shop):
    shop.sql(ORDERS)
    shop.sql("drop role if exists reader; create role reader login replication")
    url = shop.url.replace("riverrun@", "reader@")
    with pytest.raises(Unavailable, match=r'create publication "riverrun_.*" for table "public"."orders"'):
        shop.once("orders", url=url)
    shop.sql(f"create publication riverrun_{shop.name} for table orders with (publish_via_partition_root = true)")
    with pytest.raises(Unavailable, match="SELECT"):
        shop.once("orders", url=url)
    shop.sql("grant select on orders to reader; insert into orders values (1)")
    shop.once("orders", url=url)
    assert set(shop.replica("public.orders")) == {1}


@pytest.mark.parametrize("what", ["dropped", "made again", "publication", "another"])
def test_a_source_that_lost_something_asks_for_a_new_snapshot(shop, what):
    shop.sql(ORDERS)
    shop.sql("insert into orders values (1, 'ada', 1), (2, 'bob', 2)")
    shop.once("orders")
    slot = f"riverrun_{shop.name}"
    if what in ("dropped", "made again"):
        until(lambda: not shop.sql(f"select 1 from pg_replication_slots where slot_name = '{slot}' and active"))
        shop.sql(f"select pg_drop_replication_slot('{slot}')")
    shop.sql("insert into orders values (3, 'eve', 3); delete from orders where id = 1")
    if what == "made again":
        shop.sql(f"select pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    if what == "publication":
        shop.sql(f"drop publication {slot}")
    options: dict[str, Any] = {}
    if what == "another":
        progress = shop.path / "river/captures" / shop.name / "progress.json"
        told = json.loads(progress.read_text())
        told["identity"]["system"] = "7"
        progress.write_text(json.dumps(told))
    with pytest.raises(Conflict, match="--resnapshot all"):
        shop.once("orders", **options)
    assert shop.river.captures()[0]["state"] == "failed"
    shop.once("orders", resnapshot=["all"])
    assert shop.replica("public.orders") == as_source(shop, "orders")
    shop.sql("update orders set amount = 9 where id = 3")
    shop.once("orders")
    assert shop.replica("public.orders") == as_source(shop, "orders")


def test_a_slot_that_another_river_uses(shop, tmp_path):
    import riverrun as rr

    shop.sql(ORDERS)
    with shop.capture("orders") as capture:
        until(lambda: capture.status()["state"] == "streaming")
        with rr.River(str(tmp_path / "other")) as other:
            with pytest.raises(Conflict, match="keeps its changes for a capture named .* already"):
                other.capture(shop.url, ["orders"], shop.name).run(once=True)


def test_a_second_capture_takes_over(shop):
    from riverrun.errors import Fenced

    shop.sql(ORDERS)
    shop.sql("insert into orders values (1, 'ada', 1)")
    with shop.capture("orders") as first:
        until(lambda: first.status()["state"] == "streaming")
        with shop.capture("orders") as second:
            until(lambda: second.status()["state"] == "streaming")
            shop.sql("insert into orders values (2, 'bob', 1)")
            until(lambda: 2 in shop.replica("public.orders"))
            with pytest.raises(Fenced):
                first.wait(20)
    assert len(shop.rows("public.orders")) == 2


def test_debezium(shop):
    shop.sql("create table users (id int primary key, born date, seen timestamptz, pay numeric(5,2))")
    shop.sql("insert into users values (1, '1970-01-03', '2024-01-01 00:00:00+00', 1.5)")
    shop.once("users", form="debezium")
    shop.sql("insert into users values (2); update users set pay = 2 where id = 2; delete from users where id = 1")
    shop.sql("update users set id = 3 where id = 2")
    shop.once("users", form="debezium")
    rows = shop.rows("public.users")
    ops = [(row["key"], json.loads(row["json"])["op"] if row["json"] else None) for row in rows]
    assert sorted(ops, key=str) == sorted(
        [
            ('{"id":1}', "r"),
            ('{"id":2}', "c"),
            ('{"id":2}', "u"),
            ('{"id":1}', "d"),
            ('{"id":1}', None),
            ('{"id":2}', "d"),
            ('{"id":2}', None),
            ('{"id":3}', "c"),
        ],
        key=str,
    )
    first = json.loads(rows[0]["json"])
    assert first["after"] == {"id": 1, "born": 2, "seen": "2024-01-01T00:00:00.000000Z", "pay": "1.50"}
    assert first["source"]["table"] == "users"
    assert shop.river.topic(f"{shop.name}.public.users").spec.schema == "key string, json string"


def test_what_people_write_wrong(shop):
    shop.sql(ORDERS)
    for wrong, why in (
        ({"tables": []}, "tables must be a list"),
        ({"name": "a.b"}, "without dots"),
        ({"snapshot": "often"}, "snapshot is initial"),
        ({"form": "avro"}, "form is rows"),
        ({"address": "oracle://x"}, "not an address"),
    ):
        options = {"address": shop.url, "tables": ["orders"], "name": "x", **wrong}
        with pytest.raises(Invalid, match=why):
            shop.river.capture(options.pop("address"), options.pop("tables"), options.pop("name"), **options)
    with pytest.raises(Unavailable) as caught:
        shop.river.capture(f"{shop.url}&user=nobody&password=s3cret", ["orders"], "x").run(once=True)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in json.dumps(shop.river.captures())
