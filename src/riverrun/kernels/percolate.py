"""`s.percolate(queries, text)`: each row beside the stored searches that it meets, of those known when it is processed.

A query that comes or changes in the same epoch counts as already there. What was found stands: queries that come, change or
go later do not change it, so it depends on when the row was read, and no row is late. That is what `s.join(t, on)` means, too.

A stream that retracts gets back what was found for a row, not what would be found now. That is kept until the watermark is
past the row; a retraction that comes later is dropped and counted as late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, RECEIVED, TIME, WEIGHT
from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.kernels.lateness import in_time
from riverrun.kernels.matching import ID
from riverrun.kernels.sides import Sides
from riverrun.kernels.stored_queries import StoredQueries
from riverrun.kernels.weights import refuse_retractions, signed
from riverrun.search.fields import search_fields
from riverrun.search.index import SearchIndex
from riverrun.search.words import Analyzer
from riverrun.state.equality import equijoin
from riverrun.state.frames import beside, keep, numbers, pick, series, take
from riverrun.state.hashing import hash_columns
from riverrun.state.table import State, StateTable, TableSpec

_PASSED = (TIME, WEIGHT, RECEIVED)
_ROW = "_row"


@dataclass(frozen=True)
class PercolateKernel:
    """Rows of "left" beside the queries of the table whose weighted changes are "right", and whose key is `key`.

    Words are looked for in the columns `text`. The result has the columns of `sides`, the row's own `_time`, `_weight` and
    `_received`, and an id made of those of row and query.
    """

    sides: Sides
    key: tuple[str, ...]
    query: str
    text: tuple[str, ...]
    fold: bool = False
    language: str | None = None
    retracts: bool = False

    @cached_property
    def tables(self) -> Mapping[str, TableSpec]:
        tables = self._queries.tables
        if self.retracts:
            found = {**self.sides.used("right"), TIME: pl.Int64(), PARTITION: pl.Int32(), OFFSET: pl.Int64()}
            tables["found"] = TableSpec(found, identity=(*ID, *self.key), probe=ID, bucket=TIME, route=())
        return tables

    @cached_property
    def _queries(self) -> StoredQueries:
        fields = search_fields(self.sides.left, self.text)
        analyzer = Analyzer(self.fold, self.language)
        return StoredQueries(self.sides.used("right"), self.key, self.query, fields, analyzer)

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        left, right = inputs["left"], inputs["right"]
        if not self.retracts:
            refuse_retractions(left, "percolate")
        if left.is_empty() and right.is_empty():
            return Step(self._none, {"left": Counts(), "right": Counts()})
        index, unread = self._queries.update(state, right)
        fresh, gone = signed(left)
        rows, queries = self._meetings(index, fresh)
        issued = self._issued(rows, queries)
        late = 0
        if self.retracts:
            timely = keep(gone, in_time(numbers(gone.get_column(TIME)), clock))
            late = len(gone) - len(timely)
            issued = self._taken_back(state["found"], timely, issued)
            self._remember(state["found"], rows, queries, clock)
        bad = len(unread)
        return Step(
            issued,
            {
                "left": Counts(read=len(left), accepted=len(left) - late, late_dropped=late),
                "right": Counts(read=len(right), accepted=len(right) - bad, quarantined=bad),
            },
            quarantined={"right": unread},
            figures={"queries": len(index), "tried on every row": index.loose},
        )

    @cached_property
    def _none(self) -> pl.DataFrame:
        kinds = (pl.Int64(), pl.Int8(), pl.Datetime("us", "UTC"), pl.Int32(), pl.Int64())
        hidden = dict(zip((*_PASSED, *ID), kinds, strict=True))
        return pl.DataFrame(schema={**self.sides.schema, **hidden})

    def _meetings(self, index: SearchIndex, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows and the queries that they meet, side by side, in the order of the rows and of the queries' keys."""
        at, slots = index.match(rows)
        queries = index.rows(slots)
        order = beside(pick(queries, self.key), [series(_ROW, at)]).select(pl.arg_sort_by(_ROW, *self.key)).to_series()
        places = order.to_numpy().astype(np.int64)
        return take(rows, at[places]), take(queries, places)

    def _issued(self, rows: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
        ids = beside(pick(queries, self.key), pick(rows, ID).get_columns())
        names = [*ID, *self.key]
        partition = (hash_columns(ids, names[::-1]) >> np.uint64(33)).astype(np.int32)
        offset = (hash_columns(ids, names) >> np.uint64(1)).astype(np.int64)
        passed = pick(rows, _PASSED).get_columns()
        return beside(self.sides.joined(rows, queries), [*passed, series(PARTITION, partition), series(OFFSET, offset)])

    def _taken_back(self, found: StateTable, gone: pl.DataFrame, issued: pl.DataFrame) -> pl.DataFrame:
        """What was issued for the rows that are `gone`, and what is issued now, without what is in both."""
        if gone.is_empty():
            return issued
        given = found.probe(gone.select(*ID, TIME).unique())[0].sort(*ID, *self.key)
        rows = given.select(*ID, TIME).join(gone, on=[*ID, TIME], how="left", maintain_order="left")
        found.remove(given)
        old = self._issued(rows, pick(given, self.sides.used("right")))
        values = [name for name in old.columns if name != WEIGHT]
        return pl.concat(
            [
                equijoin(old, issued, values, "anti", maintain_order="left"),
                equijoin(issued, old, values, "anti", maintain_order="left"),
            ]
        )

    def _remember(self, kept: StateTable, rows: pl.DataFrame, queries: pl.DataFrame, clock: EpochClock) -> None:
        found = beside(queries, pick(rows, (TIME, *ID)).get_columns())
        kept.put(found.filter(pl.col(TIME) >= clock.end))
        kept.release(clock.end)
