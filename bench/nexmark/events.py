"""The events of the auction house. Each depends on its number alone, so any range of numbers can be made anywhere.

Of 50 events one is a person, three are auctions and 46 are bids. Sellers, bidders and the auctions they bid on are
recent ones, and a few of them are hot.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from riverrun.log.spec import TopicSpec

Numbers = npt.NDArray[np.int64]

PERSON = TopicSpec(
    "person",
    "id bigint, name string, email string, credit_card string, city string, state string, date_time timestamp, extra string",
    key="id",
    time="date_time",
)
AUCTION = TopicSpec(
    "auction",
    "id bigint, item string, description string, initial_bid bigint, reserve bigint, date_time timestamp, expires timestamp, "
    "seller bigint, category bigint, extra string",
    key="id",
    time="date_time",
)
BID = TopicSpec(
    "bid",
    "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp, extra string",
    key="auction",
    time="date_time",
)
SIDE = TopicSpec("side", "key bigint, value string", key="key")
SIDE_ROWS = 10_000

ROUND, AUCTIONS = 50, 3  # events, and auctions among them; one is a person, the others are bids
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
ACTIVE_PERSONS, ACTIVE_AUCTIONS, AHEAD = 1000, 100, 10  # chosen from; and ids that do not exist yet
HOT_EVERY = 100
FUTURE = 1666  # events in which as many auctions begin as are active
BASE = 1_767_225_595_000_000  # five seconds before a new year, so that days and windows change early

_FIRST = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent"]
_CITIES += ["Cheyenne"]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_CHANNELS = 10_000
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100
_WORDS = 4096  # texts of each kind


class Dice:
    """Random numbers for each of some events: the n-th throw for an event depends on n and its number alone."""

    def __init__(self, event: Numbers) -> None:
        self._seed = event.astype(np.uint64) << np.uint64(6)
        self._throws = 0

    def uniform(self) -> npt.NDArray[np.float64]:
        """In [0, 1)."""
        self._throws += 1
        mixed = (self._seed + np.uint64(self._throws)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53

    def below(self, bound: int | Numbers) -> Numbers:
        """In [0, bound)."""
        return (self.uniform() * bound).astype(np.int64)

    def one_of(self, texts: pl.Series) -> pl.Series:
        return texts.gather(self.below(len(texts)))

    def price(self) -> Numbers:
        return np.rint(10 ** (6 * self.uniform()) * 100).astype(np.int64)

    def padding(self, used: pl.Series | int, size: int) -> pl.Series:
        """Text that makes an event about `size` bytes, a fifth of the text more or less."""
        lacking = np.maximum(size - np.asarray(used, np.int64), 0)
        length = (lacking * (0.8 + 0.4 * self.uniform())).astype(np.int64)
        return pl.select(self.one_of(_texts(_AUCTION_BYTES * 2, "extra")).str.head(pl.Series(length))).to_series()


@dataclass(frozen=True)
class AuctionHouse:
    """Events by their number, `rate` of them in a second of event time."""

    rate: int = 100_000

    def events(self, start: int, stop: int) -> dict[str, pa.Table]:
        """The rows of every topic for the events [start, stop)."""
        return {
            "person": self.persons(start, stop),
            "auction": self.auctions(start, stop),
            "bid": self.bids(start, stop),
        }

    def persons(self, start: int, stop: int) -> pa.Table:
        event = _numbers(start, stop, 0, 1)
        dice = Dice(event)
        rows = pl.DataFrame(
            {
                "id": FIRST_ID + event // ROUND,
                "name": dice.one_of(_names()),
                "email": dice.one_of(_texts(7, "email")) + "@" + dice.one_of(_texts(5, "host")) + ".com",
                "credit_card": pl.select(
                    pl.concat_str(
                        (pl.Series(dice.below(10_000)).cast(pl.String).str.zfill(4) for _ in range(4)), separator=" "
                    )
                ).to_series(),
                "city": dice.one_of(pl.Series(_CITIES)),
                "state": dice.one_of(pl.Series(_STATES)),
                "date_time": self._at(event),
            }
        )
        return _padded(rows, dice, 8, _PERSON_BYTES)

    def auctions(self, start: int, stop: int) -> pa.Table:
        event = _numbers(start, stop, 1, 1 + AUCTIONS)
        dice = Dice(event)
        initial = dice.price()
        at = self._at(event)
        last_person = event // ROUND
        seller = np.where(dice.below(4) > 0, last_person // HOT_EVERY * HOT_EVERY, _person(dice, last_person))
        length = (1 + dice.below(self._longest_ms)) * 1000
        rows = pl.DataFrame(
            {
                "id": FIRST_ID + event // ROUND * AUCTIONS + event % ROUND - 1,
                "item": dice.one_of(_texts(20, "item")),
                "description": dice.one_of(_texts(100, "description")),
                "initial_bid": initial,
                "reserve": initial + dice.price(),
                "date_time": at,
                "expires": at + pl.Series(length).cast(pl.Duration("us")),
                "seller": FIRST_ID + seller,
                "category": FIRST_CATEGORY + dice.below(CATEGORIES),
            }
        )
        return _padded(rows, dice, 8 * 6, _AUCTION_BYTES)

    def bids(self, start: int, stop: int) -> pa.Table:
        event = _numbers(start, stop, 1 + AUCTIONS, ROUND)
        dice = Dice(event)
        last_person, last_auction = event // ROUND, event // ROUND * AUCTIONS + AUCTIONS - 1
        recent = np.maximum(last_auction - ACTIVE_AUCTIONS, 0)
        some_auction = recent + dice.below(last_auction - recent + 1 + AHEAD)
        auction = np.where(dice.below(2) > 0, last_auction // HOT_EVERY * HOT_EVERY, some_auction)
        hot_bidder = last_person // HOT_EVERY * HOT_EVERY + 1
        bidder = np.where(dice.below(4) > 0, hot_bidder, _person(dice, last_person))
        hot = dice.below(2) > 0
        channel = np.where(hot, dice.below(len(_HOT_CHANNELS)), len(_HOT_CHANNELS) + dice.below(_CHANNELS))
        rows = pl.DataFrame(
            {
                "auction": FIRST_ID + auction,
                "bidder": FIRST_ID + bidder,
                "price": dice.price(),
                "channel": _channels()["channel"].gather(channel),
                "url": _channels()["url"].gather(channel),
                "date_time": self._at(event),
            }
        )
        return rows.with_columns(extra=dice.padding(8 * 4, _BID_BYTES)).to_arrow(compat_level=_OLDEST)

    def side(self) -> pa.Table:
        """The table that bids are joined with in q13."""
        key = np.arange(SIDE_ROWS)
        return pl.DataFrame({"key": key, "value": pl.Series(key).cast(pl.String)}).to_arrow(compat_level=_OLDEST)

    def lasting(self, events: int) -> timedelta:
        """The event time that so many events take, rounded up."""
        return timedelta(microseconds=-(-events * 1_000_000 // self.rate))

    @property
    def longest(self) -> timedelta:
        """No auction is open for longer."""
        return timedelta(milliseconds=self._longest_ms)

    @property
    def bidding(self) -> timedelta:
        """A bid is never further from the beginning of its auction, before or after."""
        return self.lasting(ROUND * (HOT_EVERY + ACTIVE_AUCTIONS + AHEAD) // AUCTIONS)

    @property
    def acting(self) -> timedelta:
        """What a person does, as seller or bidder, is never further from their beginning, before or after."""
        return self.lasting(ROUND * (ACTIVE_PERSONS + HOT_EVERY + AHEAD))

    @cached_property
    def _longest_ms(self) -> int:
        return max(2 * (FUTURE * 1000 // self.rate), 1)

    def _at(self, event: Numbers) -> pl.Series:
        return pl.Series(BASE + event * 1_000_000 // self.rate).cast(pl.Datetime("us", "UTC"))


_OLDEST = pl.CompatLevel.oldest()


def _numbers(start: int, stop: int, low: int, high: int) -> Numbers:
    """The events of [start, stop) whose place in their round is in [low, high)."""
    event = np.arange(start, stop)
    place = event % ROUND
    return event[(place >= low) & (place < high)]


def _person(dice: Dice, last: Numbers) -> Numbers:
    """One of the persons that are active, or about to come."""
    active = np.minimum(last + 1, ACTIVE_PERSONS)
    return last + 1 - active + dice.below(active + AHEAD)


def _padded(rows: pl.DataFrame, dice: Dice, fixed: int, size: int) -> pa.Table:
    texts = rows.select(pl.sum_horizontal(pl.col(pl.String).str.len_bytes()).cast(pl.Int64)).to_series()
    return rows.with_columns(extra=dice.padding(texts + fixed, size)).to_arrow(compat_level=_OLDEST)


@cache
def _names() -> pl.Series:
    return pl.Series([f"{first} {last}" for first in _FIRST for last in _LAST])


@cache
def _texts(length: int, kind: str) -> pl.Series:
    """Texts of small letters, others for each kind."""
    letters = Dice(np.arange(_WORDS + length) + zlib.crc32(kind.encode())).below(26) + ord("a")
    text = letters.astype(np.uint8).tobytes().decode()
    return pl.Series([text[at : at + length] for at in range(_WORDS)])


@cache
def _channels() -> pl.DataFrame:
    """Names and addresses; those of the hot ones come first."""
    count = len(_HOT_CHANNELS) + _CHANNELS
    dice = Dice(np.arange(count))
    folders = [dice.one_of(_texts(5, kind)) for kind in ("first", "second", "third")]
    has_id = (dice.below(10) > 0) & (np.arange(count) >= len(_HOT_CHANNELS))
    number = np.arange(count) - len(_HOT_CHANNELS)
    frame = pl.DataFrame({"a": folders[0], "b": folders[1], "c": folders[2], "number": number, "has_id": has_id})
    url = pl.format("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", "a", "b", "c")
    with_id = url + pl.format("&channel_id={}", pl.col("number") * 214_013 % 2_147_483_647)
    return frame.select(
        channel=pl.Series(_HOT_CHANNELS).append(pl.Series([f"channel-{n}" for n in range(_CHANNELS)])),
        url=pl.when("has_id").then(with_id).otherwise(url),
    )
