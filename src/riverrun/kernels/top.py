"""`t.top(n, by, per)`: the first n rows of each group in an order, kept up with the changes of a table or a stream.

Rows that are equal in the order follow by their key, rows of a stream by their place in the log, so that there is one
answer. Where nothing is taken back, state holds the rows that are shown and no others.

Where rows can be taken back, any of them may move up one day, so state holds all. It holds them in two parts: the head
of each group, the rows shown and a few more, and the rest, all of which come after the head. An epoch reads the heads
of the groups it touches; whatever happens after them is written and not read. Only a group whose head has lost all
rows it had to spare is read as a whole. It gets as many to spare then as the square root of its rows, so that a group
of a million rows, always robbed of its first, is read once in a thousand losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.netting import uncancelled, versions
from riverrun.kernels.ranking import OrderBy, Ranking
from riverrun.kernels.weights import refuse_retractions, weighted
from riverrun.kernels.windows import ALL, keyed, keys
from riverrun.state.frames import Mask, beside, frame_of, keep, numbers, pick, series, stack, take, typed
from riverrun.state.keys import KeyGroups, agreeing, group_rows
from riverrun.state.order import Indexes
from riverrun.state.table import State, StateTable, TableSpec

__all__ = ["OrderBy", "TopKernel"]

HEAD, REST = "head", "rest"
_ORIGIN = {PARTITION: pl.Int32(), OFFSET: pl.Int64()}
ROOM = "_room"
"""How many rows the head of a group has to spare when it is full; it is cut when it has twice as many."""

_GROUP = "_group"


@dataclass
class Touched:
    """The groups that an epoch touches, and its rows: those that leave and those that come."""

    groups: KeyGroups
    keys: pl.DataFrame
    old: pl.DataFrame
    new: pl.DataFrame
    id: tuple[str, ...]
    stored: Mask
    """Which of the old rows are in a head."""

    @classmethod
    def of(cls, old: pl.DataFrame, new: pl.DataFrame, per: tuple[str, ...], id: tuple[str, ...]) -> Touched:
        rows = stack([pick(old, per), pick(new, per)])
        groups = group_rows(rows, per)
        return cls(groups, take(rows, groups.first), old, new, id, np.zeros(old.height, np.bool_))

    @property
    def new_group(self) -> Indexes:
        return self.groups.numbers[self.old.height :]

    @property
    def _old_group(self) -> Indexes:
        return self.groups.numbers[: self.old.height]

    def leaving(self, rows: pl.DataFrame, group: Indexes) -> tuple[Indexes, Indexes]:
        """Which of some rows, of these groups, are among those that leave, and which of these they are: places."""
        return agreeing(self._named(rows, group), self._named(self.old, self._old_group), [_GROUP, *self.id])

    def _named(self, rows: pl.DataFrame, group: Indexes) -> pl.DataFrame:
        return beside(pick(rows, self.id), [series(_GROUP, group)])


@dataclass(frozen=True)
class Candidates:
    """Ranked rows: which were `held` in a head, are `inside` one now, came `back` from the rest; each head's room."""

    ranking: Ranking
    held: Mask
    inside: Mask
    back: Mask
    room: Indexes


