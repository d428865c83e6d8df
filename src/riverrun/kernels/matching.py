"""Finding rows of equal key and near time, in memory and in state, for joins of whole batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME
from riverrun.kernels.kernel import Buckets
from riverrun.state.frames import beside, constant, frame_of, keep, numbers, pick, present, series, stack, take
from riverrun.state.hashing import Hashes
from riverrun.state.keys import equal_to_any, first_of_each, group_rows, number_keys
from riverrun.state.order import ascending
from riverrun.state.table import StateTable, TableSpec

Numbers = npt.NDArray[np.int64]

ID = (PARTITION, OFFSET)
STAMP = pl.Datetime("us", "UTC")
WAS_THERE, IS_THERE = "_was_there", "_is_there"
"""Marks of rows: whether they were and whether they are part of their side. No column of a flow is called so."""

_BUCKET = "_bucket"
_BUCKETS = 32
_SLICES = 16
_SPANS = 4
"""How many times the reach of a join is probed at once; a row found twice costs more than one found in vain."""

_LARGEST = 1 << 62


def key_numbers(*keys: pl.DataFrame) -> list[Numbers]:
    """Numbers for the rows of some frames of the same types: equal keys have equal ones, a key with a null has -1."""
    numbered, _ = number_keys(*keys)
    for frame, number in zip(keys, numbered, strict=True):
        for column in frame:
            there = present(column)
            if there is not None:
                number[~there] = -1
    return numbered


def log_order(rows: pl.DataFrame) -> Numbers:
    """The order of rows by partition and offset, as indexes."""
    if rows.is_empty():
        return np.empty(0, np.int64)
    partition, offset = (numbers(rows.get_column(name)).astype(np.int64) for name in ID)
    width = int(offset.max()) - int(offset.min()) + 1
    if width * (int(partition.max()) - int(partition.min()) + 1) >= _LARGEST:  # hashes: two columns take much longer
        return np.lexsort((offset, partition))
    return ascending((partition - partition.min()) * width + (offset - offset.min()))


class Timeline:
    """Rows sorted by key number and time, of which ranges are found. Rows with a negative number are in none."""

    def __init__(self, number: Numbers, time: Numbers) -> None:
        keyed = np.flatnonzero(number >= 0)
        self._moments: Numbers | None = None
        self._low = int(time[keyed].min()) if len(keyed) else 0
        self._span = int(time[keyed].max()) - self._low + 2 if len(keyed) else 1
        if len(keyed) and self._span * (int(number.max()) + 1) >= _LARGEST:
            self._moments = np.unique(time[keyed])
            self._span = len(self._moments) + 1
        codes = self._codes(number[keyed], time[keyed])
        order = ascending(codes)
        self._sorted = codes[order]
        self.order: Numbers = keyed[order]
        """The rows in this order, as indexes into what was given."""

    def places(self, number: Numbers, *times: Numbers) -> list[Numbers]:
        """For each key and time, the place in `order` of the key's first row that is not older.

        Several `times` of one key ascend together.
        """
        codes = [self._codes(number, time) for time in times]
        order = ascending(codes[0])  # looked for in ascending order, they are found in a third of the time
        found = []
        for code in codes:
            place = np.empty(len(order), np.int64)
            place[order] = np.searchsorted(self._sorted, code[order])
            found.append(place)
        return found

    def _codes(self, number: Numbers, time: Numbers) -> Numbers:
        if self._moments is None:
            place = np.clip(time, self._low, self._low + self._span - 1) - self._low
        else:
            place = np.searchsorted(self._moments, time)
        return number * self._span + place


def written_out(first: Numbers, behind: Numbers) -> tuple[Numbers, Numbers]:
    """Each range [first, behind) written out: the number of the range, and the places in it."""
    lengths = behind - first
    ranges = np.repeat(np.arange(len(first)), lengths)
    places = np.arange(len(ranges)) + np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    return ranges, places


@dataclass(frozen=True)
class KeptRows:
    """A table of rows that are kept for a time, found by the key columns `on`.

    Its buckets are a part of that time: coarse, since rows of one bucket are cheap to write, and fine enough to let
    go of rows soon after their time.
    """

    columns: pl.Schema
    on: tuple[str, ...]
    time: int

    @cached_property
    def spec(self) -> TableSpec:
        return TableSpec({**self.columns, _BUCKET: pl.Int64()}, identity=ID, probe=self.on, bucket=_BUCKET)

    @cached_property
    def none(self) -> pl.DataFrame:
        """No rows."""
        return self.columns.to_frame()

    @property
    def _width(self) -> int:
        return max(self.time // _BUCKETS, 1)

    def buckets(self, lo: int, hi: int) -> Buckets:
        """Those of times in [lo, hi)."""
        return lo // self._width, (hi - 1) // self._width + 1

    def probe(
        self, table: StateTable, keys: pl.DataFrame, lo: int, hi: int, hashes: Hashes | None = None
    ) -> tuple[pl.DataFrame, Numbers]:
        """The rows of these keys with a time in [lo, hi), and some with a time near it; and the place of each's key."""
        rows, at = table.probe_range(keys, *self.buckets(lo, hi), hashes)
        return pick(rows, self.columns), at

    def scan(self, table: StateTable, lo: int, hi: int) -> pl.DataFrame:
        """The rows with a time in [lo, hi)."""
        rows = pick(table.scan(*self.buckets(lo, hi)), self.columns)
        time = numbers(rows.get_column(TIME))
        return keep(rows, (time >= lo) & (time < hi))

    def find(self, table: StateTable, rows: pl.DataFrame) -> pl.DataFrame:
        """The stored rows with the ids of `rows`, which have the same keys and times."""
        address = [*self.on, _BUCKET]
        asked = first_of_each(pick(self._bucketed(rows), address), address)
        found = pick(table.probe(asked)[0], self.columns)
        return keep(found, equal_to_any(found, rows, ID))

    def update(
        self, table: StateTable, gone: pl.DataFrame, fresh: pl.DataFrame, low: int, hashes: Hashes | None = None
    ) -> None:
        """Removes and puts rows, and lets go of those that are older than `low`, all but a few."""
        if gone.height:
            table.remove(self._bucketed(gone))
        if fresh.height:
            counts = numbers(fresh.get_column(TIME)) >= low
            table.put(self._bucketed(keep(fresh, counts)), None if hashes is None else hashes[counts])
        table.release(low // self._width)

    def _bucketed(self, rows: pl.DataFrame) -> pl.DataFrame:
        return beside(rows, [series(_BUCKET, numbers(rows.get_column(TIME)) // self._width)])


def near(
    kept: KeptRows, table: StateTable, rows: pl.DataFrame, keys: Sequence[str], hashes: Hashes, lo: int, hi: int
) -> pl.DataFrame:
    """The table's rows, each once, that are equal in key to the `keys` of some of `rows` and in reach of its time.

    `hashes` are those of the keys.

    Rows a little out of reach can be among them. A key is only read at times around those of its own rows, so that
    neither a straggler nor a key with a long history makes it read what nobody can match.
    """
    parts = []
    for part in slices(numbers(rows.get_column(TIME)), _SPANS * (hi - lo)):
        chosen, hashed = (rows, hashes) if part is None else (keep(rows, part), hashes[part])
        named = frame_of([chosen.get_column(key).alias(name) for key, name in zip(keys, kept.on, strict=True)])
        groups, times = group_rows(named, kept.on, hashed), numbers(chosen.get_column(TIME))
        asked, hashed = take(named, groups.first), hashed[groups.first]
        for name in kept.on:
            there = present(asked.get_column(name))
            if there is not None:
                asked, hashed = keep(asked, there), hashed[there]
        if asked.height:
            parts.append(kept.probe(table, asked, int(times.min()) + lo, int(times.max()) + hi + 1, hashed)[0])
    if len(parts) > 1:
        return first_of_each(stack(parts), ID)
    return parts[0] if parts else kept.none


def slices(time: Numbers, width: int) -> Iterator[npt.NDArray[np.bool_] | None]:
    """Masks of rows that are not much further apart than `width`: a few that cover all. None stands for all rows."""
    if not len(time):
        return
    low, extent = int(time.min()), int(time.max()) - int(time.min())
    place = (time - low) // max(width, extent // _SLICES, 1)
    present = np.unique(place)
    if len(present) == 1:
        yield None
        return
    for number in present:
        yield place == number


def replaced(
    kept: KeptRows, table: StateTable, fresh: pl.DataFrame, gone: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The stored rows that the retractions `gone` take back by id, and the rows that come.

    What comes and goes in one epoch has done nothing, and is in neither.
    """
    if gone.is_empty():
        return fresh.clear(), fresh
    columns = fresh.columns
    found = kept.find(table, gone)
    unheard = keep(gone, ~equal_to_any(gone, found, ID))
    return (
        keep(found, ~equal_to_any(found, fresh, columns)),
        keep(fresh, ~equal_to_any(fresh, stack([found, unheard]), columns)),
    )


def marked(rows: pl.DataFrame, before: bool, after: bool) -> pl.DataFrame:
    """Rows with marks that say whether they were and whether they are part of their side."""
    marks = {WAS_THERE: before, IS_THERE: after}
    return beside(rows, [constant(name, mark, pl.Boolean(), rows.height) for name, mark in marks.items()])
