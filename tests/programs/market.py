"""The flow with joins that the recovery tests kill: three tables joined, an aggregate and a top on it, and their topics."""

from riverrun.flow import Flow
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import max as most
from riverrun.flow.aggregates import sum as total

SCHEMAS = {
    "orders": ("n bigint, customer string, product string, quantity bigint", "n"),
    "customers": ("customer string, city string", "customer"),
    "products": ("product string, price bigint", "product"),
}


def market() -> Flow:
    flow = Flow("market")
    orders, customers, products = (flow.table(name, schema, key=key) for name, (schema, key) in SCHEMAS.items())
    lines = orders.join(customers, "customer", how="left").join(products, "product")
    flow.view("lines", lines)
    cities = lines.group("city").agg(lines=count(), paid=total("quantity * price"), dearest=most("price"))
    flow.view("cities", cities)
    flow.view("largest", lines.top(3, "quantity * price desc, n", per="city", rank="place"))
    flow.view("sizes", cities.group("lines").agg(cities=count()))
    flow.topic("cities-log", cities.where("city is not null"), key="city")
    flow.topic("lines-log", lines, key=["n", "customer", "product"])
    return flow
