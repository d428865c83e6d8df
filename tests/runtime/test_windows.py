"""Windows of whole flows equal the same query in batch, for any order within the lateness and any epochs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oracles.orders import ORDERS, SCHEMA, examples, order
from riverrun.flow import Flow
from riverrun.flow.aggregates import avg, count, distinct, max, min, rate, sum
from riverrun.flow.stream import Stream
from riverrun.flow.windows import WindowKind, correct, hopping, session, sliding, tumbling
from riverrun.testing import assert_same_as_batch, assert_same_batching

PARTITIONS = st.sampled_from([1, 3])
AGGREGATES = """
    count(*) as rows, sum(n) as total, sum(n) filter (amount > 0) as paid, avg(amount) as mean, min(amount) as least,
    max(amount * 2) as most, count(distinct user) as users
"""


def orders(flow: Flow, lateness: str = "8 seconds") -> Stream:
    return flow.stream("orders", SCHEMA, time="at", key="user", lateness=lateness)


def windowed(window: WindowKind, **options: Any) -> Flow:
    flow = Flow("shop")
    table = (
        orders(flow)
        .window(window, by="item", **options)
        .agg(
            rows=count(),
            total=sum("n"),
            paid=sum("n", where="amount > 0"),
            mean=avg("amount"),
            least=min("amount"),
            most=max("amount * 2"),
            users=distinct("user"),
        )
    )
    flow.view("windows", table)
    return flow


def seconds(sql: str) -> str:
    return f"to_timestamp({sql})"


TUMBLING = f"""
    select item, {seconds('floor(epoch("at") / 10) * 10')} as window_start, window_start + interval 10 seconds as window_end,
    {AGGREGATES} from orders group by all
"""
HOPPING = f"""
    select item, {seconds("start")} as window_start, window_start + interval 10 seconds as window_end, {AGGREGATES}
    from (select *, floor(epoch("at") / 4) * 4 - unnest([0, 4, 8]) as start from orders)
    where epoch("at") < start + 10 group by all
"""
SLIDING = f"""
    select t.item, t."at" - interval 10 seconds as window_start, t."at" as window_end, {AGGREGATES}
    from (select distinct item, "at" from orders) t join orders r
    on r.item is not distinct from t.item and r."at" > t."at" - interval 10 seconds and r."at" <= t."at"
    group by t.item, t."at"
"""
SESSION = f"""
    select item, min("at") as window_start, max("at") + interval 5 seconds as window_end, {AGGREGATES} from (
        select *, sum(begins) over (partition by item order by "at") as number from (
            select *, coalesce("at" - lag("at") over (partition by item order by "at") >= interval 5 seconds, true)::int
            as begins from orders))
    group by item, number
"""
KINDS = {
    "tumbling": (tumbling("10 seconds"), TUMBLING),
    "hopping": (hopping("10 seconds", "4 seconds"), HOPPING),
    "sliding": (sliding("10 seconds"), SLIDING),
    "session": (session("5 seconds"), SESSION),
}


@given(ORDERS, st.sampled_from(sorted(KINDS)), st.sampled_from(["final", "update"]), PARTITIONS, st.integers(0, 99))
@examples(12)
def test_windows_equal_the_query(rows: list[Any], kind: str, emit: str, partitions: int, seed: int) -> None:
    window, query = KINDS[kind]
    flow = windowed(window, emit=emit)
    assert_same_as_batch(flow, {"orders": rows}, {"windows": query}, seed=seed, times=2, partitions=partitions)


@given(ORDERS, st.sampled_from(sorted(KINDS)), st.integers(0, 99))
@examples(8)
def test_corrections_make_up_for_any_order(rows: list[Any], kind: str, seed: int) -> None:
    """Rows in any order at all, as the horizon is longer than their times are apart."""
    window, query = KINDS[kind]
    flow = windowed(window, late=correct("2 minutes"))
    assert_same_as_batch(flow, {"orders": rows}, {"windows": query}, seed=seed, times=2, shuffle=False)


def test_without_by_and_with_an_offset() -> None:
    flow = Flow("shop")
    window = tumbling("10 seconds", offset="3 seconds")
    flow.view("windows", orders(flow).window(window).agg(rows=count(), pace=rate("minute")))
    query = f"""
        select {seconds('floor((epoch("at") - 3) / 10) * 10 + 3')} as window_start,
        window_start + interval 10 seconds as window_end, count(*) as rows, count(*) * 6.0 as pace from orders group by all
    """
    rows = [order("ada", s) for s in (0, 2.9, 3, 12.99, 13, 40)]
    assert_same_as_batch(flow, {"orders": rows}, {"windows": query})


def test_batchings_agree_where_the_order_says_first_and_last() -> None:
    from riverrun.flow.aggregates import collect, first, last

    flow = Flow("shop")
    made = orders(flow).window(tumbling("20 seconds"), by="user")
    flow.view("windows", made.agg(opened=first("item"), closed=last("item"), all=collect("n")))
    rows = [
        order(user, s % 40, n, item)
        for n, (user, s, item) in enumerate(zip("abcab" * 6, range(30), ["tea", "rye", None] * 10, strict=False))
    ]
    assert_same_batching(flow, {"orders": rows}, partitions=3, shuffle=True)
