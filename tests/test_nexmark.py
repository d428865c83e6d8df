"""Nexmark: the generator is what it claims to be, and every query gives what DuckDB gives for the same events."""

from __future__ import annotations

from datetime import timedelta
from functools import cache

import polars as pl
import pyarrow as pa
import pytest
from bench import effort
from bench.figure import WrongResult
from bench.nexmark.answers import WEIGHT, batch, verify
from bench.nexmark.events import AuctionHouse
from bench.nexmark.queries import QUERIES, Query

from riverrun.testing import Result, run_flow

HOUSE = AuctionHouse(rate=1000)  # slower than usual: windows, sessions and days change
EVENTS, EPOCHS = 20_000, 4
FEWER = {"q23": 5_000}  # each of its events is in several wide rows


@cache
def events(count: int) -> dict[str, pa.Table]:
    return {"side": HOUSE.side(), **HOUSE.events(0, count)}


def processed(query: Query, count: int, epochs: int, delays: dict[str, int]) -> Result:
    """The events in so many epochs; a topic with a delay is that many epochs behind the others."""
    flow = query.flow(HOUSE)
    step = count // epochs
    script = [{"side": HOUSE.side()} if "side" in flow.topics() else {}]
    script += [{} for _ in range(epochs + max(delays.values(), default=0))]
    for number in range(epochs):
        for name, rows in HOUSE.events(number * step, (number + 1) * step).items():
            if name in flow.topics():
                script[1 + number + delays.get(name, 0)][name] = rows
    return run_flow(flow, script)


def compare(name: str, count: int, epochs: int, delays: dict[str, int]) -> None:
    query = QUERIES[name]
    result = processed(query, count, epochs, delays)
    found = result.views[name].arrow
    found = found.append_column(WEIGHT, pa.array([1] * found.num_rows))
    expected = batch(events(count), 1).sql(query.sql).to_arrow_table()
    assert verify(name, [found], expected) > 0
    assert sum(entry["late_dropped"] for entry in result.ledger) == 0


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_what_a_batch_gives(name):
    compare(name, FEWER.get(name, EVENTS), EPOCHS, {})


@pytest.mark.parametrize("delays", [{"auction": 1, "person": 2}, {"bid": 2}], ids=["auctions late", "bids late"])
@pytest.mark.parametrize("name", ["q3", "q4", "q6", "q8", "q9", "q20", "q23"])
def test_joined_topics_may_come_one_after_the_other(name, delays):
    """By a second of event time for each epoch, which is within the lateness."""
    compare(name, 4_000, 4, delays)


def test_efforts_name_queries():
    assert set(effort.FULL.queries) == set(QUERIES)
    assert set(effort.TINY.queries) < set(effort.QUICK.queries) < set(QUERIES)


def test_a_wrong_answer_is_refused():
    rows = pa.table({"a": [1, 2, 2], "x": [1.0, 2.0, 2.0]})
    weighted = rows.append_column(WEIGHT, pa.array([1, 1, 1]))
    assert verify("q", [weighted, weighted.slice(0, 1), weighted.slice(0, 0)], pa.concat_tables([rows, rows[:1]])) == 4
    taken_back = pa.table({"a": [1], "x": [1.0], WEIGHT: [-1]})
    assert verify("q", [weighted, taken_back], rows[1:]) == 2
    nearly = rows.set_column(1, "x", pa.array([1.0, 2.0, 2.0 + 1e-12]))
    assert verify("q", [weighted], nearly) == 3
    for wrong, message in (
        (rows[:2], "3 rows; 0 of 2 are missing, 0 not"),
        (rows.set_column(0, "a", [[1, 2, 3]]), "3 rows; 1 of 3 are missing, 0 not"),
        (rows.set_column(1, "x", pa.array([1.0, 2.0, 2.1])), "1 values of x are wrong"),
    ):
        with pytest.raises(WrongResult, match=message):
            verify("q", [weighted], wrong)
    with pytest.raises(WrongResult, match="never there"):
        verify("q", [taken_back], rows)
    with pytest.raises(WrongResult, match="columns a, x, expected a"):
        verify("q", [weighted], rows.select(["a"]))


@pytest.mark.parametrize("cut", [1, 49, 50, 777, 2999])
def test_any_range_of_events_gives_the_same_rows(cut):
    whole, parts = HOUSE.events(0, 3000), (HOUSE.events(0, cut), HOUSE.events(cut, 3000))
    for name, rows in whole.items():
        assert pa.concat_tables([part[name] for part in parts]).combine_chunks().equals(rows.combine_chunks())


def frames(count: int) -> tuple[pl.DataFrame, ...]:
    return tuple(pl.from_arrow(events(count)[name]) for name in ("person", "auction", "bid"))


def test_shares_of_events_and_ids():
    person, auction, bid = frames(EVENTS)
    assert (len(person), len(auction), len(bid)) == (EVENTS // 50, EVENTS // 50 * 3, EVENTS // 50 * 46)
    for rows in (person, auction):
        assert rows["id"].to_list() == list(range(1000, 1000 + len(rows)))
    assert sorted(auction["category"].unique()) == [10, 11, 12, 13, 14]
    times = pl.concat([rows["date_time"] for rows in (person, auction, bid)]).sort()
    assert times.n_unique() == EVENTS
    assert times.diff().drop_nulls().unique().to_list() == [timedelta(milliseconds=1)]


def test_hot_choices_have_their_probabilities():
    person, auction, bid = frames(EVENTS)
    last_person = (pl.col("date_time") - person["date_time"][0]).dt.total_milliseconds() // 50
    hot_seller = pl.col("seller") - 1000 == last_person // 100 * 100
    hot_bidder = pl.col("bidder") - 1000 == last_person // 100 * 100 + 1
    last_auction = last_person * 3 + 2
    hot_auction = pl.col("auction") - 1000 == last_auction // 100 * 100
    assert auction.select(hot_seller.mean()).item() == pytest.approx(3 / 4, abs=0.03)
    assert bid.select(hot_bidder.mean()).item() == pytest.approx(3 / 4, abs=0.02)
    assert bid.select(hot_auction.mean()).item() == pytest.approx(1 / 2, abs=0.02)
    assert (bid["channel"].is_in(["Google", "Facebook", "Baidu", "Apple"])).mean() == pytest.approx(1 / 2, abs=0.02)
    assert bid.select((pl.col("auction") - 1000 > last_auction).mean()).item() > 0.02  # not created yet


def test_prices_and_sizes():
    _, auction, bid = frames(EVENTS)
    prices = bid["price"]
    assert prices.min() >= 100 and prices.max() <= 10**8
    assert prices.median() == pytest.approx(10**5, rel=0.2)
    assert (auction["reserve"] > auction["initial_bid"]).all()
    length = auction["expires"] - auction["date_time"]
    assert timedelta(milliseconds=1) <= length.min() and length.max() <= HOUSE.longest
    size = auction.select(pl.sum_horizontal(pl.col(pl.String).str.len_bytes()) + 8 * 6).to_series()
    assert size.mean() == pytest.approx(500, rel=0.05)
    assert bid["url"].str.contains(r"^https://www\.nexmark\.com/[a-z]{5}/[a-z]{5}/[a-z]{5}/item").all()
