"""Queries of Nexmark in Spark's own streaming API, where it can say them; over the same topics, and without a sink.

Windows are written when they are closed, as ours are; what is corrected is written with every epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.flow.native import NativeQuery, Offsets, source
from riverrun.river import River
from riverrun.spark.session import cores

LATENESS = "4 seconds"
WINDOW = "10 seconds"

Topics = Callable[[str, str], DataFrame]
"""Columns of a topic, as DDL, as a stream."""


@dataclass(frozen=True)
class Native:
    """A query of Spark, and how it writes."""

    frame: Callable[[Topics], DataFrame]
    mode: str


NATIVE: dict[str, Native] = {}


def native(mode: str) -> Callable[[Callable[[Topics], DataFrame]], Callable[[Topics], DataFrame]]:
    def declare(frame: Callable[[Topics], DataFrame]) -> Callable[[Topics], DataFrame]:
        NATIVE[frame.__name__] = Native(frame, mode)
        return frame

    return declare


def run_native(
    spark: SparkSession, river: River, name: str, cuts: Sequence[dict[str, Offsets]], checkpoint: str
) -> list[float]:
    """Run it over everything that is in the topics, epoch by epoch; gives their seconds."""
    query = NATIVE[name]

    def topic(name: str, columns: str) -> DataFrame:
        return source(spark, river.path, name, columns, cores(), [cut[name] for cut in cuts])

    running = NativeQuery(spark, query.frame(topic), checkpoint, lambda: None, mode=query.mode)
    try:
        return running.seconds()
    finally:
        running.stop()


@native("append")
def q0(topic: Topics) -> DataFrame:
    return topic("bid", "auction bigint, bidder bigint, price bigint, date_time timestamp, extra string")


@native("append")
def q1(topic: Topics) -> DataFrame:
    bids = topic("bid", "auction bigint, bidder bigint, price bigint, date_time timestamp, extra string")
    return bids.selectExpr("auction", "bidder", "0.908d * price as price", "date_time", "extra")


@native("append")
def q2(topic: Topics) -> DataFrame:
    return topic("bid", "auction bigint, price bigint").where("auction % 123 = 0")


@native("append")
def q3(topic: Topics) -> DataFrame:
    persons = topic("person", "id bigint, name string, city string, state string")
    auctions = topic("auction", "id bigint, seller bigint, category bigint").withColumnRenamed("id", "auction")
    sellers = persons.where("state in ('OR', 'ID', 'CA')")
    joined = auctions.where("category = 10").join(sellers, F.col("seller") == F.col("id"))
    return joined.select("seller", "auction", "name", "city", "state")


@native("append")
def q5(topic: Topics) -> DataFrame:
    bids = topic("bid", "auction bigint, date_time timestamp").withWatermark("date_time", LATENESS)
    counted = bids.groupBy(F.window("date_time", WINDOW, "2 seconds"), "auction").agg(F.count("*").alias("bids"))
    # A window of 2 seconds around the last moment of each hopping one has that one alone.
    ranked = counted.groupBy(F.window(F.window_time("window"), "2 seconds"))
    most = ranked.agg(F.max("bids").alias("most"), F.collect_list(F.struct("auction", "bids")).alias("all"))
    return most.selectExpr("window", "inline(filter(all, one -> one.bids = most))")


@native("append")
def q7(topic: Topics) -> DataFrame:
    columns = "auction bigint, bidder bigint, price bigint, date_time timestamp, extra string"
    bids = topic("bid", columns).withWatermark("date_time", LATENESS)
    others = topic("bid", "price bigint, date_time timestamp").withWatermark("date_time", LATENESS)
    highest = others.groupBy(F.window("date_time", WINDOW)).agg(F.max("price").alias("highest"))
    within = "price = highest and date_time >= window.start and date_time < window.end"
    return bids.join(highest, F.expr(within))


@native("append")
def q8(topic: Topics) -> DataFrame:
    persons = topic("person", "id bigint, name string, date_time timestamp").withWatermark("date_time", LATENESS)
    auctions = topic("auction", "seller bigint, date_time timestamp").withWatermark("date_time", LATENESS)
    new = persons.groupBy(F.window("date_time", WINDOW), "id", "name").count().drop("count")
    sellers = auctions.groupBy(F.window("date_time", WINDOW), F.col("seller").alias("id")).count().drop("count")
    return new.join(sellers, ["window", "id"])


@native("append")
def q11(topic: Topics) -> DataFrame:
    bids = topic("bid", "bidder bigint, date_time timestamp").withWatermark("date_time", LATENESS)
    return bids.groupBy(F.session_window("date_time", WINDOW), "bidder").agg(F.count("*").alias("bids"))


@native("update")
def q17(topic: Topics) -> DataFrame:
    bids = topic("bid", "auction bigint, price bigint, date_time timestamp")
    tiers = [F.expr(f"count(*) filter (where {tier})") for tier in _TIERS]
    prices = [F.min("price"), F.max("price"), F.avg("price"), F.sum("price")]
    return bids.groupBy("auction", F.to_date("date_time").alias("day")).agg(F.count("*"), *tiers, *prices)


_TIERS = ("price < 10000", "price >= 10000 and price < 1000000", "price >= 1000000")


@native("update")
def q18(topic: Topics) -> DataFrame:
    bids = topic(
        "bid",
        "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp, extra string",
    )
    row = F.struct("price", "channel", "url", "date_time", "extra")
    return bids.groupBy("bidder", "auction").agg(F.max_by(row, "date_time").alias("bid"))
