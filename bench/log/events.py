"""The events that are appended and read: three numbers, a time, a key, and a text that makes up the size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.figure import check
from riverrun.log.topic import Topic
from riverrun.river import River

SCHEMA = "user string, device bigint, amount double, quantity bigint, at timestamp, note string"
NUMBERS = ["device", "amount", "quantity"]
ROWS = 10_000  # in one block; every benchmark goes round and round in it
FIRST = 1_700_000_000_000_000
SIZES = {"100 B": 100, "1 kB": 1000}
_FIXED = 4 * 8 + 11 + 2 * 4  # numbers and time, the key, and where the two texts begin


@cache
def block(size: int) -> pa.RecordBatch:
    """ROWS events of `size` bytes each, always the same."""
    rng = np.random.default_rng(7)
    users = [f"user-{i:06d}" for i in rng.integers(0, 50_000, ROWS)]
    letters = "".join(chr(c) for c in rng.integers(97, 123, size * 2))
    width = size - _FIXED
    notes = [letters[i : i + width] for i in rng.integers(0, size, ROWS)]
    return pa.record_batch(
        {
            "user": pa.array(users),
            "device": pa.array(rng.integers(0, 1 << 40, ROWS)),
            "amount": pa.array(rng.random(ROWS)),
            "quantity": pa.array(rng.integers(0, 100, ROWS)),
            "at": pa.array(FIRST + np.arange(ROWS)).cast(pa.timestamp("us", "UTC")),
            "note": pa.array(notes),
        }
    )


@lru_cache(maxsize=4)
def pieces(size: int, batch: int, source: str) -> list[Any]:
    """The block in batches, ready to be appended: Arrow tables of their own, or lists of dicts (a dict for one row)."""
    rows = block(size).to_pylist()
    cut = [rows[i : i + batch] for i in range(0, ROWS, batch)]
    if source == "dicts":
        return [piece[0] for piece in cut] if batch == 1 else cut
    return [pa.RecordBatch.from_pylist(piece, schema=block(size).schema) for piece in cut]


@dataclass(frozen=True, slots=True)
class Totals:
    """What some rows add up to; the same numbers, read back, are the same rows."""

    rows: int
    devices: int
    quantities: int

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.rows + other.rows, self.devices + other.devices, self.quantities + other.quantities)


def totals(rows: pa.Table | pa.RecordBatch) -> Totals:
    return Totals(rows.num_rows, pc.sum(rows["device"]).as_py() or 0, pc.sum(rows["quantity"]).as_py() or 0)


def expected(size: int, rows: int) -> Totals:
    """What the first `rows` rows add up to, going round and round in the block."""
    whole, rest = divmod(rows, ROWS)
    once, part = totals(block(size)), totals(block(size).slice(0, rest))
    return Totals(rows, whole * once.devices + part.devices, whole * once.quantities + part.quantities)


def verify(topic: Topic, want: Totals) -> None:
    """Read the whole topic back and compare."""
    check(want, totals(topic.read(columns=["device", "quantity"])), f"rows of {topic.name}")


def make(river: River, name: str, fsync: str = "os", keyed: bool = True, compression: str | None = None) -> Topic:
    """A new topic for events."""
    key = "user" if keyed else None
    return river.topic(name, SCHEMA, key=key, time="at", fsync=fsync, compression=compression)


def fill(topic: Topic, size: int, rows: int, batch: int = ROWS) -> int:
    """Append about `rows` rows in batches, at least one block; gives how many. Old segments are sealed then."""
    blocks = max(1, round(rows / ROWS))
    for _ in range(blocks):
        for piece in pieces(size, batch, "Arrow"):
            topic.append(piece)
    topic.backend.upkeep.wait()
    return blocks * ROWS
