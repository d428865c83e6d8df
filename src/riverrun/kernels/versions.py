"""The versions of a table's rows, by key and event time, as far back as somebody may ask for them.

Versions not older than the watermark by more than `horizon` are all kept, in "versions". Of the older ones of a key
only the newest can be asked for; it is kept in "base", unless it is a deletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import DELETED, OFFSET, PARTITION, RECEIVED, TIME, VERSION, WEIGHT
from riverrun.kernels.kernel import MIN_TIME, EpochClock
from riverrun.kernels.matching import STAMP, Numbers, Timeline, key_numbers, slices
from riverrun.state.equality import equijoin
from riverrun.state.table import FOUND, State, TableSpec

_PARTITIONS = 1024
"""Partition numbers of the log below this; above it, the number says which topic it is."""

_ORDER = {TIME: pl.Int64(), RECEIVED: STAMP, PARTITION: pl.Int32(), OFFSET: pl.Int64()}


@dataclass(frozen=True)
class Versions:
    """Versions with the columns of `schema`, which has the key, and `_version` where it is wanted."""

    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    horizon: int
    changelog: bool

    @cached_property
    def columns(self) -> pl.Schema:
        return pl.Schema({**self.schema, DELETED: pl.Boolean(), **_ORDER})

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        columns = dict(self.columns)
        return {
            "versions": TableSpec(columns, identity=self.key, probe=self.key, bucket=TIME),
            "base": TableSpec(columns, identity=self.key, probe=self.key),
        }

    def arrived(self, rows: pl.DataFrame, clock: EpochClock, oldest: int) -> pl.DataFrame:
        """The input as versions. Those with a null in their key, which nobody finds, are left out.

        A deletion in a derived table is never late: it counts from `oldest` on, if not from its own time.
        """
        rows = rows.drop_nulls(self.key)
        if self.changelog:
            log = (pl.col(PARTITION) % _PARTITIONS).cast(pl.String)
            rows = rows.with_columns(pl.concat_str(log, pl.lit(":"), pl.col(OFFSET).cast(pl.String)).alias(VERSION))
        else:
            came = rows.filter(pl.col(WEIGHT) > 0)
            gone = equijoin(rows.filter(pl.col(WEIGHT) < 0), came, self.key, "anti")
            gone = gone.with_columns(pl.col(TIME).clip(lower_bound=oldest))
            # there is no log to say which is the later one: that of the later epoch
            rows = pl.concat([_deleted(gone, True), _deleted(came, False)]).with_columns(
                pl.lit(clock.epoch, pl.Int64).cast(STAMP).alias(RECEIVED), pl.col(TIME).cast(pl.String).alias(VERSION)
            )
        return rows.select(list(self.columns)).cast(self.columns)

    def winning(self, state: State, arrived: pl.DataFrame) -> pl.DataFrame:
        """Of the versions of one key and time the last, if it is later than the one that is known."""
        if arrived.is_empty():
            return arrived
        last = arrived.sort(*_ORDER).unique([*self.key, TIME], keep="last", maintain_order=True)
        held = state["versions"].lookup(last.select(*self.key, TIME))
        later, equal = pl.lit(False), pl.lit(True)
        for name in (RECEIVED, PARTITION, OFFSET):
            later |= equal & (pl.col(name) > pl.col(f"held{name}"))
            equal &= pl.col(name) == pl.col(f"held{name}")
        beside = last.with_columns(held[name].alias(f"held{name}") for name in (RECEIVED, PARTITION, OFFSET))
        return beside.filter(~held[FOUND] | later).select(last.columns)

    def valid(
        self, state: State, rows: pl.DataFrame, on: Sequence[str], came: pl.DataFrame, clock: EpochClock
    ) -> tuple[pl.DataFrame, Numbers, Numbers]:
        """Some versions, and for each of `rows` which of them was valid before those that `came`, and is since.

        -1 stands for none. Before is the state; `came` has not been put there.
        """
        asked = rows.select(pl.col(key).alias(name) for key, name in zip(on, self.key, strict=True))
        stored = self._stored(state, asked.with_columns(rows[TIME]).drop_nulls(), clock)
        known = pl.concat([stored, came])
        number, versions = key_numbers(asked, known.select(self.key))
        old = _newest(number, rows, versions, known, np.arange(len(stored)))
        if came.is_empty():
            return known, old, old
        address = [*self.key, TIME]
        standing = equijoin(stored.with_row_index(FOUND), came, address, "anti")[FOUND].to_numpy()
        now = np.concatenate([standing.astype(np.int64), np.arange(len(stored), len(known))])
        return known, old, _newest(number, rows, versions, known, now)

    def _stored(self, state: State, asked: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """The versions in state that can be valid at the times asked for, and some others of these keys."""
        columns = list(self.columns)
        spans = asked.group_by(self.key).agg(pl.col(TIME).min().alias("_from"), pl.col(TIME).max().alias("_to"))
        keys = spans.select(self.key)
        parts = [keys.hstack(state["base"].lookup(keys).get_columns()).filter(FOUND).select(columns)]
        oldest = clock.start - self.horizon
        for part in slices(spans["_from"].to_numpy(), self.horizon // 16):
            span = spans if part is None else spans.filter(part)
            lo, hi = int(span["_from"].to_numpy().min()), int(span["_to"].to_numpy().max()) + 1
            # Most keys that change often have a version shortly before the rows; only the others are read to the end.
            lo -= max(hi - lo, self.horizon // 64)
            recent = state["versions"].probe_range(span.select(self.key), lo, hi)[0].select(columns)
            parts.append(recent)
            if lo > oldest:
                early = equijoin(recent, span, self.key).filter(pl.col(TIME) <= pl.col("_from"))
                rest = equijoin(span, early, self.key, "anti").select(self.key)
                parts.append(state["versions"].probe_range(rest, MIN_TIME, lo)[0].select(columns))
        return pl.concat(parts)

    def keep(self, state: State, came: pl.DataFrame, clock: EpochClock) -> None:
        """Puts the versions that `came` into the state, and takes from it what nobody can ask for any more."""
        versions, base, low = state["versions"], state["base"], clock.end - self.horizon
        recent = pl.col(TIME) >= low
        versions.put(came.filter(recent))
        old = pl.concat([versions.scan(hi=low).select(came.columns), came.filter(~recent)])
        versions.release(low)
        newest = old.sort(*_ORDER).unique(self.key, keep="last", maintain_order=True)
        base.put(newest.filter(~pl.col(DELETED)))
        base.remove(newest.filter(DELETED))


def _deleted(rows: pl.DataFrame, gone: bool) -> pl.DataFrame:
    return rows.with_columns(pl.lit(gone).alias(DELETED))


def _newest(number: Numbers, rows: pl.DataFrame, versions: Numbers, known: pl.DataFrame, among: Numbers) -> Numbers:
    """For each row the newest version of its key that is not newer than it, unless that is a deletion."""
    if not len(among):
        return np.full(len(number), -1)
    timeline = Timeline(versions[among], known[TIME].to_numpy()[among])
    place = timeline.places(number, rows[TIME].to_numpy() + 1)[0] - 1
    version = among[timeline.order[np.maximum(place, 0)]]
    there = (place >= 0) & (versions[version] == number) & ~known[DELETED].to_numpy()[version]
    return np.where(there, version, -1)
