"""Messages as the tools document them: PostgreSQL and MySQL by Debezium, with and without schema, and Maxwell."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from riverrun.flow import Flow
from riverrun.testing import run_flow

CUSTOMERS = (
    "id int, email string, balance decimal(10,2), created timestamp_ntz, seen timestamp, born date, profile string,"
    " token string, state string, active boolean, avatar binary, roles array<string>"
)
PRODUCTS = (
    "id bigint, name string, weight double, price decimal(8,2), added timestamp, updated timestamp, sale boolean,"
    " kind string, sold_on date, picture binary, big decimal(20,0)"
)
ORDERS = (
    "id bigint, amount decimal(10,4), placed timestamp, day date, comment string, extra string, flags array<string>"
)


def sample(name: str) -> list[dict[str, str | None]]:
    pairs: list[Any] = json.loads((Path(__file__).parent / "samples" / f"{name}.json").read_text(encoding="utf-8"))
    return [{"key": json.dumps(key), "json": value and json.dumps(value)} for key, value in pairs]


def view(rows: list[Any], schema: str, batch: int, **options: Any) -> list[dict[str, Any]]:
    """What a replica of the table has in the end, read in epochs of so many messages."""
    flow = Flow("replica")
    flow.view("rows", flow.table("messages", schema, key="id", **options))
    result = run_flow(flow, [{"messages": rows[at : at + batch]} for at in range(0, len(rows), batch)], partitions=2)
    assert "messages.quarantine" in result.topics
    assert result.topics["messages.quarantine"] == []
    assert all(entry["quarantined"] == 0 for entry in result.ledger)
    assert result.ledger[0]["read"] == len(rows)
    return list(result.views["rows"])


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_postgresql_with_schema(batch: int) -> None:
    ada = {
        "id": 1001,
        "email": "ada@riverrun.example",
        "balance": Decimal("1234.56"),
        "created": datetime(2026, 1, 1, 0, 0, 0, 123456),
        "seen": datetime(2026, 1, 1, 10, 0, 0, 500000, UTC),
        "born": date(1931, 12, 12),
        "profile": '{"likes": ["tea"]}',
        "token": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "state": "active",
        "active": True,
        "avatar": b"\x89PNG\r",
        "roles": ["admin", "buyer"],
    }
    eve = {**ada, "id": 1003, "email": "eve@example.org", "state": "new"}
    assert view(sample("debezium_postgresql"), CUSTOMERS, batch, form="debezium") == [ada, eve]


@pytest.mark.parametrize("batch", [1, 10])
def test_mysql_without_schema(batch: int) -> None:
    scooter = {
        "id": 101,
        "name": "scooter",
        "weight": 3.14,
        "price": Decimal("17.49"),
        "added": datetime(2026, 1, 1, tzinfo=UTC),
        "updated": datetime(2026, 1, 1, 10, tzinfo=UTC),
        "sale": True,
        "kind": "toy",
        "sold_on": None,
        "picture": None,
        "big": Decimal("18446744073709551615"),
    }
    ball = {**scooter, "id": 112, "name": "ball", "price": Decimal("19.99"), "sold_on": date(2026, 1, 1)}
    messages = sample("debezium_mysql")
    for row in messages:  # without a schema `big` is a string, too, when decimals are
        row["json"] = row["json"] and row["json"].replace("18446744073709551615", '"18446744073709551615"')
    assert view(messages, PRODUCTS, batch, form="debezium", times="ms", decimals="string") == [scooter, ball]


@pytest.mark.parametrize("batch", [1, 10])
def test_maxwell(batch: int) -> None:
    order = {
        "id": 3,
        "amount": Decimal("4.2341"),
        "placed": datetime(2026, 1, 1, 5, 33, 37, 523000, UTC),
        "day": date(2026, 1, 1),
        "comment": None,
        "extra": '{"gift":true}',
        "flags": ["a", "b"],
    }
    assert view(sample("maxwell"), ORDERS, batch, form="maxwell", of="shop.orders") == [order]
