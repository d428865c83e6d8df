"""One database of a shop: its tables in the river, a cache, a full-text index and a lake, all from one log."""

import os

import riverrun as rr

SHOP = os.environ.get("SHOP", "sqlite:shop.db")  # or postgresql://…
CACHE = os.environ.get("CACHE")  # redis://localhost/0?prefix=shop:, where there is one; else the river's own store
SCHEMA = "shop." if SHOP.startswith("sqlite:") else "shop.public."  # SQLite has no schemas, so its topics have none

flow = rr.Flow("one_database")
products = flow.table(f"{SCHEMA}products", "sku string, title string, kind string, price double", key="sku")
sales = flow.table(f"{SCHEMA}sales", "sale bigint, sku string, pieces bigint, day string", key="sale")

flow.view("shelf", products)
flow.view("cached", products.select("sku", "price"), to=CACHE)
flow.view("found", products, to="search:")
flow.view("lake", sales, to="delta:lake/sales", partition_by="day")

sold = sales.join(products, on="sku").with_columns(worth="pieces * price")
flow.view("kinds", sold.group("kind").agg(pieces=rr.sum("pieces"), worth=rr.sum("worth")))
