"""`s.as_of(t, on)`: each row beside the version of its key that was valid at the row's time.

That is the newest version with a time not after the row's; of versions with the same time, the later in the log. A
deletion is a version too: from its time on there is none.

With `wait`, a row is answered when the watermark has passed it, once. Rows and versions older than the watermark at the
epoch's start are late: dropped and counted.
Without, a row is answered in its own epoch from what has been read so far, and answered again, the old answer taken
back, when a version arrives that changes it. Rows and versions count until the watermark is `horizon` past them; older
ones are late: dropped and counted.

A derived table shows changes, not a log: an inserted row is a version at its `_time`, in place of an earlier one of
that time; a key that is retracted and not inserted in the same epoch is deleted at that `_time`. Such a deletion is
never late: it counts from the oldest time that can still be answered, if not from its own.

A retraction on the left takes back the answer that stands. It reaches `horizon` behind the watermark in both ways;
what is older is dropped and counted as late.

Of versions older than the watermark by more than `horizon`, the newest of each key is kept; rows are kept that long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from riverrun.columns import AFTER, BEFORE, OFFSET, PARTITION, RECEIVED, TIME, VERSION, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.changes import refuse_retractions
from riverrun.kernels.kernel import MAX_TIME, Counts, EpochClock, Step
from riverrun.kernels.matching import ID, STAMP, KeptRows, Numbers, log_order, marked, replaced, slices
from riverrun.kernels.sides import Sides
from riverrun.kernels.versions import Versions
from riverrun.state.equality import equijoin
from riverrun.state.frames import series
from riverrun.state.table import State, StateTable, TableSpec

_HIDDEN = {TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64(), RECEIVED: STAMP}


@dataclass(frozen=True)
class AsOfKernel:
    """Rows of "left" beside versions of "right", whose key is `sides.right_on`: with `changelog` rows of the table's
    topic with `_deleted`, none left out, else weighted changes. A right column `_version` is the version's id.

    The result has the columns of `sides` and the row's own `_time`, `_partition`, `_offset`, `_received`.
    """

    sides: Sides
    how: str
    horizon: int
    wait: bool
    changelog: bool
    retracts: bool = False

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left"):
            raise Invalid(f"an as_of join is inner or left, not {self.how!r}")

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"rows": self._rows.spec, **self._versions.tables}

    @cached_property
    def _sides(self) -> Sides:
        return replace(self.sides, right={**self.sides.right, VERSION: pl.String()})

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self.sides.right_on, self._sides.used("right"), self.horizon, self.changelog)

    @cached_property
    def _rows(self) -> KeptRows:
        """Rows that may be answered again, taken back, or still have to be answered."""
        columns = pl.Schema({**self.sides.used("left"), **_HIDDEN})
        return KeptRows(columns, self.sides.left_on, self.horizon if self.retracts or not self.wait else 0)

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        left, right, versions = inputs["left"], inputs["right"], self._versions
        if not self.retracts:
            refuse_retractions(left, "as_of")
        oldest = clock.start - (0 if self.wait else self.horizon)
        arrived = versions.arrived(right, clock, oldest)
        accepted = arrived.filter(pl.col(TIME) >= oldest)
        came = versions.winning(state, accepted)
        bound = pl.when(pl.col(WEIGHT) > 0).then(oldest).otherwise(clock.start - self.horizon)
        timely = left.filter(pl.col(TIME) >= bound)
        taken, fresh = self._arrivals(state["rows"], timely)
        if self.wait:
            rows = self._waiting(state["rows"], taken, fresh, clock)
        else:
            rows = self._at_once(state["rows"], taken, fresh, came)
        changes = self._changes(state, rows, came, clock)
        versions.keep(state, came, clock)
        late = len(arrived) - len(accepted)
        counts = {
            "left": Counts(read=len(left), accepted=len(timely), late_dropped=len(left) - len(timely)),
            "right": Counts(read=len(right), accepted=len(right) - late, late_dropped=late),
        }
        self._rows.update(state["rows"], taken, fresh, clock.end - self._rows.time)
        return Step(changes, counts)

    def _arrivals(self, table: StateTable, arrived: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Stored rows that are taken back, and rows that come."""
        columns = self._rows.columns
        fresh, gone = (
            arrived.filter(sign).select(columns.names()).cast(columns)
            for sign in (pl.col(WEIGHT) > 0, pl.col(WEIGHT) < 0)
        )
        return replaced(self._rows, table, fresh, gone)

    def _at_once(self, table: StateTable, taken: pl.DataFrame, fresh: pl.DataFrame, came: pl.DataFrame) -> pl.DataFrame:
        """Rows that come and go, and those whose answer new versions may change."""
        first = came.group_by(self.sides.right_on).agg(pl.col(TIME).min().alias("_from"))
        first = first.rename(dict(zip(self.sides.right_on, self.sides.left_on, strict=True)))
        on, found = list(self.sides.left_on), []
        for part in slices(first["_from"].to_numpy(), self.horizon // 16):
            keys = first if part is None else first.filter(part)
            held = self._rows.probe(table, keys.select(on), int(keys["_from"].to_numpy().min()), MAX_TIME)
            found.append(equijoin(held, keys, on).filter(pl.col(TIME) >= pl.col("_from")))
        staying = pl.concat([fresh.clear(), *(part.select(fresh.columns) for part in found)])
        staying = staying.join(taken, on=ID, how="anti") if len(taken) else staying
        return pl.concat([marked(staying, True, True), marked(taken, True, False), marked(fresh, False, True)])

    def _waiting(self, table: StateTable, taken: pl.DataFrame, fresh: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        """Rows that the watermark passes, and those taken back after it has passed them."""
        due = self._rows.scan(table, clock.start, clock.end)
        due = due.join(taken, on=ID, how="anti") if len(taken) else due
        due = pl.concat([due, fresh.filter(pl.col(TIME) < clock.end)])
        return pl.concat([marked(taken.filter(pl.col(TIME) < clock.start), True, False), marked(due, False, True)])

    def _changes(self, state: State, rows: pl.DataFrame, came: pl.DataFrame, clock: EpochClock) -> pl.DataFrame:
        rows = rows[log_order(rows)]
        known, old, new = self._versions.valid(state, rows, self.sides.left_on, came, clock)
        before, after = rows[BEFORE].to_numpy(), rows[AFTER].to_numpy()
        same = before & after & (old == new)
        shown = self.how == "left"
        back = before & ~same & (shown | (old >= 0))
        again = after & ~same & (shown | (new >= 0))
        taken_back = self._issued(rows.filter(back), known, old[back], -1)
        # only what was there before can come again as it was, and rows that replace others
        contested = again & (before | bool((before & ~after).any()))
        answers = self._issued(rows.filter(contested), known, new[contested], 1)
        values = [name for name in answers.columns if name != WEIGHT]
        if len(taken_back) and len(answers):
            unchanged = equijoin(answers, taken_back, values, "semi")
            taken_back = equijoin(taken_back, unchanged, values, "anti", maintain_order="left")
            answers = equijoin(answers, unchanged, values, "anti", maintain_order="left")
        first = again & ~contested
        answers = pl.concat([answers, self._issued(rows.filter(first), known, new[first], 1)])
        return pl.concat([taken_back, answers[log_order(answers)] if contested.any() else answers])

    def _issued(self, rows: pl.DataFrame, known: pl.DataFrame, version: Numbers, weight: int) -> pl.DataFrame:
        """Rows beside the versions with these numbers; -1 is none."""
        place = series("", version).cast(pl.UInt32, strict=False)
        answers = known.select(pl.all().gather(place)) if len(known) else known.clear(len(rows))
        return self._sides.joined(rows, answers).with_columns(
            rows[TIME], pl.lit(weight, pl.Int8).alias(WEIGHT), rows[PARTITION], rows[OFFSET], rows[RECEIVED]
        )
