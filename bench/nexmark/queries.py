"""The queries of Nexmark as flows, each beside its SQL for a batch over the same events.

Auctions and persons have unique ids, so they are tables as well as streams. A bid has no id. Where SQL joins bids with
something else whatever the time between, the flow says how far apart in time they can be (`AuctionHouse.bidding`,
`acting`), which changes no result: the SQL has no such bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.nexmark.events import AUCTION, BID, PERSON, SIDE, AuctionHouse
from riverrun.flow import Flow
from riverrun.flow.aggregates import avg, count, max, min, sum
from riverrun.flow.aggregates import distinct as different
from riverrun.flow.stream import Stream
from riverrun.flow.table import Table
from riverrun.flow.windows import hopping, session, tumbling

LATENESS = "4 seconds"


class Events:
    """What a query reads: the topics as streams and as tables."""

    def __init__(self, flow: Flow, house: AuctionHouse) -> None:
        self._flow = flow
        self._house = house

    @property
    def persons(self) -> Stream:
        return self._flow.stream(PERSON, lateness=LATENESS)

    @property
    def auctions(self) -> Stream:
        return self._flow.stream(AUCTION, lateness=LATENESS)

    @property
    def bids(self) -> Stream:
        return self._flow.stream(BID, lateness=LATENESS)

    @property
    def person_table(self) -> Table:
        return self._flow.table(PERSON, lateness=LATENESS)

    @property
    def auction_table(self) -> Table:
        return self._flow.table(AUCTION, lateness=LATENESS)

    @property
    def side_table(self) -> Table:
        return self._flow.table(SIDE)

    @property
    def offers(self) -> Stream:
        """Auctions with the bids that came while they were open."""
        pairs = self.auctions.join(self.bids, on={"id": "auction"}, within=("0 s", self._house.longest), suffix="_bid")
        return pairs.where("date_time_bid <= expires")

    @property
    def bidding(self) -> timedelta:
        return self._house.bidding

    @property
    def acting(self) -> timedelta:
        return self._house.acting


@dataclass(frozen=True)
class Query:
    """One query: its name, what makes its node, and its SQL."""

    name: str
    node: Callable[[Events], Stream | Table]
    sql: str

    def flow(self, house: AuctionHouse, name: str | None = None) -> Flow:
        """The flow, with a view that has its name."""
        flow = Flow(name or self.name)
        flow.view(flow.name, self.node(Events(flow, house)))
        return flow


QUERIES: dict[str, Query] = {}


def query(sql: str) -> Callable[[Callable[[Events], Any]], Callable[[Events], Any]]:
    def declare(node: Callable[[Events], Any]) -> Callable[[Events], Any]:
        QUERIES[node.__name__] = Query(node.__name__, node, sql)
        return node

    return declare


@query("select auction, bidder, price, date_time, extra from bid")
def q0(events: Events) -> Stream:
    return events.bids.select("auction", "bidder", "price", "date_time", "extra")


@query("select auction, bidder, cast(0.908 as double) * price as price, date_time, extra from bid")
def q1(events: Events) -> Stream:
    return events.bids.select("auction", "bidder", "0.908d * price as price", "date_time", "extra")


@query("select auction, price from bid where auction % 123 = 0")
def q2(events: Events) -> Stream:
    return events.bids.where("auction % 123 = 0").select("auction", "price")


@query("""
    select a.seller, a.id, p.name, p.city, p.state from auction a join person p on a.seller = p.id
    where a.category = 10 and p.state in ('OR', 'ID', 'CA')
""")
def q3(events: Events) -> Table:
    sellers = events.person_table.where("state in ('OR', 'ID', 'CA')")
    auctions = events.auction_table.where("category = 10")
    return auctions.join(sellers, on={"seller": "id"}).select("seller", "id", "name", "city", "state")


@query("""
    select category, avg(final) as price from (
        select a.id, a.category, max(b.price) as final from auction a join bid b on a.id = b.auction
        where b.date_time between a.date_time and a.expires group by a.id, a.category
    ) group by category
""")
def q4(events: Events) -> Table:
    winning = events.offers.group(["id", "category"]).agg(final=max("price"))
    return winning.group("category").agg(price=avg("final"))


@query("""
    with counted as (
        select auction, start as window_start, start + interval 10 second as window_end, count(*) as bids
        from (
            select auction, unnest(generate_series(
                time_bucket(interval 2 second, date_time) - interval 8 second, time_bucket(interval 2 second, date_time),
                interval 2 second
            )) as start from bid
        ) group by auction, start
    )
    select * from counted qualify rank() over (partition by window_start order by bids desc) = 1
