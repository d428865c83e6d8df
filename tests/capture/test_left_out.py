"""A table that one run of a capture does not name, and a later one does: its rows say what was written meanwhile."""

from __future__ import annotations

import pytest

from riverrun.errors import Conflict
from riverrun.failpoints import Crashed, arm

DIALECTS = pytest.mark.parametrize("any_shop", ["postgresql", "mariadb", "sqlite"], indirect=True)


def _write(shop):
    shop.sql("create table users (id int primary key, name varchar(20))")
    shop.sql("create table orders (id int primary key, total int)")
    shop.sql("insert into orders values (1, 10), (2, 20), (3, 30)")
    shop.once("users", "orders")
    shop.once("users")
    shop.sql("update orders set total = 21 where id = 2")
    shop.sql("delete from orders where id = 3")
    shop.sql("insert into orders values (4, 40)")
    shop.sql("insert into users values (7, 'ada')")
    shop.once("users")  # confirms all of it


@DIALECTS
def test_a_table_that_was_left_out_of_a_run_is_read_again_when_it_is_named_again(any_shop):
    _write(any_shop)
    assert any_shop.replica(f"{any_shop.schema}orders")[2]["total"] == 20  # its topic stays as it is
    any_shop.once("users", "orders")
    any_shop.sql("insert into orders values (5, 50)")
    any_shop.once("users", "orders")
    assert {key: row["total"] for key, row in any_shop.replica(f"{any_shop.schema}orders").items()} == {
        1: 10,
        2: 21,
        4: 40,
        5: 50,
    }
    assert list(any_shop.replica(f"{any_shop.schema}users")) == [7]


@DIALECTS
def test_without_snapshots_a_table_that_was_left_out_stays_stopped_until_it_is_read(any_shop):
    _write(any_shop)
    told = any_shop.once("users", "orders", snapshot="never")["tables"]
    (reason,) = [one["reason"] for name, one in told.items() if name.endswith("orders")]
    assert "left out of an earlier run" in reason
    assert "--resnapshot" in reason
    any_shop.once("users", "orders", resnapshot=["orders"])
    assert sorted(any_shop.replica(f"{any_shop.schema}orders")) == [1, 2, 4]


def test_a_table_that_is_left_out_has_no_triggers_any_more(file_shop):
    _write(file_shop)
    triggers = "select distinct tbl_name from sqlite_master where type = 'trigger'"
    assert file_shop.sql(triggers) == [("users",)]


def _orders(shop):
    return {key: row["total"] for key, row in shop.replica(f"{shop.schema}orders").items()}


@DIALECTS
@pytest.mark.parametrize("place", ["capture.noted", "capture.fenced"])
def test_changes_from_before_a_table_was_left_out_do_not_undo_what_is_read_again(any_shop, place):
    shop = any_shop
    shop.sql("create table users (id int primary key, name varchar(20))")
    shop.sql("create table orders (id int primary key, total int)")
    shop.sql("insert into orders values (1, 10), (2, 20)")
    shop.once("users", "orders")
    shop.sql(
        "update orders set total = 15 where id = 2; insert into orders values (9, 90); delete from orders where id = 1"
    )
    arm(f"{place}=crash")
    with pytest.raises(Crashed):
        shop.once("users")
    arm("")
    shop.sql(
        "update orders set total = 21 where id = 2; delete from orders where id = 9; insert into orders values (1, 11)"
    )
    shop.once("users", "orders")
    assert _orders(shop) == {1: 11, 2: 21}


@DIALECTS
def test_a_run_that_is_refused_leaves_nothing_out(any_shop):
    shop = any_shop
    shop.sql("create table users (id int primary key, name varchar(20))")
    shop.sql("create table orders (id int primary key, total int)")
    shop.sql("insert into orders values (1, 10)")
    shop.once("users", "orders")
    with pytest.raises(Conflict, match="no table to capture"):
        shop.once("user")
    with pytest.raises(Conflict, match="no table orders to read again"):
        shop.once("users", resnapshot=["orders"])
    shop.sql("update orders set total = 11 where id = 1")
    shop.once("users", "orders", snapshot="never")  # nothing passed by
    assert _orders(shop) == {1: 11}


@pytest.mark.parametrize("any_shop", ["postgresql", "mariadb"], indirect=True)
def test_a_table_whose_name_differs_in_case_is_another_one(any_shop):
    shop = any_shop
    quote = '"' if shop.dialect == "postgresql" else "`"
    shop.sql("create table orders (id int primary key, total int)")
    shop.sql(f"create table {quote}Orders{quote} (id int primary key, total int)")
    shop.once("orders", "Orders")
    shop.once("Orders")
    shop.sql("insert into orders values (2, 20)")
    shop.once("Orders")
    shop.once("orders", "Orders")
    assert _orders(shop) == {2: 20}


def test_a_table_of_a_file_that_is_called_in_another_case_meanwhile(file_shop):
    shop = file_shop
    shop.sql("create table orders (id int primary key, total int)")
    shop.sql("insert into orders values (1, 10)")
    shop.once("orders")
    shop.sql(
        "alter table orders rename to aside; alter table aside rename to Orders; insert into Orders values (2, 20)"
    )
    shop.once("orders")
    assert sorted(shop.replica("Orders")) == [1, 2]
    shop.sql(
        "alter table Orders rename to aside; alter table aside rename to orders; insert into orders values (3, 30)"
    )
    shop.once("orders")
    assert _orders(shop) == {1: 10, 2: 20, 3: 30}


def test_a_table_of_a_file_that_is_gone_is_the_one_it_was_however_it_is_written(file_shop):
    shop = file_shop
    shop.sql("create table users (id int primary key); create table orders (id int primary key, total int)")
    shop.once("users", "orders")
    shop.sql("insert into orders values (1, 10); drop table orders")
    assert shop.once("users", "ORDERS")["tables"]["orders"]["state"] == "stopped"
    assert _orders(shop) == {1: 10}


@DIALECTS
def test_without_snapshots_a_table_of_which_nothing_was_captured_begins_with_what_comes(any_shop):
    shop = any_shop
    shop.sql("create table users (id int primary key, name varchar(20))")
    shop.sql("create table orders (id int primary key, total int)")
    shop.once("users", "orders", snapshot="never")
    shop.once("users", snapshot="never")
    shop.sql("insert into orders values (1, 10)")
    shop.once("users", snapshot="never")
    told = shop.once("users", "orders", snapshot="never")["tables"]
    assert {one["state"] for one in told.values()} == {"streaming"}
    shop.sql("insert into orders values (2, 20)")
    shop.once("users", "orders", snapshot="never")
    assert _orders(shop) == {2: 20}
