"""Rows beside the version valid at their time, through the public interface: DuckDB's ASOF JOIN over all that came."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from oracles.histories import FAILPOINTS, counted
from oracles.orders import at, examples
from riverrun import ddl
from riverrun.expressions.statement import database
from riverrun.testing import Append, Crash, Process, run_flow
from riverrun.views.columns import rows_of

SALES = "n int, region string, amount int, at timestamp"
RATES = "region string, m int, rate int, since timestamp"
REGIONS = st.sampled_from(["north", "south"])
TIMES = st.integers(0, 40).map(at)
SOLD = st.fixed_dictionaries({"region": st.one_of(REGIONS, st.none()), "amount": st.integers(1, 4), "at": TIMES}).map(
    lambda row: ("sales", row)
)
RATED = st.fixed_dictionaries({"region": REGIONS, "rate": st.integers(0, 3), "since": TIMES}).map(
    lambda row: ("rates", row)
)
ARRIVING = st.lists(st.one_of(SOLD, RATED), min_size=1, max_size=24)
CUTS = st.sets(st.integers(0, 23), max_size=6)
HOW = st.sampled_from(["inner", "left"])


def numbered(arriving: list[Any]) -> list[Any]:
    names = {"sales": "n", "rates": "m"}
    return [(topic, {**row, names[topic]: number}) for number, (topic, row) in enumerate(arriving)]


def invoicing(how: str, late: Any = None, lateness: str = "0 seconds") -> rr.Flow:
    flow = rr.Flow("invoicing")
    sales = flow.stream("sales", SALES, time="at", lateness=lateness)
    rates = flow.table("rates", RATES, key="region", time="since", lateness=lateness)
    priced = sales.as_of(rates.where("rate > 0"), "region", how=how, late=late)
    flow.view("invoices", priced, key="n")
    regions = priced.group("region").agg(rows=rr.count(), tax=rr.sum("amount * rate"), rates=rr.distinct("m"))
    flow.view("regions", regions)
    windows = priced.window(rr.tumbling("10 seconds"), by="rate").agg(rows=rr.count(), total=rr.sum("amount"))
    flow.view("windows", windows)
    flow.topic("invoices-log", priced, key="n")
    return flow


def joined(how: str) -> str:
    """The invoices in DuckDB's SQL, where of versions of one time the last counts, and a rate of 0 is none."""
    return f"""
        select s.region, n, amount, s."at", if(rate = 0, null, m) as m, nullif(rate, 0) as rate,
               if(rate = 0, null, since) as since
        from sales s asof left join
             (from rates qualify row_number() over (partition by region, since order by m desc) = 1) r
             on s.region = r.region and s."at" >= r.since
        where {how == "left"} or rate > 0
    """


def asked(arriving: list[Any], how: str) -> dict[str, list[Any]]:
    """What the views of `invoicing` must hold."""
    invoices = f"({joined(how)})"
    queries = {
        "invoices": f"from {invoices}",
        "regions": "select region, count(*) as rows, sum(amount * rate) as tax, count(distinct m) as rates "
        f"from {invoices} group by region",
        "windows": 'select rate, time_bucket(interval 10 seconds, "at") as window_start, window_start + '
        f"interval 10 seconds as window_end, count(*) as rows, sum(amount) as total from {invoices} group by all",
    }
    return answered(arriving, queries)


def answered(arriving: list[Any], queries: dict[str, str]) -> dict[str, list[Any]]:
    opened = database().cursor()
    for topic, schema in (("sales", SALES), ("rates", RATES)):
        rows = [row for name, row in arriving if name == topic]
        opened.register(topic, pa.Table.from_pylist(rows, schema=ddl.arrow_schema(ddl.parse(schema))))
    found = {name: rows_of(opened.sql(sql).to_arrow_table()) for name, sql in queries.items()}
    opened.close()
    return found


def check(result: Any, wanted: dict[str, list[Any]]) -> None:
    for name, rows in wanted.items():
        plain = [{column: row[column] for column in row if column != "_version"} for row in result.views[name]]
        found, right = counted(plain), counted(rows)
        assert found == right, f"{name}: {found - right} instead of {right - found}"


