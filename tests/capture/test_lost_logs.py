"""Servers that do not log what captures need, or have lost it: a capture stops with the reason and what to do."""

from __future__ import annotations

import pytest

from captured_shop import MariaShop
from riverrun.errors import Conflict, Unavailable
from waiting import until


def test_a_slot_that_the_server_gave_up(own_shop):
    settings = ("-c max_slot_wal_keep_size=1MB", "-c max_wal_size=32MB", "-c min_wal_size=32MB")
    shop = own_shop("postgresql", *settings, major=18)
    shop.sql("create table t (id int primary key, x text); insert into t values (1, 'a')")
    shop.once("t")
    for _ in range(4):
        shop.sql("create table w as select repeat('x', 1000) from generate_series(1, 20000); drop table w")
        shop.sql("select pg_switch_wal(); checkpoint")
    shop.sql("insert into t values (2, 'b')")
    with pytest.raises(Conflict, match=r"no longer usable.*--resnapshot all"):
        shop.once("t")
    shop.once("t", resnapshot=["all"])
    assert set(shop.replica("public.t")) == {1, 2}


@pytest.mark.parametrize("what", ["reset", "reset and as many again", "purged"])
def test_a_binary_log_that_lost_something_asks_for_a_new_snapshot(own_shop, what):
    own = own_shop("mariadb")
    own.sql("create table orders (id int primary key, who varchar(20))")
    own.sql("insert into orders values (1, 'ada'), (2, 'bob')")
    own.once("orders")
    own.sql("insert into orders values (3, 'eve'); delete from orders where id = 1")
    if what == "purged":
        until(lambda: not own.readers())
        own.sql("flush binary logs; flush binary logs")
        until(lambda: _is_purged(own))
    else:
        own.sql("reset master")
    if "again" in what:
        for number in range(10, 40):
            own.sql(f"insert into orders values ({number}, 'more')")
    with pytest.raises(Conflict, match="--resnapshot all"):
        own.once("orders")
    assert own.river.captures()[0]["state"] == "failed"
    own.once("orders", resnapshot=["all"])
    own.sql("update orders set who = 'eva' where id = 3")
    own.once("orders")
    source = {row[0]: {"id": row[0], "who": row[1]} for row in own.sql("select id, who from orders")}
    assert own.replica(f"{own.database}.orders") == source


def test_a_server_that_does_not_log_what_is_needed(own_shop):
    shop = own_shop("mariadb", "--log-bin=bin", "--binlog-format=MIXED")
    shop.sql("create table t (id int primary key)")
    with pytest.raises(
        Unavailable, match="binlog_format = MIXED, binlog_row_metadata = NO_LOG.*Set binlog_format = ROW"
    ):
        shop.once("t")


def _is_purged(shop: MariaShop) -> bool:
    """Whether only the newest file is left; others stay until InnoDB has no use for them."""
    shop.sql(f"purge binary logs to '{shop.sql('show master status')[0][0]}'")
    return len(shop.sql("show binary logs")) == 1
