"""Which runs are merged, and how: the newest version of a row wins; what was released or removed goes.

A new run takes in the runs before it while these are not much larger than what it has gathered so far. So sizes grow
geometrically towards older runs, there are few of them, and a row is rewritten a few times in its life, not in every
epoch.

Runs that follow each other in time, as those of rows that are kept for a while, are left side by side while they are
few: what is read by time finds its run, and old runs go as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from riverrun.state.equality import equal_rows
from riverrun.state.sorted_run import GONE, HASH, Indexes, SortedRun
from riverrun.state.table import TableSpec

ABSORB = 1.5
"""An older run of at most this many times the rows gathered so far is rewritten together with them."""


FEW = 8
"""So many runs may be side by side that follow each other."""


def absorbed(rows: int, older: Sequence[int], follows: bool = False) -> int:
    """How many of the older runs (row counts, newest first) a new run of `rows` rows takes in.

    `follows`: its rows belong behind those of the newest older run.
    """
    if follows and len(older) < FEW:
        return 0
    for count, size in enumerate(older):
        if size > ABSORB * rows:
            return count
        rows += size
    return len(older)


def newest(layers: Sequence[pl.DataFrame], spec: TableSpec) -> pl.DataFrame:
    """One row per key, from the first of `layers` (newest first) that has it; tombstones are rows like others."""
    filled = [layer for layer in layers if not layer.is_empty()]
    if not filled:
        return layers[0]
    if len(filled) == 1:
        return filled[0]
    return pl.concat(filled).unique(subset=list(spec.key), keep="first", maintain_order=True)


def merge(runs: Sequence[SortedRun], spec: TableSpec, low: int | None, whole: bool) -> SortedRun:
    """One run from several, newest first. `whole`: nothing older is left, so tombstones have done their work."""
    if len(runs) == 1 and not (low is not None and runs[0].lo < low) and not (whole and runs[0].tombstones):
        return runs[0]
    layers = [run.scan(None, None).with_columns(pl.Series(HASH, run.hashes)) for run in runs]
    if spec.single:
        for age, older in enumerate(runs):
            keep = np.ones(older.rows, dtype=np.bool_)
            for newer in runs[:age]:
                keep[_replaced(older, newer, spec)] = False
            layers[age] = layers[age].filter(keep)
        rows = pl.concat(layers)
    else:
        rows = newest(layers, spec)
    if spec.bucket and low is not None:
        rows = rows.filter(pl.col(spec.bucket) >= low)
    if whole:
        rows = rows.filter(~pl.col(GONE))
    return SortedRun.build(rows, spec, rows[HASH].to_numpy())


def _replaced(older: SortedRun, newer: SortedRun, spec: TableSpec) -> Indexes:
    """Rows of `older` that `newer` has a version of; for tables with one row per address."""
    probes, rows = older.find(newer.hashes, newer.buckets, None, None)
    columns = [name for name in spec.address if name != spec.bucket]
    return rows[equal_rows(newer.take(probes), older.take(rows), columns)]
