"""`s.join(t, on)`: each row beside the newest version of its key in the table, known when the row is processed.

A version that arrives in the same epoch counts as already there. The answer stands: later versions do not change it,
so it depends on when the row was read, and no row is late.

A stream that retracts gets back what it was answered, not what it would be answered now. Answers are kept for that
until the watermark is past the row; a retraction that comes later is dropped and counted as late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.lateness import in_time
from riverrun.kernels.matching import ID
from riverrun.kernels.sides import Sides
from riverrun.kernels.weights import refuse_retractions, signed
from riverrun.state.equality import equijoin
from riverrun.state.frames import beside, frame_of, keep, null_unless, numbers, pick, true, without_nulls
from riverrun.state.keys import equal_to_any, first_of_each, last_of_each
from riverrun.state.table import FOUND, State, StateTable, TableSpec

_PASSED = (TIME, WEIGHT, PARTITION, OFFSET, RECEIVED)


@dataclass(frozen=True)
class LookupKernel:
    """Rows of "left" beside the table whose weighted changes are "right"; its key is `sides.right_on`.

    The result has the columns of `sides` and the row's own `_time`, `_weight`, `_partition`, `_offset`, `_received`.
    """

    sides: Sides
    how: str
    retracts: bool = False

    def __post_init__(self) -> None:
        if self.how not in ("inner", "left"):
            raise Invalid(f"a join of a stream with a table is inner or left, not {self.how!r}")

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        used, on = self.sides.used("right"), self.sides.right_on
        tables = {"table": TableSpec(used, identity=on, probe=on)}
        if self.retracts:
            route = {f"_on{n}": self.sides.left[name] for n, name in enumerate(self.sides.left_on)}
            answer = {**used, **route, TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}
            tables["answers"] = TableSpec(answer, identity=ID, probe=ID, bucket=TIME, route=tuple(route))
        return tables

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        left, right = inputs["left"], inputs["right"]
        self._update(state["table"], right)
        if not self.retracts:
            refuse_retractions(left, "this join")
        fresh, gone = signed(left)
        answers = self._answers(state["table"], fresh)
        if self.how == "inner":
            answered = true(answers.get_column(FOUND))
            fresh, answers = keep(fresh, answered), keep(answers, answered)
        issued = self._issued(fresh, answers)
        late = 0
        if self.retracts:
            timely = keep(gone, in_time(numbers(gone.get_column(TIME)), clock))
            late = len(gone) - len(timely)
            issued = self._taken_back(state["answers"], timely, issued)
            self._remember(state["answers"], fresh, answers, clock)
        return Step(
            issued,
            {
                "left": Counts(read=len(left), accepted=len(left) - late, late_dropped=late),
                "right": Counts(read=len(right), accepted=len(right)),
            },
        )

    def _update(self, table: StateTable, changes: pl.DataFrame) -> None:
        """Applies the table's changes. A row with a null in its key is never found, and not kept."""
        on = self.sides.right_on
        came, gone = signed(without_nulls(changes, on))
        came = last_of_each(came, on)
        gone = first_of_each(pick(gone, on), on)
        table.remove(keep(gone, ~equal_to_any(gone, came, on)))
        table.put(came)

    def _answers(self, table: StateTable, rows: pl.DataFrame) -> pl.DataFrame:
        """The table's rows beside `rows`, null where there is none, and `_found`."""
        names = zip(self.sides.left_on, self.sides.right_on, strict=True)
        keys = frame_of([rows.get_column(left).alias(right) for left, right in names])
        answers = table.lookup(keys)
        found = true(answers.get_column(FOUND))
        return beside(answers, [null_unless(key, found) for key in keys])

    def _issued(self, rows: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
        return beside(self.sides.joined(rows, answers), pick(rows, _PASSED).get_columns())

    def _taken_back(self, answers: StateTable, gone: pl.DataFrame, issued: pl.DataFrame) -> pl.DataFrame:
        """What was issued for the rows that are `gone`, and what is issued now, without what is in both."""
        if gone.is_empty():
            return issued
        given = answers.probe(gone.select(*ID, TIME).unique())[0].sort(ID)
        rows = gone.join(given.select(*ID, TIME), on=[*ID, TIME], how="semi").sort(ID)
        answers.remove(given)
        old = self._issued(rows, given)
        values = [name for name in old.columns if name != WEIGHT]
        return pl.concat(
            [
                equijoin(old, issued, values, "anti", maintain_order="left"),
                equijoin(issued, old, values, "anti", maintain_order="left"),
            ]
        )

    def _remember(self, kept: StateTable, rows: pl.DataFrame, answers: pl.DataFrame, clock: EpochClock) -> None:
        on = [rows[name].alias(f"_on{n}") for n, name in enumerate(self.sides.left_on)]
        given = answers.with_columns(*rows.select(TIME, *ID).get_columns(), *on)
        kept.put(given.filter(pl.col(TIME) >= clock.end))
        kept.release(clock.end)
