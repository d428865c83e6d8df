"""data.py [--later]: the database of a shop; with --later a day of changes to it."""

import random
import sys

from shop_database import TABLES, Database

from flow import SHOP

KINDS = {"shoes": "boots", "hats": "hat", "coats": "coat"}
WORDS = ["rain", "rubber", "snow", "sun", "wool", "city"]


def fill(database: Database, count: int = 60) -> None:
    """Products, and a week of sales, in one transaction."""
    rng = random.Random(5)
    with database.transaction():
        for table in TABLES:
            database.run(table)
        for number in range(count):
            kind = rng.choice(list(KINDS))
            title = f"{' '.join(rng.sample(WORDS, 2))} {KINDS[kind]}"
            price = float(rng.randrange(10, 120))
            database.run("insert into products values (?, ?, ?, ?)", f"p{number:02}", title, kind, price)
        for number in range(5 * count):
            _sell(database, rng, number, count, f"2026-01-{25 + number * 7 // (5 * count)}")


def change(database: Database, count: int = 60) -> None:
    """A day later: prices, titles, a product that goes and one that gets another number, sales that were mistakes. Each is
    a transaction."""
    rng = random.Random(6)
    for sku in rng.sample(range(6, count - 2), 15):  # those of the race stay as it left them
        database.run("update products set price = price + ? where sku = ?", float(rng.randrange(1, 9)), f"p{sku:02}")
    database.run("update products set title = 'storm hat, waterproof', kind = 'hats' where sku = 'p07'")
    with database.transaction():  # both or none: nobody sees sales of a product that is not there
        database.run("update products set sku = 'q58' where sku = 'p58'")
        database.run("update sales set sku = 'q58' where sku = 'p58'")
    with database.transaction():
        database.run("delete from sales where sku = 'p59'")
        database.run("delete from products where sku = 'p59'")
    database.run("delete from sales where sale in (3, 4, 5)")
    for number in range(5 * count, 6 * count):
        _sell(database, rng, number, count - 2, "2026-02-01")


def _sell(database: Database, rng: random.Random, number: int, count: int, day: str) -> None:
    sku, pieces = f"p{rng.randrange(count):02}", rng.randint(1, 4)
    database.run("insert into sales values (?, ?, ?, ?)", number, sku, pieces, day)


if __name__ == "__main__":
    database = Database(SHOP)
    (change if "--later" in sys.argv else fill)(database)
    for table in ("products", "sales"):
        print(database.run(f"select count(*) from {table}")[0][0], table)
    database.close()