def cut(arriving: list[Any], cuts: set[int]) -> list[Any]:
    script: list[Any] = []
    for number, (topic, row) in enumerate(arriving):
        script += [Append(topic, [row]), *([Process()] if number in cuts else [])]
    return [*script, Process()]


@given(ARRIVING, CUTS, CUTS, HOW, st.sampled_from(FAILPOINTS))
@examples(10)
def test_late_versions_and_late_rows_within_the_horizon(
    arriving: list[Any], cuts: set[int], others: set[int], how: str, place: str
) -> None:
    """Both come in any order of their times; another cut into epochs, a crash and a replay give the same."""
    flow, arriving = invoicing(how), numbered(arriving)
    first = run_flow(flow, cut(arriving, cuts), partitions=2)
    check(first, asked(arriving, how))
    newest = {row["n"]: row for row in first.topics["invoices-log"]}
    assert counted([row for row in newest.values() if "_deleted" not in row]) == counted(first.views["invoices"])
    again = run_flow(flow, [Crash(at=place), *cut(arriving, others)], partitions=2, shards=1)
    assert again.views == first.views


@given(ARRIVING, CUTS, HOW)
@examples(6)
def test_with_drop_rows_wait_and_are_answered_once(arriving: list[Any], cuts: set[int], how: str) -> None:
    flow, arriving = invoicing(how, rr.drop(), "1 hour"), numbered(arriving)
    found = run_flow(flow, cut(arriving, cuts), partitions=2)
    check(found, asked(arriving, how))
    assert all(change.op == "insert" for epoch in found.changes["invoices"] for change in epoch)
    waiting = run_flow(flow, cut(arriving, cuts), partitions=2, drain=False)
    assert waiting.views["invoices"] == []


@given(ARRIVING, CUTS, st.sampled_from(["inner", "left", "right", "full"]), st.booleans())
@examples(8)
def test_corrections_go_through_other_joins(arriving: list[Any], cuts: set[int], how: str, is_left: bool) -> None:
    """An answer that is taken back takes back the pairs it is in, on either side of a join, and counts in no window."""
    flow, arriving = rr.Flow("invoicing"), numbered(arriving)
    sales = flow.stream("sales", SALES, time="at")
    rates = flow.table("rates", RATES, key="region", time="since")
    priced = sales.as_of(rates, "region", how="left").select("region", "n", "amount", "at", "m", "rate")
    twice = priced.as_of(rates.select("region", "rate as rate_again"), "region", how="left")
    flow.view("twice", twice.select("n", "rate", "rate_again"), key="n")
    large = sales.where("amount > 2").select("region", "n as other", "at as then")
    within = ("-3 s", "8 s")
    pairs = priced.join(large, "region", within, how) if is_left else large.join(priced, "region", within, how)
    flow.view("pairs", pairs.select("region", "n", "rate", "other"))
    windows = pairs.window(rr.tumbling("10 seconds"), by="rate").agg(rows=rr.count(), first=rr.min("n"))
    flow.view("windows", windows)
    flow.view("top", pairs.top(2, "rate desc, n, other", per="region").select("region", "n", "rate", "other"))
    found = run_flow(flow, cut(arriving, cuts), partitions=2)

    invoices = f"({joined('left')})".replace("rate = 0", "false").replace("nullif(rate, 0)", "rate")
    large_rows = '(select region, n as other, "at" as "then" from sales where amount > 2)'
    left, right = (invoices, large_rows) if is_left else (large_rows, invoices)
    times = ('l."at"', 'r."then"') if is_left else ('l."then"', 'r."at"')
    both = f"""
        (select coalesce(l.region, r.region) as region, n, rate, other, coalesce({times[0]}, {times[1]}) as moment
         from {left} l {how} join {right} r on l.region = r.region
         and {times[1]} between {times[0]} - interval 3 seconds and {times[0]} + interval 8 seconds)
    """
    queries = {
        "twice": f"select n, rate, rate as rate_again from {invoices}",
        "pairs": f"select region, n, rate, other from {both}",
        "windows": "select rate, time_bucket(interval 10 seconds, moment) as window_start, window_start + "
        f"interval 10 seconds as window_end, count(*) as rows, min(n) as first from {both} group by all",
        "top": f"select region, n, rate, other from {both} qualify row_number() over "
        "(partition by region order by rate desc nulls last, n nulls first, other nulls first) <= 2",
    }
    check(found, answered(arriving, queries))


