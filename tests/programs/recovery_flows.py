"""The flows that the recovery tests kill: a shop with windows, a market with joins, and a watch with patterns."""

import os

from riverrun.flow import Flow, Table
from riverrun.flow.aggregates import count
from riverrun.flow.aggregates import max as most
from riverrun.flow.aggregates import sum as total
from riverrun.flow.windows import side, tumbling

ORDERS = "n bigint, user string, amount string, at timestamp"
SCHEMAS = {
    "orders": ("n bigint, customer string, product string, quantity bigint", "n"),
    "customers": ("customer string, city string", "customer"),
    "products": ("product string, price bigint", "product"),
}

WATCHED = {
    "events": ("n bigint, user string, kind string, title string, at timestamp", "user"),
    "rules": ("rule_id string, pattern string, define string, within string", "rule_id"),
    "searches": ("query_id string, query string", "query_id"),
}


def shop(factor: int = 1) -> Flow:
    """Windows with late rows aside, groups, two depths, derived topics of a stream and of a table. With another factor,
    another flow: sums per user are so many times what they are."""
    flow = Flow("shop")
    texts = flow.stream("orders", ORDERS, time="at", key="user", lateness="10 seconds", idle=None)
    orders = texts.with_columns(amount="cast(amount as double)")  # fails for an amount that is no number
    windows = orders.where("amount > 0").window(tumbling("1 minute"), by="user", late=side("late-orders"))
    minutes = windows.agg(n=count(), total=total("amount * 2"))
    flow.view("revenue", minutes)
    flow.view("best", minutes.group("user").agg(minutes=count(), total=total("total")))
    totals = orders.group("user").agg(n=count(), total=total(f"amount * {factor}"))
    flow.view("totals", totals)
    flow.view("large", orders.where("amount >= 9"))
    flow.topic("large-orders", orders.where("amount >= 9").select("n", "user", "amount + 1 as more"), key="user")
    flow.topic("totals-log", totals, key="user")
    return flow


def market() -> Flow:
    """Three tables joined, an aggregate and a top on them, and their topics."""
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


def everywhere(factor: int = 1) -> Flow:
    """The same rows in the home store and in every other one that the environment names, as NAME=ADDRESS in each line."""
    flow = Flow("everywhere")
    texts = flow.stream("orders", ORDERS, time="at", key="user", lateness="10 seconds", idle=None)
    orders = texts.with_columns(amount="cast(amount as double)")
    totals = orders.group("user").agg(n=count(), total=total(f"amount * {factor}"))
    large = orders.where("amount >= 9")
    flow.view("totals", totals)
    flow.view("large", large)
    flow.topic("totals-log", totals, key="user")
    for line in os.environ["STORES"].splitlines():
        name, _, address = line.partition("=")
        flow.view(f"totals-{name}", totals, to=address)
        if not address.startswith("delta:"):
            flow.view(f"large-{name}", large, to=address)
        else:
            flow.view(f"large-{name}", large, to=f"{address}-large")
    return flow


def _captured(flow: Flow, name: str) -> Table:
    """A table of the capture that the environment names, with a view of it."""
    table = flow.table(f"{os.environ['CAPTURED']}{name}")
    flow.view(name, table)
    return table.with_columns(all="1")


def bank() -> Flow:
    """The tables of pgbench as they are captured, and what they add up to: always the same in all of them."""
    flow = Flow("bank")
    notes = _captured(flow, "notes").group("all").agg(notes=total("amount"))
    for name, balance in (("accounts", "abalance"), ("tellers", "tbalance"), ("branches", "bbalance")):
        sums = _captured(flow, f"pgbench_{name}").group("all").agg(**{name: total(balance)})
        notes = notes.join(sums, "all")
    flow.view("sums", notes)
    return flow


def books() -> Flow:
    """The tables of ledger.py as they are captured. What they add up to is zero; weighed by the account, it is another
    number after each transaction, and the same in both."""
    flow = Flow("books")
    _captured(flow, "tags")
    accounts, entries = _captured(flow, "accounts").group("all"), _captured(flow, "ledger").group("all")
    sums = accounts.agg(balance=total("balance"), accounts=total("balance * id"))
    flow.view("sums", sums.join(entries.agg(delta=total("delta"), entries=total("delta * account")), "all"))
    return flow


def watch() -> Flow:
    """A match, rules and stored searches over the same events, and a topic of what the rules find."""
    flow = Flow("watch")
    schema, _ = WATCHED["events"]
    events = flow.stream("events", schema, time="at", key="user", lateness="10 seconds", idle=None)
    rules, searches = (flow.table(name, WATCHED[name][0], key=WATCHED[name][1]) for name in ("rules", "searches"))
    define = {"a": "kind = 'a'", "b": "kind = 'b' and n > a.n"}
    measures = {"first": "a.n", "last": "b.n"}
    flow.view("pairs", events.match("a -> b", by="user", within="20 seconds", define=define, measures=measures))
    hits = events.match_rules(rules, by="user")
    flow.view("hits", hits, key=["rule_id", "match_id"])
    flow.topic("hits-log", hits, key="rule_id")
    flow.view("wanted", events.percolate(searches, text="title").select("n", "query_id"))
    return flow
