"""The net effect of weighted rows on a keyed table, whole columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

_BEFORE = "_before"


@dataclass(frozen=True, slots=True)
class Net:
    """What an epoch does to a table; no key is in two of the three, and each is sorted by key.

    `gone`: retracted rows whose key is left without a row. `set`: new rows of keys of which nothing was retracted
    (inserts, or upserts of rows the table has). `old`, `new`: pairs, row by row, of keys whose row is replaced.
    """

    gone: pl.DataFrame
    set: pl.DataFrame
    old: pl.DataFrame
    new: pl.DataFrame


def net(rows: pl.DataFrame, weight: str, key: Sequence[str]) -> Net:
    """The sum of weighted rows. Equal rows cancel; of several that remain for one key the last wins.

    Nulls equal nulls and NaN equals NaN.
    """
    columns = [name for name in rows.columns if name != weight]
    after, before = _one_per_key(rows, weight, key)
    if after.height + before.height < rows.height:
        after, before = _one_per_key(_cancelled(rows, weight, columns), weight, key)
    after, before = after.select(columns).sort(key), before.select(columns)
    if not before.height:
        return Net(before, after, before, after.clear())
    values = [name for name in columns if name not in key]
    marked = before.with_columns(pl.lit(True).alias(_BEFORE))
    joined = after.join(marked, on=key, how="left", nulls_equal=True, maintain_order="left", suffix=_BEFORE)
    paired = joined[_BEFORE].is_not_null()
    pairs = joined.filter(paired)
    if values:
        pairs = pairs.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(name + _BEFORE)) for name in values))
    else:
        pairs = pairs.clear()
    old = pairs.select(pl.col(name if name in key else name + _BEFORE).alias(name) for name in columns)
    gone = before.join(after, on=key, how="anti", nulls_equal=True).sort(key)
    return Net(gone, after.filter(~paired), old, pairs.select(columns))


def _one_per_key(rows: pl.DataFrame, weight: str, key: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    after = rows.filter(pl.col(weight) > 0).unique(key, keep="last", maintain_order=False)
    before = rows.filter(pl.col(weight) < 0).unique(key, keep="first", maintain_order=False)
    return after, before


def _cancelled(rows: pl.DataFrame, weight: str, columns: Sequence[str]) -> pl.DataFrame:
    order = "_order"
    return (
        rows.with_row_index(order)
        .group_by(columns)
        .agg(pl.col(weight).cast(pl.Int64).sum(), pl.col(order).max())
        .filter(pl.col(weight) != 0)
        .sort(order)
        .drop(order)
    )
