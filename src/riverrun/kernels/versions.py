"""The versions of a table's rows, by key and event time, as far back as somebody may ask for them.

Versions not older than the watermark by more than `horizon` are all kept, in "versions". Of the older ones of a key
only the newest can be asked for; it is kept in "base", unless it is a deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import DELETED, OFFSET, PARTITION, RECEIVED, TIME, VERSION
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.matching import STAMP, Numbers, Timeline, key_numbers, slices
from riverrun.kernels.weights import signed
from riverrun.state.frames import (
    Mask,
    beside,
    constant,
    filled,
    frame_of,
    keep,
    numbers,
    pick,
    series,
    stack,
    take,
    true,
    typed,
    without_nulls,
)
from riverrun.state.hashing import Hashes, hash_columns
from riverrun.state.keys import equal_to_any, group_rows, last_of_each
from riverrun.state.order import lexicographic
from riverrun.state.table import FOUND, State, StateTable, TableSpec

_PARTITIONS = 1024
"""Partition numbers of the log below this; above it, the number says which topic it is."""

_GUESS = -1
"""In the place of the partition: the version's time is none that a row has."""

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
    def none(self) -> pl.DataFrame:
        """No versions."""
        return self.columns.to_frame()

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        columns = dict(self.columns)
        return {
            "versions": TableSpec(columns, identity=self.key, probe=self.key, bucket=TIME),
            "base": TableSpec(columns, identity=self.key, probe=self.key),
        }

    def arrived(self, rows: pl.DataFrame, clock: EpochClock, oldest: int) -> pl.DataFrame:
        """The input as versions. Those with a null in their key, which nobody finds, are left out.

        A derived table says when rows come, not when they go. One that goes and is not replaced is deleted when its
        epoch was received, and never late: from `oldest` on at least.
        """
        if rows.is_empty():
            return self.none
        rows = without_nulls(rows, self.key)
        if self.changelog:
            if VERSION in self.columns:
                log, offset = series("", numbers(rows.get_column(PARTITION)) % _PARTITIONS), rows.get_column(OFFSET)
                named = log.cast(pl.String) + ":" + offset.cast(pl.String)
                rows = beside(rows, [named.alias(VERSION)])
        else:
            came, gone = signed(rows)
            gone = keep(gone, ~true(gone.get_column(DELETED)) & ~equal_to_any(gone, came, self.key))
            moment = np.maximum(numbers(gone.get_column(TIME)), max(oldest, clock.received))
            there = (
                constant(DELETED, True, pl.Boolean(), gone.height),
                constant(PARTITION, _GUESS, pl.Int32(), gone.height),
            )
            rows = stack([beside(gone, [series(TIME, moment), *there]), came])
            # there is no log to say which is the later one: that of the later epoch
            epoch = constant(RECEIVED, clock.epoch, pl.Int64(), rows.height).cast(STAMP)
            rows = beside(rows, [epoch, rows.get_column(TIME).cast(pl.String).alias(VERSION)])
        return typed(rows, self.columns)

    def winning(self, state: State, arrived: pl.DataFrame) -> pl.DataFrame:
        """Of the versions of one key and time the last, if it is later than the one that is known."""
        if arrived.is_empty():
            return arrived
        if not self.changelog:
            arrived = stack([arrived, self._in_place_of_guesses(state["versions"], arrived)])
        address = [*self.key, TIME]
        last = last_of_each(_in_order(arrived), address)
        held = state["versions"].lookup(pick(last, address))
        later, equal = ~true(held.get_column(FOUND)), np.ones(last.height, np.bool_)
        for name in (RECEIVED, PARTITION, OFFSET):
            mine, theirs = numbers(last.get_column(name)), filled(held.get_column(name), 0)
            later |= equal & (mine > theirs)
            equal &= mine == theirs
        return keep(last, later)

    def _in_place_of_guesses(self, table: StateTable, arrived: pl.DataFrame) -> pl.DataFrame:
        """The versions that arrived once more, in the place of each later one whose time was guessed: a row that has come
        back is there, whenever it was thought to have gone."""
        told = keep(arrived, numbers(arrived.get_column(PARTITION)) != _GUESS)
        if told.is_empty():
            return told
        last = last_of_each(_in_order(told), self.key)
        time = numbers(last.get_column(TIME))
        held, at = table.probe_range(pick(last, self.key), int(time.min()) + 1, MAX_TIME)
        moment = numbers(held.get_column(TIME))
        guessed = (numbers(held.get_column(PARTITION)) == _GUESS) & (moment > time[at])
        again = take(last, at[guessed])
        guess = constant(PARTITION, _GUESS, pl.Int32(), again.height)
        return beside(again, [series(TIME, moment[guessed]), guess])

    def valid(
        self, state: State, rows: pl.DataFrame, on: Sequence[str], came: pl.DataFrame, clock: EpochClock
    ) -> tuple[pl.DataFrame, Numbers, Numbers]:
        """Some versions, and for each of `rows` which of them was valid before those that `came`, and is since.

        -1 stands for none. Before is the state; `came` has not been put there.
        """
        asked = frame_of([rows.get_column(key).alias(name) for key, name in zip(on, self.key, strict=True)])
        stored = self._stored(state, without_nulls(beside(asked, [rows.get_column(TIME)]), self.key), clock)
        known = stack([stored, came])
        number, versions = key_numbers(asked, pick(known, self.key))
        time = numbers(rows.get_column(TIME))
        old = _newest(number, time, versions, known, np.arange(len(stored)))
        if came.is_empty():
            return known, old, old
        standing = np.flatnonzero(~equal_to_any(stored, came, [*self.key, TIME]))
        now = np.concatenate([standing, np.arange(len(stored), len(known))])
        return known, old, _newest(number, time, versions, known, now)

    def _stored(self, state: State, asked: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """The versions in state that can be valid at the times asked for, and some others of these keys."""
        if asked.is_empty():
            return self.none
        columns, groups = list(self.columns), group_rows(asked, self.key, hash_columns(asked, self.key))
        keys, hashes, times = take(asked, groups.first), groups.hashes, numbers(asked.get_column(TIME))[groups.order]
        first, last = (end.reduceat(times, groups.starts) for end in (np.minimum, np.maximum))
        base = state["base"].lookup(keys, hashes)
        parts = [pick(keep(beside(keys, base.get_columns()), true(base.get_column(FOUND))), columns)]
        for part in slices(first, self.horizon // 16):
            chosen = np.ones(len(groups), np.bool_) if part is None else part
            parts += self._near(state["versions"], keys, hashes, (first, last), chosen, clock.start - self.horizon)
        return stack(parts)

    def _near(
        self,
        table: StateTable,
        keys: pl.DataFrame,
        hashes: Hashes | None,
        spans: tuple[Numbers, Numbers],
        chosen: Mask,
        oldest: int,
    ) -> Iterator[pl.DataFrame]:
        """The versions of the chosen keys that can be valid in the span of each, and some others."""
        assert hashes is not None
        first, columns = spans[0][chosen], list(self.columns)
        lo, hi = int(first.min()), int(spans[1][chosen].max()) + 1
        # Most keys that change often have a version shortly before the rows; only the others are read to the end.
        lo -= max(hi - lo, self.horizon // 64)
        recent, at = table.probe_range(keep(keys, chosen), lo, hi, hashes[chosen])
        yield pick(recent, columns)
        if lo > oldest:
            early = at[numbers(recent.get_column(TIME)) <= first[at]]
            rest = chosen.copy()
            rest[np.flatnonzero(chosen)[early]] = False
            yield pick(table.probe_range(keep(keys, rest), MIN_TIME, lo, hashes[rest])[0], columns)

    def keep(self, state: State, came: pl.DataFrame, clock: EpochClock) -> None:
        """Puts the versions that `came` into the state, and takes from it what nobody can ask for any more."""
        versions, base, low = state["versions"], state["base"], clock.end - self.horizon
        recent = numbers(came.get_column(TIME)) >= low
        versions.put(keep(came, recent))
        old = stack([pick(versions.scan(hi=low), came.columns), keep(came, ~recent)])
        versions.release(low)
        if old.height:
            newest = last_of_each(_in_order(old), self.key)
            deleted = true(newest.get_column(DELETED))
            base.put(keep(newest, ~deleted))
            base.remove(keep(newest, deleted))


def _in_order(versions: pl.DataFrame) -> pl.DataFrame:
    return take(versions, lexicographic(*(numbers(versions.get_column(name)) for name in _ORDER)))


def _newest(number: Numbers, time: Numbers, versions: Numbers, known: pl.DataFrame, among: Numbers) -> Numbers:
    """For each row the newest version of its key that is not newer than it, unless that is a deletion."""
    if not len(among):
        return np.full(len(number), -1)
    timeline = Timeline(versions[among], numbers(known.get_column(TIME))[among])
    place = timeline.places(number, time + 1)[0] - 1
    version = among[timeline.order[np.maximum(place, 0)]]
    there = (place >= 0) & (versions[version] == number) & ~true(known.get_column(DELETED))[version]
    return np.where(there, version, -1)
