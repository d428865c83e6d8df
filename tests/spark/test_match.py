"""Patterns on Spark: the same matches as in one process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import riverrun as rr
from riverrun.testing import run_flow

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def flow() -> rr.Flow:
    made = rr.Flow("watch")
    rows = made.stream("ticks", "symbol string, price double, at timestamp", time="at", lateness="10 seconds")
    define = {"down": "price < prev(price)", "up": "price > last(down.price)"}
    measures = {"bottom": "last(down.price)", "n": "count(*)"}
    made.view("dips", rows.match("start down+ up", by="symbol", define=define, measures=measures))
    made.view("silent", rows.match("tick !tick", by="symbol", within="20 seconds", late=rr.correct("1 minute")))
    return made


def epochs() -> list[dict[str, Any]]:
    rows = [
        {"symbol": f"s{number % 5}", "price": float(number * 7 % 11), "at": NOON + timedelta(seconds=number)}
        for number in range(120)
    ]
    rows[10], rows[25] = rows[25], rows[10]
    return [{"ticks": rows[start : start + 40]} for start in range(0, 120, 40)]


@pytest.mark.spark
def test_spark_finds_the_same_matches() -> None:
    here, there = (run_flow(flow(), epochs(), engine=engine) for engine in ("local", "spark"))
    assert here.views["dips"]
    for view in here.views:
        assert sorted(map(str, there.views[view])) == sorted(map(str, here.views[view]))
    assert there.ledger == here.ledger
