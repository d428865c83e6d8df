"""`s.dedupe(on, within)`: the first row in log order passes at once; repeats of it do not.

A row is a duplicate if a row with the same values was kept and their event times are at most `within` apart, in either
direction. Being a duplicate of a duplicate does not count: of a chain, a row further than `within` from every kept one
is kept again.

A row is judged against the kept rows up to `within` before and after it. Those are remembered until the watermark has
passed them by twice `within`; a row that is older than the watermark by more than `within` cannot be judged any more
and is late: dropped and counted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.lateness import in_time
from riverrun.kernels.weights import refuse_retractions
from riverrun.state.frames import keep, numbers, pick, take
from riverrun.state.hashing import hash_columns
from riverrun.state.keys import group_rows
from riverrun.state.order import lengths, lexicographic
from riverrun.state.table import State, StateTable, TableSpec

_ROUNDS = 8

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DedupeKernel:
    """Rows without repeats of the columns `on` (nulls are equal). `schema` has at least the columns `on`."""

    on: tuple[str, ...]
    within: int
    schema: Mapping[str, pl.DataType]

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        columns = {name: self.schema[name] for name in self.on}
        return {"kept": TableSpec({**columns, TIME: pl.Int64()}, identity=(*self.on, TIME), probe=self.on, bucket=TIME)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        refuse_retractions(arrived, "dedupe")
        timely = keep(arrived, in_time(numbers(arrived.get_column(TIME)), clock, self.within))
        fresh = self._first(state["kept"], timely) if timely.height else timely
        state["kept"].release(clock.end - 2 * self.within)
        counts = Counts(
            read=len(arrived),
            accepted=len(fresh),
            late_dropped=len(arrived) - len(timely),
            duplicates=len(timely) - len(fresh),
        )
        return Step(fresh, {"in": counts})

    def _first(self, table: StateTable, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows that are no duplicates, which the table keeps from now on; `rows` are in log order."""
        hashes, times = hash_columns(rows, self.on), numbers(rows.get_column(TIME))
        groups = group_rows(rows, self.on, hashes)
        lo, hi = int(times.min()) - self.within, int(times.max()) + self.within + 1
        held, at = table.probe_range(take(pick(rows, self.on), groups.first), lo, hi, groups.hashes)
        value = np.concatenate([at, groups.numbers])
        time = np.concatenate([numbers(held.get_column(TIME)), times])
        order = lexicographic(value, time)
        value, time = value[order], time[order]
        kept = _keep(_clusters(value, time, self.within), time, order, order < held.height, self.within)
        mask = np.empty(len(kept), np.bool_)
        mask[order] = kept
        fresh = mask[held.height :]
        table.put(keep(pick(rows, [*self.on, TIME]), fresh), hashes[fresh])
        return keep(rows, fresh)


def _clusters(value: Numbers, time: Numbers, within: int) -> Numbers:
    """Numbers rows (sorted by value and time); rows with different numbers cannot be duplicates of each other."""
    apart = (np.diff(value) != 0) | (np.diff(time) > within)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(apart)])


def _keep(cluster: Numbers, time: Numbers, order: Numbers, kept: Mask, within: int) -> Mask:
    """Which rows are kept, when those in `kept` were before all others and the others come in `order`.

    Rounds over whole columns: in each cluster the first row still undecided is kept, and what it covers is decided.
    Usually two or three are enough. Long chains, of which every link but one is covered, go row by row after that.
    """
    kept = kept.copy()
    open_ = np.flatnonzero(~kept & ~_covered(cluster, time, kept, within))
    for _ in range(_ROUNDS):
        if not len(open_):
            return kept
        starts = np.flatnonzero(np.diff(cluster[open_], prepend=-1))
        sizes = lengths(starts, len(open_))
        first = open_[order[open_] == np.repeat(np.minimum.reduceat(order[open_], starts), sizes)]
        kept[first] = True
        open_ = open_[np.abs(time[open_] - np.repeat(time[first], sizes)) > within]
    _keep_one_by_one(open_[np.lexsort((order[open_], cluster[open_]))], cluster, time, kept, within)
    return kept


def _covered(cluster: Numbers, time: Numbers, kept: Mask, within: int) -> Mask:
    """Which rows have a kept one of their cluster within reach: the nearest before or after them."""
    at = np.arange(len(kept))
    before = np.maximum.accumulate(np.where(kept, at, -1))
    after = np.minimum.accumulate(np.where(kept, at, len(kept))[::-1])[::-1]
    covered = np.zeros(len(kept), np.bool_)
    for exists, nearest in ((before >= 0, before), (after < len(kept), after)):
        near = np.where(exists, nearest, 0)
        covered |= exists & (cluster[near] == cluster) & (np.abs(time[near] - time) <= within)
    return covered


def _keep_one_by_one(rows: npt.NDArray[np.intp], cluster: Numbers, time: Numbers, kept: Mask, within: int) -> None:
    current, times = -1, list[int]()
    for row, group, moment in zip(rows.tolist(), cluster[rows].tolist(), time[rows].tolist(), strict=True):
        if group != current:
            current, times = group, []
        nearest = bisect_left(times, moment - within)
        if nearest == len(times) or times[nearest] > moment + within:
            insort(times, moment)
            kept[row] = True
