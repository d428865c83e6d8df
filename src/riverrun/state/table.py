"""The interface of state: named tables, found by probe columns, ordered by an integer bucket.

Rows of a table are unique by `identity` at their address. They are found by equality of the `probe` columns and, where
the spec has a `bucket` (a window's start, an expiry time), by bucket: closing and expiring touch old buckets only.
Null equals null, NaN equals NaN and -0.0 equals 0.0, in identity and in probes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import polars as pl

from riverrun.errors import Invalid
from riverrun.state.hashing import Hashes
from riverrun.state.order import Indexes

FOUND = "_found"


@dataclass(frozen=True)
class TableSpec:
    """Columns of a state table, which of them make a row unique, which find it, and which integer orders it.

    A row lives at its address: its probe columns and its bucket. One that moves to another address is another row; put
    the new one and remove the old one. The columns `route` decide which shard it belongs to, as they do for the node's
    input; None: the probe columns, (): all rows are in one shard.
    """

    schema: Mapping[str, pl.DataType]
    identity: tuple[str, ...]
    probe: tuple[str, ...]
    bucket: str | None = None
    route: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in (*self.key, *(self.route or ())) if name not in self.schema]
        if unknown:
            raise Invalid(f"a state table names columns it does not have: {', '.join(unknown)}")

    @cached_property
    def address(self) -> tuple[str, ...]:
        """The columns that `StateTable.probe` is given: the probe columns and the bucket."""
        return tuple(dict.fromkeys((*self.probe, *([self.bucket] if self.bucket else []))))

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What makes a row unique: identity and address. `StateTable.remove` is given these columns."""
        return tuple(dict.fromkeys((*self.address, *self.identity)))

    @cached_property
    def single(self) -> bool:
        """At most one row per address."""
        return len(self.key) == len(self.address)

    @cached_property
    def none(self) -> pl.DataFrame:
        """No rows."""
        return pl.DataFrame(schema=dict(self.schema))


class StateTable(Protocol):
    """One table. Reads see the state at the step's start and the step's own puts and removes. Order is unspecified,
    but the same for the same history.

    Whoever has the hashes of the probe columns of what is given hands them over; ascending ones are quickest.
    """

    def probe(self, keys: pl.DataFrame, hashes: Hashes | None = None) -> tuple[pl.DataFrame, Indexes]:
        """All live rows whose address (probe columns, and bucket if there is one) equals one of `keys`, which are
        distinct; and for each row the place of that key.
        """

    def probe_range(
        self, keys: pl.DataFrame, lo: int, hi: int, hashes: Hashes | None = None
    ) -> tuple[pl.DataFrame, Indexes]:
        """The same for live rows whose probe columns equal one of the distinct `keys`, with a bucket in [lo, hi)."""

    def lookup(self, keys: pl.DataFrame, hashes: Hashes | None = None) -> pl.DataFrame:
        """For tables with one row per address: a row for each of `keys`, in their order, with the columns that are not
        part of the address, null where there is no such row, and `_found`.
        """

    def scan(self, lo: int | None = None, hi: int | None = None) -> pl.DataFrame:
        """All live rows with a bucket in [lo, hi); a table without a bucket gives all."""

    def put(self, rows: pl.DataFrame, hashes: Hashes | None = None) -> None:
        """Insert or replace by key. `rows` has every column of the spec and each key once."""

    def remove(self, rows: pl.DataFrame, hashes: Hashes | None = None) -> None:
        """Remove by key. `rows` has at least the key's columns (`TableSpec.key`); what is not there is ignored."""

    def release(self, below: int) -> None:
        """Every row with a bucket < `below` is gone, and later puts there are ignored. Whole runs are dropped."""


class State(Protocol):
    """The named tables of one node in one shard.

    `kept` is what the node wants to find again in its next step, if that is in the same process: something it has made of
    its tables, which took long. It may be gone, or have been made of an older state, or in a step that had no effect.
    """

    @property
    def kept(self) -> dict[str, Any]: ...

    def __getitem__(self, table: str) -> StateTable: ...
