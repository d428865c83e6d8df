"""The aggregates of a node: what is kept per cell, and the results from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.aggregates.agg import Agg
from riverrun.kernels.aggregates.items import Items
from riverrun.kernels.aggregates.parts import Count, Extreme, Part, reduce, reduce_groups
from riverrun.kernels.aggregates.scalars import ROWS, Counting, Edges, ExactSum, FloatSum, MinMax, ScalarAggregate
from riverrun.kernels.aggregates.sketches import Sketched
from riverrun.state.equality import equijoin
from riverrun.state.frames import cast, frame_of, pick
from riverrun.state.keys import KeyGroups

LATEST = "_latest"
"""Part of cells that are `timed`: the largest event time of their rows, retracted ones included."""

_LISTS = ("collect", "top")


@dataclass(frozen=True)
class Aggregates:
    """Aggregates over rows with the columns `columns`. `span` is the length of a window in microseconds, for rate.

    `retracts` says that rows can be taken back; then min, max, first and last keep all values, approximate aggregates
    are refused, and values of one event time are ordered by value instead of log order.
    """

    aggs: tuple[Agg, ...]
    columns: Mapping[str, pl.DataType]
    span: int | None = None
    retracts: bool = False
    timed: bool = False

    def __post_init__(self) -> None:
        for agg in self.aggs:
            agg.check(self.columns)
            if agg.fn == "rate" and not self.span:
                raise Invalid(f"{agg.name}: a rate is per window, and these rows have no window of fixed length")
            if agg.fn.startswith("approx") and self.retracts:
                raise Invalid(
                    f"{agg.name}: {agg.fn} cannot take rows back", hint=f"Use {agg.fn.removeprefix('approx_')}"
                )
        names = [agg.name for agg in self.aggs]
        if len(set(names)) < len(names):
            raise Invalid(f"two aggregates have one name: {', '.join(names)}")

    @cached_property
    def schema(self) -> Mapping[str, pl.DataType]:
        """The result columns."""
        return {agg.name: agg.result(self.columns) for agg in self.aggs}

    @cached_property
    def scalars(self) -> tuple[ScalarAggregate, ...]:
        """The aggregates that are made of parts."""
        return tuple(scalar for agg in self.aggs if (scalar := self._scalar(agg)) is not None)

    @cached_property
    def items(self) -> tuple[Items, ...]:
        """The aggregates that need the multiset of values."""
        return tuple(
            Items(agg, agg.kind(self.columns), self.retracts) for agg in self.aggs if self._scalar(agg) is None
        )

    def _scalar(self, agg: Agg) -> ScalarAggregate | None:
        kind = agg.kind(self.columns)
        match agg.fn:
            case "count":
                return Counting(agg)
            case "rate":
                return Counting(agg, self.span)
            case "sum" | "avg" if isinstance(kind, pl.Decimal):
                return ExactSum(agg, pl.Decimal(min(kind.precision + 10, 38), kind.scale))
            case "sum" if kind.is_integer():
                return ExactSum(agg, pl.Int64())
            case "sum" | "avg" | "stddev":
                return FloatSum(agg, wide=kind == pl.Float64)
            case "min" | "max" if not self.retracts:
                return MinMax(agg, kind)
            case "first" | "last" if not self.retracts:
                return Edges(agg, kind)
            case "approx_distinct" | "approx_quantile":
                return Sketched(agg)
        return None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        own: list[Part] = [Count(ROWS)] + ([Extreme(LATEST, pl.Int64(), largest=True)] if self.timed else [])
        return (*own, *[part for scalar in self.scalars for part in scalar.parts])

    def partial(self, rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """`key` and the parts of every distinct one, in the order of first appearance."""
        return reduce(frame_of([*pick(rows, key), *self._columns(rows)]), key, self.parts)

    def of_groups(self, rows: pl.DataFrame, groups: KeyGroups) -> pl.DataFrame:
        """The parts of every group of rows."""
        return reduce_groups(frame_of(self._columns(rows)), groups, self.parts)

    def _columns(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The parts of every single row."""
        columns = [cast(rows.get_column(WEIGHT), pl.Int64()).alias(ROWS)]
        if self.timed:
            columns.append(rows.get_column(TIME).alias(LATEST))
        return columns + [column for scalar in self.scalars for column in scalar.columns(rows)]

    def results(self, cells: pl.DataFrame, items: Mapping[str, pl.Series]) -> pl.DataFrame:
        """The result columns from the parts of cells, and from the results of multisets, aligned with them."""
        computed = {scalar.agg.name: scalar.result(cells) for scalar in self.scalars} | dict(items)
        return frame_of([cast(computed[name], kind) for name, kind in self.schema.items()])

    def item_results(self, items: Items, found: pl.DataFrame, cells: pl.DataFrame) -> pl.Series:
        """The results of one multiset aggregate for all `cells` (distinct keys); `found` are their items."""
        key = cells.columns
        results = equijoin(cells, items.results(found, key), key, "left", maintain_order="left")
        return self.filled(items.agg, results[items.agg.name])

    def filled(self, agg: Agg, results: pl.Series) -> pl.Series:
        """What an aggregate is without values: 0 different ones, an empty list, or null."""
        if agg.fn == "distinct":
            return results.fill_null(0)
        if agg.fn in _LISTS:
            empty = pl.lit(pl.Series([[]], dtype=agg.result(self.columns))).first()
            return results.to_frame().select(pl.col(results.name).fill_null(empty)).to_series()
        return results

    def over(self, rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """One row of results per distinct `key`; `rows` stay, and are in the order that counts."""
        order = [pl.lit(0, pl.Int64).alias(TIME), pl.lit(0, pl.Int64).alias(PARTITION)]
        rows = rows.with_columns(*order, pl.int_range(pl.len()).alias(OFFSET), pl.lit(1, pl.Int64).alias(WEIGHT))
        cells = self.partial(rows, key)
        keys = cells.select(key)
        items = {i.agg.name: self.item_results(i, i.of(rows, key), keys) for i in self.items}
        return keys.hstack(self.results(cells, items).get_columns())