""")
def q5(events: Events) -> Table:
    counted = events.bids.window(hopping("10 seconds", "2 seconds"), by="auction").agg(bids=count())
    return counted.top(1, by="bids desc", per=["window_start", "window_end"], ties=True)


@query("""
    with winning as (
        select a.seller, b.price, b.date_time from auction a join bid b on a.id = b.auction
        where b.date_time between a.date_time and a.expires
        qualify row_number() over (partition by a.id order by b.price desc, b.date_time) = 1
    ), recent as (
        select * from winning qualify row_number() over (partition by seller order by date_time desc) <= 11
    )
    select seller, avg(price) as price from recent group by seller
""")
def q6(events: Events) -> Table:
    winning = events.offers.top(1, by="price desc, date_time_bid", per="id")
    recent = winning.top(11, by="date_time_bid desc", per="seller")
    return recent.group("seller").agg(price=avg("price"))


@query("""
    select time_bucket(interval 10 second, date_time) as window_start, auction, bidder, price, date_time, extra from bid
    qualify rank() over (partition by window_start order by price desc) = 1
""")
def q7(events: Events) -> Table:
    bids = events.bids.select(
        "date_trunc('minute', date_time) + cast(second(date_time) div 10 * 10 as int) * interval 1 second as window_start",
        *("auction", "bidder", "price", "date_time", "extra"),
    )
    return bids.top(1, by="price desc", per="window_start", ties=True)


@query("""
    with sellers as (select distinct seller, time_bucket(interval 10 second, date_time) as window_start from auction)
    select distinct p.id, p.name, s.window_start, s.window_start + interval 10 second as window_end
    from person p join sellers s on p.id = s.seller and time_bucket(interval 10 second, p.date_time) = s.window_start
""")
def q8(events: Events) -> Table:
    persons = events.persons.window(tumbling("10 seconds"), by=["id", "name"]).agg(persons=count())
    sellers = events.auctions.window(tumbling("10 seconds"), by="seller").agg(auctions=count())
    on = {"id": "seller", "window_start": "window_start", "window_end": "window_end"}
    return persons.join(sellers, on=on).select("id", "name", "window_start", "window_end")


@query("""
    select a.*, b.bidder, b.price, b.channel, b.url, b.date_time as date_time_bid, b.extra as extra_bid
    from auction a join bid b on a.id = b.auction where b.date_time between a.date_time and a.expires
    qualify row_number() over (partition by a.id order by b.price desc, b.date_time) = 1
""")
def q9(events: Events) -> Table:
    return events.offers.top(1, by="price desc, date_time_bid", per="id")


@query("""
    with marked as (
        select bidder, date_time, coalesce(date_time - lag(date_time) over each >= interval 10 second, true) as begins
        from bid window each as (partition by bidder order by date_time)
    ), numbered as (
        select bidder, date_time, count(*) filter (begins) over (partition by bidder order by date_time) as number from marked
    )
    select bidder, min(date_time) as window_start, max(date_time) + interval 10 second as window_end, count(*) as bids
    from numbered group by bidder, number
""")
def q11(events: Events) -> Table:
    return events.bids.window(session("10 seconds"), by="bidder").agg(bids=count())


@query("""
    select b.auction, b.bidder, b.price, b.date_time, s.value from bid b join side s on b.auction % 10000 = s.key
""")
def q13(events: Events) -> Stream:
    bids = events.bids.with_columns(place="auction % 10000")
    return bids.join(events.side_table, on={"place": "key"}).select("auction", "bidder", "price", "date_time", "value")


@query("""
    with priced as (select * replace (cast(0.908 as double) * price as price), hour(date_time) as hour from bid)
    select auction, bidder, price,
        case when hour between 8 and 18 then 'day' when hour <= 6 or hour >= 20 then 'night' else 'other' end as day_time,
        date_time, extra, length(extra) - length(replace(extra, 'c', '')) as letters
    from priced where price > 1000000 and price < 50000000
""")
def q14(events: Events) -> Stream:
    bids = events.bids.with_columns(price="0.908d * price", hour="hour(date_time)")
    return bids.where("price > 1000000 and price < 50000000").select(
        *("auction", "bidder", "price"),
        "case when hour between 8 and 18 then 'day' when hour <= 6 or hour >= 20 then 'night' else 'other' end as day_time",
        *("date_time", "extra", "length(extra) - length(replace(extra, 'c', '')) as letters"),
    )


TIERS = {"low": "price < 10000", "middle": "price >= 10000 and price < 1000000", "high": "price >= 1000000"}
_TIER_COUNTS = ", ".join(f"count(*) filter ({tier}) as bids_{name}" for name, tier in TIERS.items())
_TIER_DISTINCT = ", ".join(
    f"count(distinct {what}) as {what}s, "
    + ", ".join(f"count(distinct {what}) filter ({tier}) as {what}s_{name}" for name, tier in TIERS.items())
    for what in ("bidder", "auction")
)


def _by_tier() -> dict[str, Any]:
    return {"bids": count(), **{f"bids_{name}": count(where=tier) for name, tier in TIERS.items()}}


def _distinct_by_tier() -> dict[str, Any]:
    made = {}
    for what in ("bidder", "auction"):
        made[f"{what}s"] = different(what)
        made |= {f"{what}s_{name}": different(what, where=tier) for name, tier in TIERS.items()}
    return made


@query(f"""
    select cast(date_time as date) as day, count(*) as bids, {_TIER_COUNTS}, {_TIER_DISTINCT} from bid group by day
