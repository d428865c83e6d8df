"""Tables of SQLite files that cannot go on: what they wrote before is in their topics, and nothing is taken for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from captured_file import FileShop
from waiting import until

ORDERS = "create table orders (id integer primary key, who text, amount numeric(12,2))"
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
