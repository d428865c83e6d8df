"""Aggregates over the multiset of a cell's values: items with how often each is there, and results computed from them.

An item is a value; for collect (and first and last, where rows can be retracted) it is a value with its place in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from riverrun.columns import OFFSET, PARTITION, TIME, WEIGHT
from riverrun.kernels.aggregates.agg import Agg
from riverrun.state.equality import equijoin
from riverrun.state.frames import beside, cast, frame_of, keep, numbers, pick, series, take
from riverrun.state.hashing import quick_hashes
from riverrun.state.keys import group_rows

VALUE = "_value"
TIMES = "_n"


@dataclass(frozen=True)
class Items:
    """The items of one aggregate. `retracts`: rows can be taken back, so log order is no part of an item."""

    agg: Agg
    kind: pl.DataType
    retracts: bool

    @cached_property
    def columns(self) -> Mapping[str, pl.DataType]:
        """What identifies an item."""
        if self.agg.fn == "quantile":
            return {VALUE: pl.Float64()}
        if self.agg.fn == "collect" and not self.retracts:
            return {TIME: pl.Int64(), PARTITION: pl.Int64(), OFFSET: pl.Int64(), VALUE: self.kind}
        if self.agg.fn in ("first", "last", "collect"):
            return {TIME: pl.Int64(), VALUE: self.kind}
        return {VALUE: self.kind}

    def of(self, rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """The items of every cell with the net of their weights; those that cancel are left out."""
        counts = self.agg.chosen(rows) if self.agg.fn in ("first", "last") else self.agg.counted(rows)
        sources = {name: self.agg.column or "" if name == VALUE else name for name in self.columns}
        columns = pick(rows, dict.fromkeys([*key, *sources.values(), WEIGHT]))
        if counts is not None:
            columns = keep(columns, counts)
        named = [cast(columns.get_column(sources[name]), kind).alias(name) for name, kind in self.columns.items()]
        times = cast(columns.get_column(WEIGHT), pl.Int64()).alias(TIMES)
        return self.summed(frame_of([*pick(columns, key), *named, times]), key)

    def summed(self, items: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """Each item once, with the sum of its weights."""
        names = [*key, *self.columns]
        if self.kind.is_nested():
            each = items.group_by(names, maintain_order=True).agg(pl.col(TIMES).sum())
        else:
            groups = group_rows(items, names, quick_hashes(items, names))
            order = groups.as_they_came()
            sums = np.add.reduceat(numbers(items.get_column(TIMES))[groups.order], groups.starts)
            each = beside(take(pick(items, names), groups.first[order]), [series(TIMES, sums[order])])
        return keep(each, numbers(each.get_column(TIMES)) != 0) if self.retracts else each

    def results(self, items: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """The aggregate of every cell that has items: `key` and a column named after it."""
        items = items.filter(pl.col(TIMES) > 0)
        name = self.agg.name
        if self.agg.fn == "distinct":
            return items.group_by(key, maintain_order=True).agg(pl.len().cast(pl.Int64).alias(name))
        if self.agg.fn == "quantile":
            return quantiles(items, key, self.agg.q or 0.0, name)
        if self.agg.fn == "collect":
            order = [column for column in self.columns if column != VALUE or not self.kind.is_nested()]
            each = items.sort(order, maintain_order=True)
            if (each[TIMES] > 1).any():
                each = each[np.repeat(np.arange(each.height), each[TIMES].to_numpy())]
            return each.group_by(key, maintain_order=True).agg(pl.col(VALUE).alias(name))
        if self.agg.fn == "top":
            each = items.sort([TIMES, VALUE], descending=[True, False], maintain_order=True)
            entry = pl.struct(pl.col(VALUE).alias("value"), pl.col(TIMES).alias("count"))
            return each.group_by(key, maintain_order=True).agg(entry.head(self.agg.n or 0).alias(name))
        return self.ends(items, key).select(*key, pl.col(VALUE).alias(name))

    def ends(self, items: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """The first item in the aggregate's order (for max and last: the last), one row per cell."""
        keep = "last" if self.agg.fn in ("max", "last") else "first"
        ordered = items.sort(list(self.columns), maintain_order=True)
        return ordered.unique(subset=list(key), keep=keep, maintain_order=True)  # type: ignore[arg-type]


def quantiles(items: pl.DataFrame, key: Sequence[str], q: float, name: str) -> pl.DataFrame:
    """The exact quantile of weighted values, linear between the two nearest ranks, as Spark's `percentile`."""
    cells = items.group_by(key, maintain_order=True).agg(pl.col(TIMES).sum().alias("_total"))
    numbered = cells.select(key).with_row_index("_nth")
    ordered = equijoin(items, numbered, key, "left").sort("_nth", VALUE)
    values, seen = ordered[VALUE].to_numpy(), np.cumsum(ordered[TIMES].to_numpy())
    total = cells["_total"].to_numpy()
    start = np.cumsum(total) - total
    position = q * (total - 1)
    below, above = np.floor(position), np.ceil(position)
    # the value at rank r of a cell is the first one with more than start + r values up to it
    low = values[np.searchsorted(seen, start + below.astype(np.int64), side="right")]
    high = values[np.searchsorted(seen, start + above.astype(np.int64), side="right")]
    with np.errstate(invalid="ignore"):
        between = (above - position) * low + (position - below) * high
    found = np.where((above == below) | (low == high), low, between)
    return cells.select(key).with_columns(pl.Series(name, found, dtype=pl.Float64))