def test_what_is_later_than_the_horizon_is_dropped_and_counted() -> None:
    flow = rr.Flow("invoicing")
    sales = flow.stream("sales", SALES, time="at")
    rates = flow.table("rates", RATES, key="region", time="since")
    flow.view("invoices", sales.as_of(rates, "region", late=rr.correct("10 seconds")).select("n", "rate"), key="n")
    sale = {"n": 1, "region": "north", "amount": 1, "at": at(30)}
    rate = {"region": "north", "m": 1, "rate": 1, "since": at(0)}
    script = [
        {"rates": [rate]},
        {"sales": [sale]},
        {"rates": [{**rate, "rate": 2, "since": at(29)}]},  # in time
        {"rates": [{**rate, "rate": 3, "since": at(60)}], "sales": [{**sale, "n": 2, "at": at(60)}]},
        {
            "rates": [{**rate, "rate": 4, "since": at(55)}],
            "sales": [{**sale, "n": 3, "at": at(57)}],
        },  # late, but not too late
        {"rates": [{**rate, "rate": 5, "since": at(30)}], "sales": [{**sale, "n": 4, "at": at(31)}]},  # too late
    ]
    found = run_flow(flow, script)
    assert {row["n"]: row["rate"] for row in found.views["invoices"]} == {1: 2, 2: 3, 3: 4}
    dropped = {entry["input"]: entry["late_dropped"] for entry in found.ledger if entry["node"].startswith("as_of")}
    assert dropped == {"left": 1, "right": 1}


def test_versions_have_ids_and_a_deletion_is_a_version() -> None:
    flow = invoicing("left")
    sale = {"n": 1, "region": "north", "amount": 1, "at": at(5)}
    rate = {"region": "north", "m": 1, "rate": 1, "since": at(0)}
    script = [
        {"rates": [rate]},
        {"sales": [sale, {**sale, "n": 2}]},
        Append("rates", [{"region": "north", "_deleted": True}], after="20 seconds"),
        {"sales": [{**sale, "n": 3, "at": at(10)}, {**sale, "n": 4, "at": at(40)}]},
    ]
    found = {row["n"]: row for row in run_flow(flow, script).views["invoices"]}
    assert [found[n]["rate"] for n in (1, 2, 3, 4)] == [1, 1, 1, None]
    assert found[1]["_version"] == found[2]["_version"] is not None
    assert found[4]["_version"] is None


def test_versions_of_a_computed_table_are_what_epochs_leave_of_it() -> None:
    flow = rr.Flow("invoicing")
    sales = flow.stream("sales", SALES, time="at", lateness="1 hour")
    rates = flow.stream("rates", RATES, time="since", lateness="1 hour")
    flow.view("latest", sales.as_of(rates.latest("region"), "region", how="left").select("n", "rate"), key="n")
    totals = rates.where("rate > 0").group("region").agg(total=rr.sum("rate"))
    flow.view("totals", sales.as_of(totals, "region", how="left").select("n", "total"), key="n")
    made = [{"region": "north", "m": m, "rate": m, "since": at(10 * m)} for m in (1, 2, 3)]
    sold = [{"n": n, "region": "north", "amount": 1, "at": at(10 * n + 5)} for n in range(4)]
    found = run_flow(flow, [{"rates": made[:1]}, {"rates": made[1:2]}, {"sales": sold}, {"rates": made[2:]}])
    assert [row["rate"] for row in found.views["latest"]] == [None, 1, 2, 3]
    assert [row["total"] for row in found.views["totals"]] == [None, 1, 3, 6]