@dataclass(frozen=True)
class TopKernel:
    """First `n` rows per group `per`. `schema` has all columns of the input, those of `order` included.

    The input is a table with `key` (without one it has one row at most), or (`stream`) rows named by `_partition` and
    `_offset`; without `retracts` it takes nothing back. Results have the columns `outputs`, `_time` and, of a stream,
    the id of the row. `rank` names one more column: the place in the group, 1 for the first. With `ties` rows equal to
    the n-th are shown too, and equal rows have the rank of the first of them. `spare` is the least a head has beyond
    the rows shown when it is filled.
    """

    n: int
    order: tuple[OrderBy, ...]
    per: tuple[str, ...]
    key: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    outputs: tuple[str, ...]
    rank: str | None = None
    ties: bool = False
    stream: bool = False
    retracts: bool = True
    spare: int = 16

    def __post_init__(self) -> None:
        if self.n < 1:
            raise Invalid(f"top shows 1 row or more, not {self.n}")
        if not self.order and not self.key:
            raise Invalid("top has nothing to order by")

    @cached_property
    def _id(self) -> tuple[str, ...]:
        return tuple(_ORIGIN) if self.stream else self.key or (self.order[0].column,)

    @cached_property
    def _columns(self) -> dict[str, pl.DataType]:
        return {**self.schema, TIME: pl.Int64(), **(_ORIGIN if self.stream else {})}

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        columns = {**self._columns, **({} if self.per else {ALL: pl.Int8()})}
        head = TableSpec({**columns, ROOM: pl.Int32()}, identity=self._id, probe=keys(self.per), route=self.per)
        rest = TableSpec(columns, identity=self._id, probe=keys(self.per), route=self.per)
        return {HEAD: head, REST: rest} if self.retracts else {HEAD: head}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        arrived = inputs["in"]
        if not self.retracts:
            refuse_retractions(arrived, "top")
        counts = {"in": Counts(read=len(arrived), accepted=len(arrived))}
        if arrived.is_empty():
            return Step(self._issued(self._none, np.empty(0, np.int64), 1), counts)
        old, new = (
            keyed(typed(rows, self._columns), self.per) for rows in versions(arrived, self._id, [*self._columns])
        )
        touched = Touched.of(old, new, keys(self.per), self._id)
        candidates = self._candidates(touched, *state[HEAD].probe(touched.keys, touched.groups.hashes))
        if self.retracts:
            candidates = self._with_rest(state[REST], touched, candidates)
        before = self._numbers(candidates.ranking, candidates.held)
        after = self._numbers(candidates.ranking, candidates.inside)
        self._store(state, candidates, self._kept(candidates, after > 0))
        return Step(self._changes(candidates.ranking, before, after), counts)

    @cached_property
    def _none(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self._columns)

    def _candidates(self, touched: Touched, head: pl.DataFrame, at: Indexes) -> Candidates:
        """The heads as they were and the new rows, in order. Inside the new heads are: of the rows that stay and come,
        those that no row of the rest can be before.
        """
        new = touched.new
        # a row that stays at the end of its head when it changes must not be after itself
        rows = stack([new, pick(head, new.columns)])
        ranking = Ranking.of(rows, np.concatenate([touched.new_group, at]), self.order, self._id)
        held = np.arange(rows.height) >= new.height
        inside = ~held
        leaving, stored = touched.leaving(head, at)
        inside[new.height :] = True
        inside[new.height + leaving] = False
        room = np.zeros(len(touched.groups), np.int64)
        if self.retracts:
            room[:] = self.spare
            np.maximum.at(room, at, numbers(head.get_column(ROOM)))
            touched.stored[stored] = True
        order = ranking.order
        return Candidates(ranking, held[order], inside[order], np.zeros(len(order), np.bool_), room)

    def _with_rest(self, table: StateTable, touched: Touched, candidates: Candidates) -> Candidates:
        """Says which rows are inside the heads, having read the rest of those groups whose head is too short, and how
        many rows each head may have to spare.
        """
        ranking, held, alive = candidates.ranking, candidates.held, candidates.inside
        count = len(touched.groups)
        # what is after the last row of a head may have rows of the rest before it
        inside = alive & (np.arange(len(held)) <= ranking.last(held, count)[ranking.group])
        short = self._short(ranking, inside, count)
        table.remove(keep(touched.old, ~touched.stored))
        after = alive & ~inside & ~short[ranking.group]
        table.put(ranking.chosen(after))
        inside = alive & ~after
        back = candidates.back
        if short.any():
            hashes = touched.groups.hashes
            rows, at = table.probe(keep(touched.keys, short), None if hashes is None else hashes[short])
            if rows.height:
                before = take(ranking.rows, ranking.order)
                group = np.concatenate([ranking.group, np.flatnonzero(short)[at]])
                ranking = Ranking.of(stack([before, pick(rows, before.columns)]), group, self.order, self._id)
                more = np.ones(rows.height, np.bool_)
                held, inside, back = (
                    np.concatenate([mask, flag])[ranking.order]
                    for mask, flag in ((held, ~more), (inside, more), (back, more))
                )
        sizes = ranking.sizes(inside, count)
        room = np.where(short, np.maximum(np.sqrt(sizes).astype(np.int64), self.spare), candidates.room)
        return Candidates(ranking, held, inside, back, room)

    def _short(self, ranking: Ranking, inside: Mask, groups: int) -> Mask:
        """Which groups cannot tell from their head what is shown: the rest may have rows that are."""
        sizes = ranking.sizes(inside, groups)
        if not self.ties:
            return sizes < self.n
        shown = (ranking.ranks(inside) <= self.n) & inside
        # after the rows equal to the n-th there must be another row, else the rest may have more of them
        short: Mask = (sizes < self.n) | (ranking.sizes(shown, groups) == sizes)
        return short

    def _numbers(self, ranking: Ranking, members: Mask) -> Indexes:
        """The place of each row that is shown, 0 for others."""
        numbers = ranking.ranks(members) if self.ties else ranking.positions(members)
        numbers[numbers > self.n] = 0
        return numbers

    def _kept(self, candidates: Candidates, shown: Mask) -> Mask:
        """Which of the rows inside stay in a head: those that are shown, and some more where there is room."""
        ranking, inside, room = candidates.ranking, candidates.inside, candidates.room
        sizes, count = ranking.sizes(inside, len(room)), ranking.sizes(shown, len(room))
        most = np.where(sizes > count + 2 * room, count + room, sizes)
        return inside & (ranking.positions(inside) <= most[ranking.group])

    def _store(self, state: State, candidates: Candidates, kept: Mask) -> None:
        ranking, held, inside, back = candidates.ranking, candidates.held, candidates.inside, candidates.back
        state[HEAD].remove(ranking.chosen(held & ~kept))
        fresh = kept & ~held
        room = series(ROOM, candidates.room[ranking.group[fresh]].astype(np.int32))
        state[HEAD].put(beside(ranking.chosen(fresh), [room]))
        if self.retracts:
            state[REST].remove(ranking.chosen(back & kept))
            state[REST].put(ranking.chosen(inside & ~kept & ~back))

    def _changes(self, ranking: Ranking, before: Indexes, after: Indexes) -> pl.DataFrame:
        same = (before == after) if self.rank else (before > 0) == (after > 0)
        gone, came = (before > 0) & ~same, (after > 0) & ~same
        changes = stack(
            [
                self._issued(ranking.chosen(gone), before[gone], -1),
                self._issued(ranking.chosen(came), after[came], 1),
            ]
        )
        return uncancelled(changes, [name for name in changes.columns if name != WEIGHT])

    def _issued(self, rows: pl.DataFrame, places: Indexes, weight: int) -> pl.DataFrame:
        """Rows as they leave."""
        rank = [series(self.rank, places.astype(np.int32))] if self.rank else []
        origin = _ORIGIN if self.stream else ()
        return weighted(frame_of([*pick(rows, self.outputs), *rank, *pick(rows, [TIME, *origin])]), weight)
