"""What happens in the shop: a pure function of a seed, a start and a rate, in slots of a fifth of a second.

Every slot has dice of its own, so it does not matter how often somebody asks. A row is made in the slot in which it
happens and given out in the one in which it arrives: late page views, clicks that follow their search, orders sent twice,
devices that catch up after an outage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SLOT = 200_000  # µs
SECOND = 1_000_000
DAY = 86_400 * SECOND
TIME = pa.timestamp("us", "UTC")
PRICE = pa.decimal128(8, 2)

USERS = pa.array([f"user-{number:03}" for number in range(200)])
_IN_THE_HOUSE = ("teapot", "kettle", "mug", "lamp", "chair", "desk", "clock", "radio", "umbrella", "lantern")
_AT_SEA = ("rope", "anchor", "compass", "oar", "net", "hook", "sail", "flag", "bell", "map")
PRODUCTS = pa.array([*_IN_THE_HOUSE, *_AT_SEA])
_COLOURS = ("red", "blue", "green", "white", "black", "yellow")
_STUFFS = ("wooden", "copper", "linen", "enamel", "steel", "glass")
QUERIES = pa.array(["tea", "light", "sit", "time", "rain", "boat", "fish", "gift"])
COUNTRIES = pa.array(["Norway", "Italy", "Iceland", "Ireland", "Portugal"])
PLANS = pa.array(["free", "paid"])

# Topic → what the view `events` calls its rows.
KINDS = {
    "page_views": "page view",
    "searches": "search",
    "clicks": "click",
    "orders": "order",
    "readings": "reading",
    "products": "new product",
}
TOPICS = (*KINDS, "profiles", "prices", "saved")

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Device:
    """A sensor: how wrong its clock is, when it falls silent for good, and how long it is cut off in each 40 seconds.

    One without `stamps` does not say when it sent a row, so nobody can tell how wrong its clock is.
    """

    name: str
    clock: int = 0
    silent_after: int | None = None
    outage: int = 0
    stamps: bool = True


OUTAGES = 40 * SECOND
DEVICES = (
    Device("door"),
    Device("hall", clock=-8 * SECOND),
    Device("oven", clock=180 * SECOND),
    Device("roof", clock=3600 * SECOND),
    Device("yard", clock=2 * SECOND),
    Device("cellar", silent_after=20 * SECOND),
    Device("gate", outage=15 * SECOND),
    Device("attic", clock=365 * DAY, stamps=False),
)

SHARES = {"page_views": 0.6, "searches": 0.14, "orders": 0.06, "readings": 0.1}  # of the rate; clicks follow searches
NEW_PRODUCTS, SAVED_CHANGES = 2.0, 0.5  # in a second
BOT, BOT_EVERY, BOT_LASTS, BOT_SEARCHES = "bot-7", 20 * SECOND, 2 * SECOND, 6  # … searches in each slot
CLICKED, CLICKED_TWICE, LATE_VIEWS, SENT_TWICE = 0.6, 0.1, 0.02, 0.05


@dataclass
class Shop:
    """Rows of every topic, as they arrive. `rate` is about how many there are in a second."""

    start: int
    seed: int = 1
    rate: float = 300.0
    slot: int = 0
    _waiting: dict[str, list[pa.Table]] = field(default_factory=dict)

    def until(self, end: int) -> dict[str, pa.Table]:
        """The rows that arrive from where the last call ended until `end`, whole slots only; topics without rows are
        left out."""
        arrived: dict[str, list[pa.Table]] = {}
        while self.start + (self.slot + 1) * SLOT <= end:
            for topic, rows in self._step().items():
                arrived.setdefault(topic, []).append(rows)
        return {topic: pa.concat_tables(parts) for topic, parts in arrived.items()}

    def _step(self) -> dict[str, pa.Table]:
        """One slot: what happens is put with what is on its way, and what arrives is taken out."""
        begin, dice = self.start + self.slot * SLOT, np.random.default_rng([self.seed, self.slot])
        searches, clicks = self._searches(begin, dice)
        happened = {
            "profiles": self._profiles(begin, dice),
            "prices": self._prices(begin, dice),
            "page_views": self._page_views(begin, dice),
            "searches": searches,
            "clicks": clicks,
            "orders": self._orders(begin, dice),
            "readings": self._readings(begin, dice),
            "products": self._products(begin, dice),
            "saved": self._saved(begin, dice),
        }
        self.slot += 1
        arriving = {}
        for topic, rows in happened.items():
            waiting = pa.concat_tables([*self._waiting.pop(topic, []), rows])
            due = pc.less(waiting.column("arrives"), begin + SLOT)
            later = waiting.filter(pc.invert(due))
            if later.num_rows:
                self._waiting[topic] = [later]
            now = waiting.filter(due)
            if now.num_rows:
                arriving[topic] = now.sort_by("arrives").drop_columns(["arrives"])
        return arriving

    def _count(self, topic: str, dice: np.random.Generator) -> int:
        return int(dice.poisson(self.rate * SHARES[topic] * SLOT / SECOND))

    def _page_views(self, begin: int, dice: np.random.Generator) -> pa.Table:
        at = _times(begin, self._count("page_views", dice), dice)
        late = dice.random(len(at)) < LATE_VIEWS
        arrives = at + np.where(late, dice.integers(5 * SECOND, 20 * SECOND, len(at)), 0)
        users, products = _some(USERS, len(at), dice), _some(PRODUCTS, len(at), dice)
        return _table(arrives, user=users, product=products, at=_stamps(at))

    def _searches(self, begin: int, dice: np.random.Generator) -> tuple[pa.Table, pa.Table]:
        at = _times(begin, self._count("searches", dice), dice)
        search = _names("s", self.slot, len(at))
        users, queries = _some(USERS, len(at), dice), _some(QUERIES, len(at), dice)
        searches = _table(at, search=search, user=users, query=queries, at=_stamps(at))
        (chosen,) = np.nonzero(dice.random(len(at)) < CLICKED)
        clicked = at[chosen] + np.minimum(dice.exponential(3 * SECOND, len(chosen)), 9 * SECOND).astype(np.int64)
        products = _some(PRODUCTS, len(chosen), dice)
        (twice,) = np.nonzero(dice.random(len(chosen)) < CLICKED_TWICE)
        again = np.concatenate([np.arange(len(chosen)), twice])
        at_again = np.concatenate([clicked, clicked[twice] + 300_000])
        if (begin - self.start) % BOT_EVERY >= BOT_EVERY - BOT_LASTS:
            searches = pa.concat_tables([searches, self._hammering(begin, dice)])
        clicks = _table(at_again, search=search.take(chosen[again]), product=products.take(again), at=_stamps(at_again))
        return searches, clicks

    def _hammering(self, begin: int, dice: np.random.Generator) -> pa.Table:
        """A program that searches on and on, and clicks nothing."""
        at = _times(begin, BOT_SEARCHES, dice)
        bot, queries = pa.array([BOT] * len(at)), _some(QUERIES, len(at), dice)
        return _table(at, search=_names("b", self.slot, len(at)), user=bot, query=queries, at=_stamps(at))

    def _products(self, begin: int, dice: np.random.Generator) -> pa.Table:
        at = _times(begin, int(dice.poisson(NEW_PRODUCTS * SLOT / SECOND)), dice)
        titles = [
            f"{dice.choice(_COLOURS)} {dice.choice(_STUFFS)} {product}" for product in _some(PRODUCTS, len(at), dice)
        ]
        price = pa.array(dice.integers(200, 9_000, len(at)) / 100).cast(PRICE)
        names = _names("p", self.slot, len(at))
        return _table(at, product=names, title=pa.array(titles, pa.string()), price=price, at=_stamps(at))

    def _saved(self, begin: int, dice: np.random.Generator) -> pa.Table:
        """Everybody's search at first; then somebody wants something else."""
        users = USERS if self.slot == 0 else _some(USERS, int(dice.poisson(SAVED_CHANGES * SLOT / SECOND)), dice)
        queries = [_wish(dice, product) for product in _some(PRODUCTS, len(users), dice).to_pylist()]
        saved = pc.binary_join_element_wise("saved", users, "-")
        return _table(np.full(len(users), begin), saved=saved, user=users, query=pa.array(queries, pa.string()))

    def _orders(self, begin: int, dice: np.random.Generator) -> pa.Table:
        at = _times(begin, self._count("orders", dice), dice)
        (twice,) = np.nonzero(dice.random(len(at)) < SENT_TWICE)
        orders = _table(
            at,
            order=_names("o", self.slot, len(at)),
            user=_some(USERS, len(at), dice),
            product=_some(PRODUCTS, len(at), dice),
            pieces=pa.array(dice.integers(1, 4, len(at)), pa.int32()),
            at=_stamps(at),
        )
        again = orders.take(twice)
        arrives = pc.add(again.column("arrives"), SECOND)
        return pa.concat_tables([orders, again.set_column(again.num_columns - 1, "arrives", arrives)])

    def _readings(self, begin: int, dice: np.random.Generator) -> pa.Table:
        at = _times(begin, self._count("readings", dice), dice)
        device = dice.integers(0, len(DEVICES), len(at))
        celsius = np.round(18 + device + 3 * np.sin(at / (60 * SECOND)) + dice.normal(0, 0.3, len(at)), 2)
        arrives = at.copy()
        kept = np.ones(len(at), np.bool_)
        for number, one in enumerate(DEVICES):
            mine, passed = device == number, at - self.start
            if one.silent_after is not None:
                kept &= ~(mine & (passed >= one.silent_after))
            if one.outage:
                into = passed % OUTAGES - (OUTAGES - one.outage)
                arrives = np.where(mine & (into >= 0), at - into + one.outage, arrives)
        clock = np.array([one.clock for one in DEVICES], np.int64)[device]
        stamps = np.array([one.stamps for one in DEVICES])[device]
        return _table(
            arrives,
            device=pa.array([one.name for one in DEVICES]).take(device),
            celsius=pa.array(celsius),
            measured=_stamps(at + clock),
            sent=pc.if_else(pa.array(stamps), _stamps(arrives + clock), pa.scalar(None, TIME)),
        ).filter(pa.array(kept))

    def _profiles(self, begin: int, dice: np.random.Generator) -> pa.Table:
        """Everybody at first, apart from every twentieth; then about one change in a second."""
        if self.slot == 0:
            users = USERS.filter(pa.array(np.arange(len(USERS)) % 20 != 19))
        else:
            users = _some(USERS, int(dice.poisson(SLOT / SECOND)), dice)
        count = len(users)
        countries, plans = _some(COUNTRIES, count, dice), _some(PLANS, count, dice)
        return _table(np.full(count, begin), user=users, country=countries, plan=plans)

    def _prices(self, begin: int, dice: np.random.Generator) -> pa.Table:
        """All of them at first; then a change every two seconds, half of them known only four seconds later."""
        if self.slot == 0:
            products, since = PRODUCTS, np.full(len(PRODUCTS), begin)
            arrives = np.full(len(PRODUCTS), begin)
        else:
            count = int(dice.poisson(0.5 * SLOT / SECOND))
            products, since = _some(PRODUCTS, count, dice), _times(begin, count, dice)
            arrives = since + np.where(dice.random(count) < 0.5, 4 * SECOND, 0)
        price = pa.array(dice.integers(200, 9_000, len(products)) / 100).cast(PRICE)
        return _table(arrives, product=products, price=price, since=_stamps(since))


def _wish(dice: np.random.Generator, product: str) -> str:
    """A search as people save them."""
    colour, stuff = dice.choice(_COLOURS), dice.choice(_STUFFS)
    return str(
        dice.choice(
            [
                product,
                f"{colour} {product}",
                f'"{stuff} {product}"',
                f"{product} -{stuff}",
                f"{product} price:<{dice.integers(20, 60)}",
                f"({colour} OR {dice.choice(_COLOURS)}) {product}",
            ]
        )
    )


def _table(arrives: Integers, **columns: Any) -> pa.Table:
    return pa.table({**columns, "arrives": pa.array(arrives, pa.int64())})


def _times(begin: int, count: int, dice: np.random.Generator) -> Integers:
    return np.sort(dice.integers(begin, begin + SLOT, count))


def _some(values: pa.Array, count: int, dice: np.random.Generator) -> pa.Array:
    """So many of the values; the first ones are more popular."""
    return values.take(pa.array((dice.random(count) ** 2 * len(values)).astype(np.int64)))


def _names(letter: str, slot: int, count: int) -> pa.Array:
    return pc.binary_join_element_wise(f"{letter}{slot}", pa.array(np.arange(count)).cast(pa.string()), "-")


def _stamps(micros: Integers) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(TIME)
