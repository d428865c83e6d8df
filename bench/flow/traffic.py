"""The events flows are measured on: about 100 bytes each, of `keys` users, evenly spread, at a steady rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.log.topic import Topic
from riverrun.river import River

SCHEMA = "user string, device bigint, amount double, quantity bigint, at timestamp, note string"
FIRST = 1_700_000_040_000_000  # a full minute
NOTE = 33  # letters, which make it 100 bytes
APPEND = 50_000


@dataclass(frozen=True)
class Traffic:
    """Rows by their number: every user once, then users at random. `rate` is events per second of event time."""

    keys: int
    rate: int = 50_000

    def rows(self, start: int, stop: int) -> pa.Table:
        """Rows [start, stop). They depend on their numbers only if cut at multiples of `APPEND`."""
        users = np.concatenate([self._users(at, min(at + APPEND, stop)) for at in range(start, stop, APPEND)])
        number = np.arange(start, stop)
        at = FIRST + number * (1_000_000 // self.rate)
        frame = pl.DataFrame({"id": users, "number": number}).select(
            user=pl.format("user-{}", pl.col("id").cast(pl.String).str.zfill(8)),
            device=pl.col("id") * 7919 + 1,
            amount=(pl.col("number") % 1000) / 8,
            quantity=pl.col("number") % 97,
            at=pl.Series(at).cast(pl.Datetime("us", "UTC")),
            note=self._notes.gather(number % len(self._notes)),
        )
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest())

    def _users(self, start: int, stop: int) -> np.ndarray:
        if start < self.keys:
            return np.arange(start, stop) % self.keys
        return np.random.default_rng(start).integers(0, self.keys, stop - start)

    @cached_property
    def _notes(self) -> pl.Series:
        letters = "".join(chr(c) for c in np.random.default_rng(7).integers(97, 123, 2000))
        return pl.Series([letters[i : i + NOTE] for i in range(1900)])


def fill(topic: Topic, traffic: Traffic, start: int, stop: int) -> None:
    """Append rows [start, stop)."""
    for at in range(start, stop, APPEND):
        topic.append(traffic.rows(at, min(at + APPEND, stop)))


def make(river: River, name: str) -> Topic:
    """A topic for them."""
    return river.topic(name, SCHEMA, key="user", time="at", fsync="os")
