"""Examples that databases and stream processors publish for their MATCH_RECOGNIZE, with the results that they print."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import riverrun as rr
from riverrun.testing import run_flow

START = datetime(2026, 1, 1, tzinfo=UTC)
ACME = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
DOWN_UP = {"down": "price < prev(price)", "up": "price > prev(price)"}


def found(prices: dict[str, list[float]], pattern: str, **given: Any) -> list[dict[str, Any]]:
    """The matches in prices of some symbols, one a day; days are counted from 1."""
    flow = rr.Flow("f")
    rows = flow.stream("ticks", "symbol string, price double, day int, at timestamp", time="at")
    flow.view("v", rows.match(pattern, by="symbol", **given))
    made = [
        {"symbol": symbol, "price": float(price), "day": day, "at": START + timedelta(days=day)}
        for symbol, values in prices.items()
        for day, price in enumerate(values, 1)
    ]
    made.sort(key=lambda row: (row["at"], row["symbol"]))
    result = run_flow(flow, [{"ticks": made}], partitions=1).views["v"]
    return sorted(result, key=lambda row: (row["symbol"], row["match_start"]))


def test_w_shapes() -> None:
    (row,) = found(
        {"ACME": ACME}, "strt down+ up+ down+ up+", after="skip to last up", define=DOWN_UP,
        measures={"first": "strt.day", "last": "last(up.day)"},
    )  # fmt: skip
    assert (row["first"], row["last"]) == (5, 13)


def test_decreases_and_increases_of_two_companies() -> None:
    prices: dict[str, list[float]] = {
        "ABCD": [50, 36, 39, 42, 30, 47, 71, 80, 75, 63],
        "XYZ": [89, 24, 37, 63, 65, 56, 50, 54, 30, 32],
    }
    rows = found(
        prices, "before down+ up+", after="skip to last up", define=DOWN_UP,
        measures={
            "first": "before.day", "last": "last(up.day)", "rows": "count(*)", "downs": "count(down.*)",
            "ups": "count(up.*)",
        },
    )  # fmt: skip
    assert [(r["symbol"], r["first"], r["last"], r["rows"], r["downs"], r["ups"]) for r in rows] == [
        ("ABCD", 1, 4, 4, 1, 2), ("ABCD", 4, 8, 5, 1, 3), ("XYZ", 1, 5, 5, 1, 3), ("XYZ", 5, 8, 4, 2, 1),
        ("XYZ", 8, 10, 3, 1, 1),
    ]  # fmt: skip


def test_a_price_that_falls_until_it_rises_once() -> None:
    (row,) = found(
        {"ACME": [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]}, "start_row price_down+ price_up",
        after="skip to last price_up",
        define={
            "price_down": "(last(price_down.price, 1) is null and price_down.price < start_row.price)"
            " or price_down.price < last(price_down.price, 1)",
            "price_up": "price_up.price > last(price_down.price)",
        },
        measures={"start": "start_row.day", "bottom": "last(price_down.day)", "end": "last(price_up.day)"},
    )  # fmt: skip
    assert (row["start"], row["bottom"], row["end"]) == (5, 8, 9)


def test_the_longest_time_for_which_an_average_stays_low() -> None:
    rows = found(
        {"ACME": [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]}, "a+ b", define={"a": "avg(a.price) < 15"},
        within="365 days", measures={"start": "first(a.day)", "end": "last(a.day)", "mean": "avg(a.price)"},
    )  # fmt: skip
    assert [(row["start"], row["end"], row["mean"]) for row in rows] == [(1, 4, 14.5), (6, 11, 13.5)]
