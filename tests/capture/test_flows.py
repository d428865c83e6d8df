"""Captured tables in flows: without a schema, by the river that is open."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.capture.topics import transactions_spec
from riverrun.errors import Invalid
from riverrun.testing import run_flow


def captured(river: rr.River) -> None:
    schema = "id bigint, who string, _position string, _transaction string"
    river.topic("shop.public.orders", schema, key="id", time=None, compact=True)
    river.topic(transactions_spec("shop"))


def test_a_table_of_the_open_river_needs_no_schema(tmp_path):
    with rr.River(str(tmp_path / "river")) as river:
        captured(river)
        flow = rr.Flow("replica")
        orders = flow.table("shop.public.orders")
        flow.view("orders", orders)
    assert orders.key == ("id",)
    assert list(orders.node.schema) == ["id", "who"]
    result = run_flow(flow, {"shop.public.orders": [{"id": 1, "who": "ada"}, {"id": 1, "who": "bob"}]})
    assert result.views["orders"] == [{"id": 1, "who": "bob"}]


def test_who_wants_the_transaction_names_it(tmp_path):
    with rr.River(str(tmp_path / "river")) as river:
        captured(river)
        flow = rr.Flow("replica")
        flow.view("orders", flow.table("shop.public.orders", "id bigint, _transaction string", key="id"))


def test_a_topic_that_nobody_knows_is_an_error_by_name(tmp_path):
    with rr.River(str(tmp_path / "river")) as river:
        captured(river)
        with pytest.raises(Invalid, match="topic 'shop.public.users' needs a schema.* a river that was opened"):
            rr.Flow("f").table("shop.public.users")
    with pytest.raises(Invalid, match="'shop.public.orders' needs a schema"):
        rr.Flow("f").table("shop.public.orders")  # the river is closed
