"""race.py: two requests change the price of the same product, and each writes twice: to the database, then to a cache.

Whoever writes last wins, in each of the two places by itself. Nothing here is left to chance: a request can be interrupted
between its two writes, and every order in which that can happen is tried. A file stands for the cache, so that it runs
anywhere; with a server it would be the same."""

import json
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

from shop_database import Database

from flow import SHOP

CACHE = Path("written-twice.json")  # what the application itself has put into its cache
Write = Callable[[str, float], None]


def request(sku: str, price: float, database: Write, cache: Write) -> Iterator[str]:
    """A request that writes twice. It may be interrupted wherever it yields."""
    database(sku, price)
    yield "database"
    cache(sku, price)
    yield "cache"


def race(order: str, sku: str, database: Write, cache: Write) -> list[tuple[str, str, float]]:
    """Requests A and B, which go on in the order of these letters; who wrote what where."""
    prices = {"A": 10.0, "B": 12.0}
    running = {name: request(sku, price, database, cache) for name, price in prices.items()}
    return [(name, next(running[name]), prices[name]) for name in order]


def orders() -> list[str]:
    """Every way in which two requests of two steps can go on beside each other."""
    return sorted({"".join(one) for one in permutations("AABB")})


def main() -> None:
    database = Database(SHOP)
    cached: dict[str, float] = {}

    def to_database(sku: str, price: float) -> None:
        database.run("update products set price = ? where sku = ?", price, sku)

    for number, order in enumerate(orders()):
        sku = f"p{number:02}"  # a product for each
        steps = race(order, sku, to_database, cached.__setitem__)
        [(price,)] = database.run("select price from products where sku = ?", sku)
        lost = "" if price == cached[sku] else "   <- the cache is wrong, until somebody changes the price again"
        told = ", ".join(f"{name} {where} {value:.0f}" for name, where, value in steps)
        print(f"{sku}: {told}: database {price:.0f}, cache {cached[sku]:.0f}{lost}")
    CACHE.write_text(json.dumps(cached))
    database.close()


if __name__ == "__main__":
    main()
