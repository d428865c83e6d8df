"""`t.top(n, by, per)`: the first n rows of each group in an order, kept up with the changes of a table or a stream.

Rows that are equal in the order follow by their key, rows of a stream by their place in the log, so that there is one
answer. Where nothing is taken back, state holds the rows that are shown and no others.

Where rows can be taken back, any of them may move up one day, so state holds all. It holds them in two parts: the head
of each group, the rows shown and a few more, and the rest, all of which are behind the head. An epoch reads the heads
of the groups it touches; whatever happens behind them is written and not read. Only a group whose head has lost all
rows it had to spare is read as a whole. It gets as many to spare then as the square root of its rows, so that a group
of a million rows, always robbed of its first, is read once in a thousand losses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.changes import refuse_retractions
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.netting import uncancelled, versions
from riverrun.kernels.ranking import GROUP, Mask, Numbers, OrderBy, Ranking
from riverrun.kernels.windows import ALL, keyed, keys, weighted
from riverrun.state.equality import equijoin
from riverrun.state.table import State, TableSpec

__all__ = ["OrderBy", "TopKernel"]

HEAD, REST = "head", "rest"
_ORIGIN = {PARTITION: pl.Int32(), OFFSET: pl.Int64()}
ROOM = "_room"
"""How many rows the head of a group has to spare when it is full; it is cut when it has twice as many."""

_HELD, _INSIDE, _BACK = "_held", "_inside", "_back"


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
        if not self.order:
            raise Invalid("top has nothing to order by")

    @property
    def _id(self) -> tuple[str, ...]:
        return tuple(_ORIGIN) if self.stream else self.key or (self.order[0].column,)

    @property
    def _columns(self) -> dict[str, pl.DataType]:
        return {**self.schema, TIME: pl.Int64(), **(_ORIGIN if self.stream else {})}

    @property
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
            return Step(self._issued(pl.DataFrame(schema=self._columns), np.empty(0, np.int64), 1), counts)
        columns = [pl.col(name).cast(kind) for name, kind in self._columns.items()]
        old, new = (keyed(rows.select(columns), self.per) for rows in versions(arrived, self._id, [*self._columns]))
        per = list(keys(self.per))
        groups = pl.concat([old.select(per), new.select(per)]).unique(maintain_order=True)
        old, new = self._grouped(old, groups), self._grouped(new, groups)
        head = self._grouped(state[HEAD].probe(groups), groups)
        ranking, room = self._candidates(head, old, new), np.zeros(len(groups), dtype=np.int64)
        if self.retracts:
            ranking, room = self._with_rest(state, groups, old, ranking)
        held, inside = ranking.mask(_HELD), ranking.mask(_INSIDE)
        before, after = self._numbers(ranking, held), self._numbers(ranking, inside)
        kept = inside & self._kept(ranking, inside, after > 0, room)
        self._store(state, ranking, held, inside, kept, room)
        return Step(self._changes(ranking, before, after), counts)

    def _grouped(self, rows: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """Rows with the number of their group, and how many rows it has to spare where they come from a head."""
        numbered = groups.with_row_index(GROUP)
        found = equijoin(rows, numbered, groups.columns, "left", maintain_order="left")
        room = pl.col(ROOM) if ROOM in rows.columns else pl.lit(0, pl.Int32).alias(ROOM)
        return found.select(*self._columns, *([] if self.per else [ALL]), GROUP, room)

    def _candidates(self, head: pl.DataFrame, old: pl.DataFrame, new: pl.DataFrame) -> Ranking:
        """The heads as they were and the new rows, in order. Inside the new heads are: of the rows that stay and come,
        those that no row of the rest can be before.
        """
        on = [GROUP, *self._id]
        leaving = old.select(on).with_columns(pl.lit(False).alias(_INSIDE))
        stay = equijoin(head, leaving, on, "left", maintain_order="left")[_INSIDE].fill_null(True)
        held = head.with_columns(pl.lit(True).alias(_HELD), stay, pl.lit(False).alias(_BACK))
        came = new.with_columns(pl.lit(False).alias(_HELD), pl.lit(True).alias(_INSIDE), pl.lit(False).alias(_BACK))
        # a row that stays at the end of its head when it changes must not be behind itself
        return Ranking.of(pl.concat([came, held]), self.order, self._id)

    def _with_rest(
        self, state: State, groups: pl.DataFrame, old: pl.DataFrame, ranking: Ranking
    ) -> tuple[Ranking, Numbers]:
        """Says which rows are inside the heads, having read the rest of those groups whose head is too short, and how
        many rows each head may have to spare.
        """
        count = len(groups)
        held, alive = ranking.mask(_HELD), ranking.mask(_INSIDE)
        # what is behind the last row of a head may have rows of the rest before it
        inside = alive & (np.arange(len(held)) <= ranking.last(held, count)[ranking.group])
        short = self._short(ranking, inside, count)
        room = np.full(count, self.spare)
        np.maximum.at(room, ranking.group, ranking.rows[ROOM].to_numpy())
        on = [GROUP, *self._id]
        state[REST].remove(equijoin(old, ranking.rows.filter(held), on, "anti"))
        back = self._grouped(state[REST].probe(groups.filter(short)), groups)
        behind = alive & ~inside & ~short[ranking.group]
        state[REST].put(ranking.rows.filter(behind))
        rows = ranking.rows.with_columns(pl.Series(_INSIDE, alive & ~behind))
        ranking = Ranking(rows, ranking.group, ranking.run)
        if not back.is_empty():
            flags = [pl.lit(False).alias(_HELD), pl.lit(True).alias(_INSIDE), pl.lit(True).alias(_BACK)]
            ranking = Ranking.of(pl.concat([rows, back.with_columns(flags)]), self.order, self._id)
        sizes = ranking.sizes(ranking.mask(_INSIDE), count)
        return ranking, np.where(short, np.maximum(np.sqrt(sizes).astype(np.int64), self.spare), room)

    def _short(self, ranking: Ranking, inside: Mask, groups: int) -> Mask:
        """Which groups cannot tell from their head what is shown: the rest may have rows that are."""
        sizes = ranking.sizes(inside, groups)
        if not self.ties:
            return sizes < self.n
        shown = (ranking.ranks(inside) <= self.n) & inside
        # behind the rows equal to the n-th there must be another row, else the rest may have more of them
        short: Mask = (sizes < self.n) | (ranking.sizes(shown, groups) == sizes)
        return short

    def _numbers(self, ranking: Ranking, members: Mask) -> Numbers:
        """The place of each row that is shown, 0 for others."""
        numbers = ranking.ranks(members) if self.ties else ranking.positions(members)
        numbers[numbers > self.n] = 0
        return numbers

    def _kept(self, ranking: Ranking, inside: Mask, shown: Mask, room: Numbers) -> Mask:
        """Which of the rows inside stay in a head: those that are shown, and some more where there is room."""
        sizes, count = ranking.sizes(inside, len(room)), ranking.sizes(shown, len(room))
        most = np.where(sizes > count + 2 * room, count + room, sizes)
        return ranking.positions(inside) <= most[ranking.group]

    def _store(self, state: State, ranking: Ranking, held: Mask, inside: Mask, kept: Mask, room: Numbers) -> None:
        rows = ranking.rows.with_columns(pl.Series(ROOM, room[ranking.group], dtype=pl.Int32))
        state[HEAD].remove(rows.filter(held & ~kept))
        state[HEAD].put(rows.filter(kept & ~held))
        if self.retracts:
            back = ranking.mask(_BACK)
            state[REST].remove(rows.filter(back & kept))
            state[REST].put(rows.filter(inside & ~kept & ~back))

    def _changes(self, ranking: Ranking, before: Numbers, after: Numbers) -> pl.DataFrame:
        same = (before == after) if self.rank else (before > 0) == (after > 0)
        gone, came = (before > 0) & ~same, (after > 0) & ~same
        changes = pl.concat(
            [
                self._issued(ranking.rows.filter(gone), before[gone], -1),
                self._issued(ranking.rows.filter(came), after[came], 1),
            ]
        )
        return uncancelled(changes, [name for name in changes.columns if name != WEIGHT])

    def _issued(self, rows: pl.DataFrame, numbers: Numbers, weight: int) -> pl.DataFrame:
        """Rows as they leave."""
        rank = [pl.Series(self.rank, numbers, dtype=pl.Int32)] if self.rank else []
        origin = _ORIGIN if self.stream else ()
        return weighted(rows.select(*self.outputs, *rank, TIME, *origin), weight)
