"""`s.apply(step, by, state, output)`: a user's function over all keys of a step at once.

It gets the remembered rows of the keys that have new rows or want to be woken, the new rows, and the clock; it gives the
rows to remember of these keys, and the rows to hand on. A key that is not among the rows it gives is forgotten. A
remembered row with `_wake` is handed in again when the watermark has passed that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME
from riverrun.durations import from_micros
from riverrun.errors import Invalid, RiverrunError
from riverrun.figures import plural
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, Buckets, Counts, EpochClock, Step
from riverrun.kernels.shown_values import shown
from riverrun.kernels.standing import counted, standing
from riverrun.kernels.weights import refuse_retractions, weighted
from riverrun.state.equality import equijoin
from riverrun.state.frames import Mask, beside, constant, filled, frame_of, pick, series, take_or_null
from riverrun.state.hashing import hash_columns
from riverrun.state.table import State, TableSpec

WAKE = "_wake"
STAMP = pl.Datetime("us", "UTC")
_MOST_ROUNDS = 100_000  # a timer of a minute may be two months behind
_NEWEST = "_newest"
_MADE = 12
"""So many bits of an offset count the rows that were made of one."""

_OFFSETS = 1 << (62 - _MADE)

Function = Callable[[pl.DataFrame, pl.DataFrame, "ApplyClock"], tuple[pl.DataFrame, pl.DataFrame]]


@dataclass(frozen=True)
class ApplyClock:
    """What time it is for a step: no row older than `watermark` is in time any more; None before that is known.

    `final` says that the input has ended: this step is the last one.
    """

    watermark: datetime | None
    final: bool

    @classmethod
    def of(cls, clock: EpochClock) -> ApplyClock:
        known = MIN_TIME < clock.end < MAX_TIME
        return cls(from_micros(clock.end) if known else None, clock.end >= MAX_TIME)


@dataclass(frozen=True)
class ApplyKernel:
    """`state` and `output` are the columns of what is remembered, without the key, and of what is handed on, with it.

    `who` is how errors name the function. `waited` says that rows come in the order of event time, when the watermark
    has passed them. What is handed on stands where the rows stand that it was made of, and what a key makes that was only
    woken at the end of the epoch, or where rows have `waited` at the time it was woken for.
    """

    function: Function
    by: tuple[str, ...]
    schema: Mapping[str, pl.DataType]
    state: Mapping[str, pl.DataType]
    output: Mapping[str, pl.DataType]
    who: str
    waited: bool = False

    @property
    def _key(self) -> dict[str, pl.DataType]:
        return {name: self.schema[name] for name in self.by}

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        remembered = TableSpec({**self._key, **self.state, WAKE: pl.Int64()}, identity=self.by, probe=self.by)
        wakes = TableSpec({**self._key, WAKE: pl.Int64()}, identity=self.by, probe=self.by, bucket=WAKE)
        return {"remembered": remembered, "wakes": wakes}

    def due(self, clock: EpochClock) -> Mapping[str, Buckets]:
        return {"wakes": (MIN_TIME, clock.end + 1)}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        rows = inputs["in"]
        refuse_retractions(rows, self.who)
        by = list(self.by)
        woken = state["wakes"].scan(*self.due(clock)["wakes"])
        touched = pl.concat([rows.select(by), woken.select(by)]).unique(maintain_order=True)
        stored = equijoin(touched, state["remembered"].probe(touched)[0], by, "inner", maintain_order="left")
        after, out = self._round(stored, rows, touched, woken, clock)
        handed_on = [out]
        # Who asks to be woken at a time that has passed is woken in this step, as in smaller epochs.
        while clock.end < MAX_TIME and len(woken := after.filter(pl.col(WAKE) <= clock.end).select(*by, WAKE)):
            if len(handed_on) > _MOST_ROUNDS:
                raise Invalid(
                    f"{self.who} asks to be woken more than {_MOST_ROUNDS} times in one step",
                    hint="Ask for later times",
                )
            keys = woken.select(by)
            before = equijoin(keys, after, by, "inner", maintain_order="left")
            again, out = self._round(before, rows.clear(), keys, woken, clock)
            after = pl.concat([equijoin(after, keys, by, "anti"), again])
            handed_on.append(out)
        self._remember(state, stored, after)
        changes = self._identified(pl.concat(handed_on), clock)
        changes = weighted(changes, 1)
        return Step(changes, {"in": Counts(read=len(rows), accepted=len(rows))})

    def _round(
        self, before: pl.DataFrame, rows: pl.DataFrame, touched: pl.DataFrame, woken: pl.DataFrame, clock: EpochClock
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What to remember and what to hand on, of one call; a time that a key was woken at does not wake it again."""
        given = rows.select(*self.schema, pl.col(TIME).cast(STAMP))
        made, out = self._call(before.with_columns(pl.col(WAKE).cast(STAMP)), given, ApplyClock.of(clock))
        after = self._checked_state(made, touched)
        served = equijoin(after.select(self.by), woken, self.by, "left", maintain_order="left").get_column(WAKE)
        wake = after.get_column(WAKE)
        after = after.with_columns(pl.when(served.is_null() | (wake > served)).then(wake).alias(WAKE))
        times = pl.concat([rows.select(*self.by, TIME), woken.select(*self.by, pl.col(WAKE).alias(TIME))])
        return after, self._placed(*self._timed(out, times), rows, woken, clock)

    def _call(self, before: pl.DataFrame, rows: pl.DataFrame, clock: ApplyClock) -> tuple[pl.DataFrame, pl.DataFrame]:
        try:
            made = self.function(before, rows, clock)
        except RiverrunError as error:
            raise Invalid(f"{self.who}: {error.message}", hint=error.hint) from error
        except Exception as error:
            raise Invalid(f"{self.who} failed{_given(rows)}: {type(error).__name__}: {error}") from error
        if not isinstance(made, tuple) or len(made) != 2 or not all(isinstance(one, pl.DataFrame) for one in made):
            raise Invalid(f"{self.who} must return two Polars frames: what to remember, and what to hand on")
        return made

    def _checked_state(self, after: pl.DataFrame, touched: pl.DataFrame) -> pl.DataFrame:
        wake = [] if WAKE in after.columns else [pl.lit(None, pl.Int64).alias(WAKE)]
        kinds = {**self._key, **self.state}
        rows = self._typed(after.with_columns(wake), {**kinds, WAKE: STAMP}, "what to remember")
        rows = rows.with_columns(pl.col(WAKE).cast(pl.Int64))
        if rows.select(self.by).is_duplicated().any():
            raise Invalid(f"{self.who} remembers a key twice", hint="One row for each key")
        if len(equijoin(rows, touched, self.by, "anti")):
            raise Invalid(f"{self.who} remembers a key that it was not given", hint="Only keys of this step may change")
        return rows

    def _typed(self, frame: pl.DataFrame, kinds: Mapping[str, Any], what: str) -> pl.DataFrame:
        missing = [name for name in kinds if name not in frame.columns]
        if missing:
            raise Invalid(f"{self.who}: {what} has no column {', '.join(map(repr, missing))}: {frame.columns}")
        try:
            return frame.select(pl.col(name).cast(kind) for name, kind in kinds.items())
        except pl.exceptions.PolarsError as error:
            raise Invalid(f"{self.who}: {what} has another type: {str(error).splitlines()[0]}") from None

    def _remember(self, state: State, before: pl.DataFrame, after: pl.DataFrame) -> None:
        by = list(self.by)
        state["remembered"].remove(equijoin(before.select(by), after, by, "anti"))
        state["remembered"].put(after)
        state["wakes"].remove(before.filter(pl.col(WAKE).is_not_null()).select(*by, WAKE))
        state["wakes"].put(after.filter(pl.col(WAKE).is_not_null()).select(*by, WAKE))

    def _timed(self, out: pl.DataFrame, times: pl.DataFrame) -> tuple[pl.DataFrame, Mask]:
        """Results with their event time, and whether they said it: else it is the newest of their key's rows."""
        unsaid = [] if TIME in out.columns else [pl.lit(None, STAMP).alias(TIME)]
        rows = self._typed(out.with_columns(unsaid), {**self.output, TIME: STAMP}, "what to hand on")
        rows = rows.with_columns(pl.col(TIME).cast(pl.Int64))
        said = rows[TIME].is_not_null().to_numpy()
        if not said.all():
            newest = times.group_by(self.by, maintain_order=True).agg(pl.col(TIME).max().alias(_NEWEST))
            rows = equijoin(rows, newest, self.by, "left", maintain_order="left")
            rows = rows.with_columns(pl.coalesce(TIME, _NEWEST).alias(TIME)).drop(_NEWEST)
        if rows[TIME].null_count():
            raise Invalid(
                f"{self.who} hands on a row without a time, or of a key that it was not given",
                hint="Give it a column _time",
            )
        return rows, said

    def _placed(
        self, out: pl.DataFrame, said: Mask, rows: pl.DataFrame, woken: pl.DataFrame, clock: EpochClock
    ) -> pl.DataFrame:
        """Results with when what they stand with was received, and with its id; null where that is no row."""
        place = standing(out, said, rows, self.by)
        stand = take_or_null(pick(rows, [RECEIVED, PARTITION, OFFSET]), place)
        received = constant(RECEIVED, clock.received, pl.Int64(), out.height)
        if self.waited:
            asked = equijoin(out.select(self.by), woken, self.by, "left", maintain_order="left").get_column(WAKE)
            received = asked.fill_null(received)
        received = stand.get_column(RECEIVED).fill_null(received.cast(STAMP))
        return beside(out, [received.alias(RECEIVED), *pick(stand, [PARTITION, OFFSET])])

    def _identified(self, rows: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Rows with ids that no others have, whichever shards they are made in: that of the row they stand with, and
        which of its rows they are. So those of one moment are in the order of the log. Where that does not fit into 62
        bits, or there is no row, it is the key's hash: a shard is chosen by its upper half, all of which is in the id,
        and rows that agree in it are counted. The highest bits of the partition are left to unions, which tell their
        inputs apart by them."""
        nth, offset = counted(pick(rows, [PARTITION, OFFSET])), filled(rows.get_column(OFFSET), _OFFSETS)
        fits = (nth < 1 << _MADE) & (offset < _OFFSETS)
        upper = (hash_columns(rows, self.by) >> np.uint64(32)).astype(np.int64)
        alike = counted(frame_of([series(PARTITION, upper), series(OFFSET, fits)]))
        hashed = (1 << 62) + (clock.epoch << 31) + (alike << 6) + (upper & 63)
        partition = np.where(fits, filled(rows.get_column(PARTITION), 0), upper >> 6).astype(np.int32)
        offset = np.where(fits, (offset << _MADE) + nth, hashed)
        return beside(rows, [series(PARTITION, partition), series(OFFSET, offset)])


def _given(rows: pl.DataFrame) -> str:
    """What a function was given, for who looks for the row that it fails on."""
    if not len(rows):
        return ", woken without new rows"
    return f", given {plural(len(rows), 'row')}, the first with {shown(rows.row(0, named=True))}"
