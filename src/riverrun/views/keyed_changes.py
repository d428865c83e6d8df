"""What weighted rows come to for a keyed table: for every key an insert, a delete, or an old row and a new one.

For whatever holds one row per key: views, compacted topics, alerts. Keys make the difference to `kernels.netting`, which
only cancels equal rows, and weights to `kernels.difference`, which compares two tables. `kernels.changes` is an operator
of flows: changes as rows that people see.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from riverrun.state.equality import equal_values
from riverrun.state.frames import Mask, beside, index, keep, pick, series
from riverrun.state.key_order import sort_by_key
from riverrun.views.layout import DELETE, INSERT, NEW, OLD, OP

# Beside columns of any name: those of rows in flows begin with an underscore or are people's, and are never called so.
_RUN, _ORDER, _LAST = "_riverrun:run", "_riverrun:order", "_riverrun:last"


def net(rows: pl.DataFrame, weight: str, key: Sequence[str]) -> pl.DataFrame:
    """The changes that weighted rows add up to, in the column `OP`, sorted by key; every key is there once.

    DELETE: the row retracted from a key that is left without one. OLD, NEW, next to each other: the row retracted and
    the row that replaces it. INSERT: the new row of a key of which nothing was retracted. Equal rows cancel; of several
    that remain for one key the last wins. Nulls equal nulls and NaN equals NaN.
    """
    # One sort brings the rows of a key together; it is also the order stores write fastest in.
    rows = sort_by_key(rows, key)
    first = _begins(rows, key)
    fits = _fit(rows, weight, first)
    if not fits.all():
        runs = beside(rows, [pl.Series(_RUN, np.cumsum(first))])
        is_odd = np.isin(runs[_RUN].to_numpy(), runs[_RUN].to_numpy()[~fits])
        plain, several = keep(runs, ~is_odd), runs.filter(is_odd)
        runs = pl.concat([plain, _cancelled(several, weight)]).sort(_RUN, maintain_order=True)
        first = _changes_value(runs[_RUN])
        rows = runs.drop(_RUN)
    last = np.append(first[1:], True)[: rows.height]
    adds = rows[weight].to_numpy() > 0
    operation = np.where(first & last, np.where(adds, INSERT, DELETE), np.where(first, OLD, NEW)).astype(np.int8)
    columns = [name for name in rows.columns if name != weight]
    changes = beside(pick(rows, columns), [series(OP, operation)])
    return _without_same(changes, operation, [name for name in columns if name not in key])


def _begins(rows: pl.DataFrame, key: Sequence[str]) -> Mask:
    """Which rows are the first of their key, in rows that are sorted by it."""
    begins = np.zeros(rows.height, np.bool_)
    for name in key:
        begins |= _changes_value(rows[name])
    return begins


def _changes_value(column: pl.Series) -> Mask:
    """Which values differ from the one before."""
    if not len(column):
        return np.zeros(0, np.bool_)
    return np.append(True, ~equal_values(column[1:], column[:-1]))


def _fit(rows: pl.DataFrame, weight: str, first: Mask) -> Mask:
    """Rows of keys that have one row, or an old and a new one in this order."""
    last = np.append(first[1:], True)[: rows.height]
    after_first, before_last = np.append(False, first[:-1])[: rows.height], np.append(last[1:], False)[: rows.height]
    weights = rows[weight].to_numpy()
    adds = weights > 0
    fits: Mask = (first | (adds & after_first)) & (last | (~adds & before_last)) & (weights != 0)
    return fits


def _cancelled(rows: pl.DataFrame, weight: str) -> pl.DataFrame:
    """At most one old and one new row for each key, after equal rows have cancelled."""
    adds = pl.col(weight) > 0
    left = (
        rows.with_row_index(_ORDER)
        .group_by(pl.exclude(weight, _ORDER))
        .agg(
            pl.col(weight).cast(pl.Int64).sum().sign(),
            pl.when(adds).then(_ORDER).max().alias(_LAST),
            pl.col(_ORDER).min(),
        )
    )
    old = left.filter(pl.col(weight) < 0).sort(_ORDER).unique(_RUN, keep="first")
    new = left.filter(adds).sort(_LAST).unique(_RUN, keep="last")
    return pl.concat([old, new]).select(rows.columns).cast({weight: rows.schema[weight]})


def _without_same(changes: pl.DataFrame, operation: np.ndarray, values: Sequence[str]) -> pl.DataFrame:
    """Without updates whose old and new row are equal."""
    old = np.flatnonzero(operation == OLD)
    same = np.ones(len(old), np.bool_)
    before, after = index(old), index(old + 1)
    for name in values:
        if not same.any():
            return changes
        same &= equal_values(changes[name][before], changes[name][after])
    stays = np.ones(changes.height, np.bool_)
    stays[old[same]] = stays[old[same] + 1] = False
    return keep(changes, stays)
