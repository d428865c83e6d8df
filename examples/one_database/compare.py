"""compare.py [RIVER]: what the database says, and what every store says that the flow keeps up."""

import json
import sys

from race import CACHE as WRITTEN_TWICE
from shop_database import Database

import riverrun as rr
from flow import CACHE, SHOP

QUERIES = {
    "shelf": "select sku, title, kind, price from products",
    "cached": "select sku, price from products",
    "found": "select sku, title, kind, price from products",
    "lake": "select sale, sku, pieces, day from sales",
    "kinds": "select kind, sum(pieces), sum(pieces * price) from sales join products using (sku) group by kind",
}


def differing(found: list[tuple], wanted: list[tuple]) -> int:
    """How many rows are in one of them only; numbers are compared as numbers."""
    there, here = ({tuple(_plain(value) for value in row) for row in rows} for rows in (found, wanted))
    return len(there ^ here)


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str) else round(float(value), 6)


def main(path: str = "river") -> None:
    database = Database(SHOP)
    with rr.River(path) as river:
        for name, sql in QUERIES.items():
            view = river.view(name)
            wrong = differing([tuple(row.values()) for row in view.rows()], database.run(sql))
            where = view.spec.to or "the river's own store"
            print(f"{name} ({where}): {len(view)} rows,", f"{wrong} of them DIFFERENT" if wrong else "as the database")
    if not CACHE:
        print("(no CACHE is set, so there is no Redis: `cached` is in the river's own store)")
    if WRITTEN_TWICE.exists():
        prices = dict(database.run("select sku, price from products"))
        wrong = [sku for sku, price in json.loads(WRITTEN_TWICE.read_text()).items() if prices[sku] != price]
        print(f"the cache that requests wrote themselves: wrong for {', '.join(wrong) or 'none'}")
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
