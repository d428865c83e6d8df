"""What weighted rows come to for a keyed table: for every key an insert, a delete, or an old row and a new one.

For whatever holds one row per key: views, compacted topics, alerts. Keys make the difference to `kernels.netting`, which
only cancels equal rows, and weights to `kernels.changes`, which compares two tables. `kernels.change_rows` is an operator
of flows: changes as rows that people see.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

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
    rows = _runs(rows.sort(*key, maintain_order=True), key)
    plain, several = _split(rows, weight)
    if several.height:
        plain = pl.concat([plain, _cancelled(several, weight)]).sort(_RUN, maintain_order=True)
    first, last = _edges(plain)
    adds = pl.col(weight) > 0
    op = (
        pl.when(first & last)
        .then(pl.when(adds).then(INSERT).otherwise(DELETE))
        .otherwise(pl.when(first).then(OLD).otherwise(NEW))
    )
    changes = plain.with_columns(op.cast(pl.Int8).alias(OP)).drop(weight, _RUN)
    return _without_same(changes, [name for name in changes.columns if name != OP and name not in key])


def _runs(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    starts = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in key)
    return rows.with_columns(starts.cum_sum().alias(_RUN))


def _edges(rows: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """Which rows are the first, and the last, of their key."""
    run = rows[_RUN]
    return run.ne_missing(run.shift()), run.ne_missing(run.shift(-1))


def _split(rows: pl.DataFrame, weight: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keys with one row, or with an old and a new one in this order; and all others."""
    first, last = _edges(rows)
    adds = rows[weight] > 0
    fits = (first | (adds & first.shift(1, fill_value=False))) & (last | (~adds & last.shift(-1, fill_value=False)))
    fits &= rows[weight] != 0
    if fits.all():
        return rows, rows.clear()
    odd = rows.filter(~fits)[_RUN].unique()
    is_odd = rows[_RUN].is_in(odd.implode())
    return rows.filter(~is_odd), rows.filter(is_odd)


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


def _without_same(changes: pl.DataFrame, values: Sequence[str]) -> pl.DataFrame:
    """Without updates whose old and new row are equal."""
    differs = [pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in values]
    is_old = pl.col(OP) == OLD
    same = is_old & ~pl.any_horizontal(differs) if differs else is_old
    stays = changes.select((~(same | same.shift(1, fill_value=False))).alias(OP)).to_series()
    return changes if stays.all() else changes.filter(stays)
