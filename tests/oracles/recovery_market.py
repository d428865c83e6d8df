"""What the flow with joins must hold after all its input, by plain Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

from riverrun.river import River

Row = dict[str, Any]
KEYS = {"orders": "n", "customers": "customer", "products": "product"}


def changes(batch: int, size: int = 12) -> dict[str, list[Row]]:
    """Orders that come, change and go, customers who move, products that change their price or are no more."""
    rng = random.Random(batch)
    found: dict[str, list[Row]] = {name: [] for name in KEYS}
    for _ in range(size):
        order: Row = {"n": rng.randrange(60), "customer": f"c{rng.randrange(6)}", "product": f"p{rng.randrange(5)}"}
        found["orders"].append({**order, "quantity": rng.randrange(1, 9)})
    for number in rng.sample(range(6), 2):
        found["customers"].append({"customer": f"c{number}", "city": rng.choice(["Oslo", "Rome", "Bern"])})
    for number in rng.sample(range(5), 2):
        found["products"].append({"product": f"p{number}", "price": rng.randrange(1, 20)})
    for name, rows in found.items():
        gone = rng.choice(rows)[KEYS[name]]
        rows.append({KEYS[name]: gone, "_deleted": True})
    return found


def expected(batches: list[dict[str, list[Row]]]) -> dict[str, Any]:
    """What views and topics hold."""
    tables: dict[str, dict[Any, Row]] = {name: {} for name in KEYS}
    for batch in batches:
        for name, rows in batch.items():
            for row in rows:
                tables[name][row[KEYS[name]]] = row
    now = {name: {k: row for k, row in rows.items() if not row.get("_deleted")} for name, rows in tables.items()}
    cities: dict[Any, list[Row]] = defaultdict(list)
    for n, order in now["orders"].items():
        product = now["products"].get(order["product"])
        if product:
            city = now["customers"].get(order["customer"], {}).get("city")
            cities[city].append({**order, "n": n, "price": product["price"]})
    totals = {
        city: (
            len(lines),
            sum(line["quantity"] * line["price"] for line in lines),
            max(line["price"] for line in lines),
        )
        for city, lines in cities.items()
    }
    places = {}
    for city, lines in cities.items():
        ordered = sorted(lines, key=lambda line: (-line["quantity"] * line["price"], line["n"]))
        places.update({(city, place): line["n"] for place, line in enumerate(ordered[:3], 1)})
    held = {(line["n"], line["quantity"], line["price"], city) for city, lines in cities.items() for line in lines}
    return {
        "lines": held,
        "cities": totals,
        "largest": places,
        "sizes": Counter(lines for lines, _, _ in totals.values()),
        "cities-log": {city: total for city, total in totals.items() if city is not None},
        "lines-log": held,
    }


def held(river: River) -> dict[str, Any]:
    """What views and topics hold now."""
    cities = river.view("cities").rows()
    lines = river.view("lines").rows()
    return {
        "lines": {_line(row) for row in lines},
        "cities": {row["city"]: _totals(row) for row in cities},
        "largest": {(row["city"], row["place"]): row["n"] for row in river.view("largest").rows()},
        "sizes": Counter({row["lines"]: row["cities"] for row in river.view("sizes").rows()}),
        "cities-log": {row["city"]: _totals(row) for row in _newest(river, "cities-log")},
        "lines-log": {_line(row) for row in _newest(river, "lines-log")},
    }


def _line(row: Row) -> tuple[Any, ...]:
    return (row["n"], row["quantity"], row["price"], row["city"])


def _totals(row: Row) -> tuple[int, int, int]:
    return (row["lines"], row["paid"], row["dearest"])


def _newest(river: River, topic: str) -> list[Row]:
    """The table that a changelog leaves; of one key all rows are in one partition."""
    newest = {row["_key"]: row for row in river.topic(topic).read().to_pylist()}
    return [row for row in newest.values() if not row["_deleted"]]