def test_a_lookup_behind_it_takes_back_what_it_gave() -> None:
    """A stream that corrects itself takes back the row with the city it was given, not with today's."""
    flow = rr.Flow("corrected")
    sales = flow.stream("sales", "n int, user string, item string, at timestamp", time="at", lateness="1 hour")
    prices = flow.table("prices", "item string, price int, at timestamp", key="item", time="at")
    cities = flow.table("profiles", "user string, city string", key="user")
    priced = sales.as_of(prices.drop("at"), "item", how="left").drop("_version")
    flow.view("seen", priced.join(cities, "user", how="left"))
    flow.view(
        "cities", priced.join(cities, "user", how="left").group("city").agg(paid=rr.sum("price"), rows=rr.count())
    )
    steps = [
        {"profiles": [{"user": "ada", "city": "Oslo"}], "prices": [{"item": "tea", "price": 3, "at": at(0)}]},
        {"sales": [{"n": 1, "user": "ada", "item": "tea", "at": at(20)}]},
        {"profiles": [{"user": "ada", "city": "Rome"}]},
        {"prices": [{"item": "tea", "price": 4, "at": at(10)}]},
    ]
    found = run_flow(flow, steps)
    assert [row["price"] for row in found.views["seen"]] == [4]
    assert sum(row["rows"] for row in found.views["cities"]) == 1
    assert sum(row["paid"] for row in found.views["cities"]) == 4


def of_computed(*steps: Any, how: str = "left") -> list[tuple[Any, Any]]:
    """Seconds and values that rows of `a` find in a computed table: the last `v` of each key, where it is not 0."""
    flow = rr.Flow("computed")
    rows = flow.stream("a", "k int, at timestamp", time="at", lateness=10)
    last = flow.stream("b", "k int, v int, at timestamp", time="at", lateness=10).latest("k")
    table = last.where("v > 0").select("k", "100 / v as v")
    flow.view("out", rows.as_of(table, on="k", how=how).select("at", "v"))
    return sorted((row["at"], row["v"]) for row in run_flow(flow, list(steps)).views["out"])


def test_a_row_that_leaves_a_computed_table_ends_and_was_there_before() -> None:
    """What was answered before its end stays; from the time of the row that replaced it on there is none."""
    steps: list[Any] = [
        {"b": [{"k": 1, "v": 5, "at": at(1)}]},
        {"a": [{"k": 1, "at": at(2)}]},
        {"b": [{"k": 1, "v": 0, "at": at(3)}]},
        {"a": [{"k": 1, "at": at(2.5)}, {"k": 1, "at": at(4)}]},
        {"b": [{"k": 1, "v": 4, "at": at(6)}]},
        {"a": [{"k": 1, "at": at(7)}]},
    ]
    wanted = [(at(2), 20.0), (at(2.5), 20.0), (at(4), None), (at(7), 25.0)]
    assert of_computed(*steps) == of_computed(Crash(at="host.committed"), *steps) == wanted
    assert of_computed(*steps, how="inner") == [row for row in wanted if row[1] is not None]


def test_a_row_that_goes_without_another_in_its_place_goes_when_that_was_received_until_it_comes_back() -> None:
    flow = rr.Flow("goes")
    rows = flow.stream("a", "k int, at timestamp", time="at", lateness=60)
    table = flow.table("b", "k int, v int, at timestamp", key="k", time="at", lateness=60).top(1, "v desc")
    best = table.group("k").agg(v=rr.max("v"))
    flow.view("out", rows.as_of(best, on="k", how="left").select("at", "v"))

    def asked(*steps: Any) -> list[tuple[Any, Any]]:
        return sorted((row["at"], row["v"]) for row in run_flow(flow, list(steps)).views["out"])

    first = [{"b": [{"k": 1, "v": 5, "at": at(1)}]}, {"a": [{"k": 1, "at": at(2)}]}]
    gone = [*first, {"b": [{"k": 2, "v": 9, "at": at(3)}]}, {"a": [{"k": 1, "at": at(2.5)}, {"k": 1, "at": at(9)}]}]
    assert asked(*gone) == [(at(2), 5), (at(2.5), 5), (at(9), None)]
    back = [*gone, Crash(), {"b": [{"k": 2, "v": 1, "at": at(10)}]}]
    assert asked(*back) == [(at(2), 5), (at(2.5), 5), (at(9), 5)]