""")
def q15(events: Events) -> Table:
    bids = events.bids.with_columns(day="cast(date_time as date)")
    return bids.group("day").agg(**_by_tier(), **_distinct_by_tier())


@query(f"""
    select channel, cast(date_time as date) as day, max(hour(date_time) * 60 + minute(date_time)) as last_minute,
        count(*) as bids, {_TIER_COUNTS}, {_TIER_DISTINCT}
    from bid group by channel, day
""")
def q16(events: Events) -> Table:
    bids = events.bids.with_columns(day="cast(date_time as date)")
    last = max("hour(date_time) * 60 + minute(date_time)")
    return bids.group(["channel", "day"]).agg(last_minute=last, **_by_tier(), **_distinct_by_tier())


@query(f"""
    select auction, cast(date_time as date) as day, count(*) as bids, {_TIER_COUNTS}, min(price) as least, max(price) as most,
        avg(price) as mean, cast(sum(price) as bigint) as total
    from bid group by auction, day
""")
def q17(events: Events) -> Table:
    bids = events.bids.with_columns(day="cast(date_time as date)")
    prices = {"least": min("price"), "most": max("price"), "mean": avg("price"), "total": sum("price")}
    return bids.group(["auction", "day"]).agg(**_by_tier(), **prices)


@query("select * from bid qualify row_number() over (partition by bidder, auction order by date_time desc) = 1")
def q18(events: Events) -> Table:
    return events.bids.latest(["bidder", "auction"])


@query("""
    select *, cast(row_number() over (partition by auction order by price desc, date_time) as int) as rank from bid
    qualify rank <= 10
""")
def q19(events: Events) -> Table:
    return events.bids.top(10, by="price desc, date_time", per="auction", rank="rank")


@query("""
    select b.*, a.item, a.description, a.initial_bid, a.reserve, a.date_time as date_time_auction, a.expires, a.seller,
        a.category, a.extra as extra_auction
    from bid b join auction a on b.auction = a.id where a.category = 10
""")
def q20(events: Events) -> Stream:
    auctions = events.auctions.where("category = 10")
    reach = (-events.bidding, events.bidding)
    return events.bids.join(auctions, on={"auction": "id"}, within=reach, suffix="_auction")


_CHANNEL_ID = """
    case lower(channel) when 'apple' then '0' when 'google' then '1' when 'facebook' then '2' when 'baidu' then '3'
        else split_part(url, 'channel_id=', 2) end
"""


@query(f"""
    select auction, bidder, price, channel, {_CHANNEL_ID} as channel_id from bid
    where lower(channel) in ('apple', 'google', 'facebook', 'baidu') or contains(url, 'channel_id=')
""")
def q21(events: Events) -> Stream:
    known = "lower(channel) in ('apple', 'google', 'facebook', 'baidu') or contains(url, 'channel_id=')"
    return events.bids.where(known).select("auction", "bidder", "price", "channel", f"{_CHANNEL_ID} as channel_id")


@query("""
    select auction, bidder, price, channel, split_part(url, '/', 4) as dir1, split_part(url, '/', 5) as dir2,
        split_part(url, '/', 6) as dir3
    from bid
""")
def q22(events: Events) -> Stream:
    folders = [f"split_part(url, '/', {number + 3}) as dir{number}" for number in (1, 2, 3)]
    return events.bids.select("auction", "bidder", "price", "channel", *folders)


@query("""
    select b.*, p.name, p.email, p.credit_card, p.city, p.state, p.date_time as date_time_person, p.extra as extra_person,
        a.id, a.item, a.description, a.initial_bid, a.reserve, a.date_time as date_time_auction, a.expires, a.category,
        a.extra as extra_auction
    from bid b join person p on p.id = b.bidder join auction a on a.seller = b.bidder
""")
def q23(events: Events) -> Stream:
    apart = events.acting
    bids = events.bids.join(events.persons, on={"bidder": "id"}, within=(-apart, apart), suffix="_person")
    reach = (-2 * apart, 2 * apart)
    return bids.join(events.auctions, on={"bidder": "seller"}, within=reach, suffix="_auction")
