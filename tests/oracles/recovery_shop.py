"""What the flow of the recovery tests must hold after all its input, by plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from riverrun.river import River

BASE = datetime(2026, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


def orders(batch: int, size: int = 30) -> list[Row]:
    """Twenty seconds of orders, out of order within the lateness. From batch 1 on, two of them are a day late."""
    rng = random.Random(batch)
    rows = [
        {
            "n": batch * 1000 + i,
            "user": f"u{rng.randrange(5)}",
            "amount": str(rng.randrange(10)),
            "at": BASE + timedelta(seconds=batch * 20 + i * 20 / size - rng.random() * 8),
        }
        for i in range(size)
    ]
    late = [
        {"n": batch * 1000 + 900 + i, "user": f"u{i}", "amount": "1", "at": BASE - timedelta(days=1)} for i in range(2)
    ]
    return rows + late if batch else rows


def held(river: River) -> dict[str, Any]:
    """What views and topics hold now."""

    def view(name: str, key: str | tuple[str, ...], *values: str) -> dict[Any, tuple[Any, ...]]:
        names = (key,) if isinstance(key, str) else key
        rows = river.view(name).rows()
        found = {tuple(row[k] for k in names): tuple(row[v] for v in values) for row in rows}
        assert len(found) == len(rows)
        return found

    log = {row["user"]: (row["n"], row["total"]) for row in river.topic("totals-log").read().to_pylist()}
    return {
        "revenue": view("revenue", ("user", "window_start"), "n", "total"),
        "best": view("best", "user", "minutes", "total"),
        "totals": view("totals", "user", "n", "total"),
        "large": sorted(row["n"] for row in river.view("large").rows()),
        "large-orders": sorted((row["n"], row["more"]) for row in river.topic("large-orders").read().to_pylist()),
        "totals-log": log,
        "late-orders": sorted(row["n"] for row in river.topic("late-orders").read().to_pylist()),
    }


def expected(rows: Iterable[Row]) -> dict[str, Any]:
    """The same, from all rows at once."""
    revenue: dict[Any, list[float]] = defaultdict(lambda: [0, 0.0])
    totals: dict[Any, list[float]] = defaultdict(lambda: [0, 0.0])
    best: dict[Any, list[float]] = defaultdict(lambda: [0, 0.0])
    large, late = [], []
    for row in rows:
        amount = float(row["amount"])
        _add(totals[row["user"]], amount)
        if amount >= 9:
            large.append((row["n"], amount + 1))
        if row["at"] < BASE - timedelta(hours=1):
            late.append(row["n"])
        elif amount > 0:
            _add(revenue[row["user"], row["at"].replace(second=0, microsecond=0)], amount * 2)
    for (user, _), (_, total) in revenue.items():
        _add(best[user], total)
    by_user = {user: tuple(pair) for user, pair in totals.items()}
    return {
        "revenue": {key: tuple(pair) for key, pair in revenue.items()},
        "best": {(user,): tuple(pair) for user, pair in best.items()},
        "totals": {(user,): pair for user, pair in by_user.items()},
        "large": sorted(n for n, _ in large),
        "large-orders": sorted(large),
        "totals-log": by_user,
        "late-orders": sorted(late),
    }


def _add(pair: list[float], amount: float) -> None:
    pair[0] += 1
    pair[1] += amount


def check_ledger(ledger: list[Row], rows: list[Row]) -> None:
    """Every entry balances, and every row is in it once."""
    kinds = ("accepted", "late_dropped", "late_aside", "duplicates", "quarantined")
    for entry in ledger:
        assert entry["read"] == sum(entry[kind] for kind in kinds), entry
    by_node = {(entry["node"].split("-")[0], entry["input"]): entry for entry in ledger if "best" not in entry["node"]}
    assert by_node["stream", "topic"]["read"] == len(rows)
    positive = [row for row in rows if float(row["amount"]) > 0]
    late = [row for row in positive if row["at"] < BASE - timedelta(hours=1)]
    assert by_node["window", "in"]["read"] == len(positive)
    assert by_node["window", "in"]["late_aside"] == len(late)
