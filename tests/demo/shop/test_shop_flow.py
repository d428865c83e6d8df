"""The demo's flow over the demo's events comes to what a batch over the same rows would."""

from __future__ import annotations

import collections
import re
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from riverrun.demo.shop.events import BOT, DEVICES, KINDS, SECOND, Shop
from riverrun.demo.shop.shop_flow import TOPICS, flow
from riverrun.durations import from_micros
from riverrun.testing import Append, Crash, Process, Result, Tick, run_flow

pytestmark = pytest.mark.xdist_group("shop")  # what was played is there once in a process
IN_QUARANTINE = "attic"  # the device whose clock is a year ahead
START = 1_790_000_000 * SECOND
ROUNDS = 16  # of three seconds
Row = dict[str, Any]


@cache
def played() -> tuple[dict[str, list[Row]], Result]:
    """What arrived, by topic, and what came of it; with a crash in the middle of an epoch."""
    shop, rows, script = Shop(START, rate=60), collections.defaultdict(list), []
    for number in range(ROUNDS):
        arrived = shop.until(START + (number + 1) * 3 * SECOND)
        for name, table in arrived.items():
            rows[name] += table.to_pylist()
        script += [Tick("3 seconds"), *(Append(name, table) for name, table in arrived.items())]
        script += [Crash(at="commit.topics")] if number == ROUNDS // 2 else []
        script.append(Process())
    return rows, run_flow(flow, script, now=from_micros(START), topics=TOPICS, max_rows=100_000)


def window(moment: Any) -> Any:
    return moment - timedelta(seconds=moment.second % 10, microseconds=moment.microsecond)


def test_events_counts_everything_once_but_for_the_quarantine() -> None:
    rows, result = played()
    expected = {kind: len(rows[topic]) for topic, kind in KINDS.items()}
    aside = [row for row in rows["readings"] if row["device"] == IN_QUARANTINE]
    expected["reading"] -= len(aside)
    assert aside
    assert {row["kind"]: row["events"] for row in result.views["events"]} == expected
    assert len(result.topics["readings.quarantine"]) == len(aside)


def test_queries_are_searches_with_and_without_a_click() -> None:
    rows, result = played()
    clicked = {row["search"] for row in rows["clicks"]}
    expected = collections.Counter(row["query"] for row in rows["searches"])
    found = collections.Counter(row["query"] for row in rows["searches"] if row["search"] in clicked)
    assert {row["query"]: (row["searches"], row["clicked"]) for row in result.views["queries"]} == {
        query: (count, found[query]) for query, count in expected.items()
    }
    without = {row["search"] for row in result.topics["searches-without-click"]}
    assert without == {row["search"] for row in rows["searches"]} - clicked


def orders(rows: dict[str, list[Row]]) -> dict[str, Row]:
    """Each order once."""
    return {row["order"]: row for row in rows["orders"]}


def price(rows: dict[str, list[Row]], product: str, at: Any) -> Decimal:
    """What a product cost at a time, as is known in the end."""
    valid = [p for p in rows["prices"] if p["product"] == product and p["since"] <= at]
    found: Decimal = max(enumerate(valid), key=lambda found: (found[1]["since"], found[0]))[1]["price"]
    return found


def test_bestsellers_are_orders_at_the_price_of_their_time() -> None:
    rows, result = played()
    revenue: dict[str, Decimal] = collections.defaultdict(Decimal)
    assert len(orders(rows)) < len(rows["orders"])
    for order in orders(rows).values():
        revenue[order["product"]] += order["pieces"] * price(rows, order["product"], order["at"])
    best = sorted(revenue.items(), key=lambda item: (-item[1], item[0]))[:5]
    found = sorted(result.views["bestsellers"], key=lambda row: row["place"])
    assert [(row["product"], row["revenue"]) for row in found] == best


def test_large_orders_are_told_of() -> None:
    rows, result = played()
    told = result.topics["shop.alerts.large-orders"]
    assert all(row["amount"] >= 200 for row in told)
    large = {
        name
        for name, order in orders(rows).items()
        if order["pieces"] * price(rows, order["product"], order["at"]) >= 200
    }
    # A price that became known late may have made one small again.
    assert large and large <= {row["order"] for row in told}


def test_traffic_counts_every_page_view_late_ones_too() -> None:
    rows, result = played()
    expected = collections.Counter(window(row["at"]) for row in rows["page_views"])
    found: collections.Counter[Any] = collections.Counter()
    for row in result.views["traffic"]:
        found[row["window_start"]] += row["views"]
    assert found == expected
    assert {row["country"] for row in result.views["traffic"]} > {"unknown", "Norway"}


def test_climate_goes_by_corrected_clocks_and_puts_aside_what_is_late() -> None:
    rows, result = played()
    clocks = {device.name: device.clock for device in DEVICES}
    late = collections.Counter(row["device"] for row in result.topics["late-readings"])
    for device, clock in clocks.items():
        happened = [
            row["measured"] - timedelta(microseconds=clock) for row in rows["readings"] if row["device"] == device
        ]
        mine = [row for row in result.views["climate"] if row["device"] == device]
        counted = sum(row["readings"] for row in mine)
        assert counted == (0 if device == IN_QUARANTINE else len(happened) - late[device])
        if device != IN_QUARANTINE:
            # Receiving takes up to the three seconds of a round, which is all that correcting cannot take away.
            assert abs((min(row["window_start"] for row in mine) - window(min(happened))).total_seconds()) <= 10
    assert set(late) == {"gate"}


def test_the_ledger_balances() -> None:
    _, result = played()
    for entry in result.ledger:
        parts = ("accepted", "late_dropped", "late_aside", "duplicates", "quarantined")
        assert entry["read"] == sum(entry[part] for part in parts)
    assert sum(entry["late_dropped"] for entry in result.ledger) == 0


@pytest.mark.parametrize("topic", KINDS)
def test_every_kind_is_there(topic: str) -> None:
    rows, _ = played()
    assert pa.Table.from_pylist(rows[topic]).num_rows > 50


def test_bots_are_who_searches_twenty_times_in_two_seconds() -> None:
    rows, result = played()
    bursts = 0
    hits = sorted(row["at"] for row in rows["searches"] if row["user"] == BOT)
    while len(hits) >= 20:
        is_burst = hits[19] - hits[0] <= timedelta(seconds=2)
        bursts += is_burst
        hits = hits[20 if is_burst else 1 :]
    assert bursts
    assert [(row["user"], row["bursts"]) for row in result.views["bots"]] == [(BOT, bursts)]


def test_wanted_are_the_newest_products_that_saved_searches_found() -> None:
    rows, result = played()
    products = {(row["title"], row["price"]) for row in rows["products"]}
    wanted = result.views["wanted"]
    assert len(wanted) > 10
    for row in wanted:
        words = set(row["title"].split())
        assert (row["title"], row["price"]) in products
        plain = re.fullmatch(r"\w+( \w+)?", row["query"])
        if plain:
            assert set(row["query"].split()) <= words
        excluded = re.fullmatch(r"(\w+) -(\w+)", row["query"])
        if excluded:
            assert excluded[1] in words and excluded[2] not in words
        cheap = re.fullmatch(r"(\w+) price:<(\d+)", row["query"])
        if cheap:
            assert cheap[1] in words and row["price"] < int(cheap[2])
