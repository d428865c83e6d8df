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

from riverrun.state.frames import Mask, numbers, stack, take
from riverrun.state.hashing import Hashes, can_hash, combine, hash_columns
from riverrun.state.keys import group_rows
from riverrun.state.order import Indexes
from riverrun.state.sorted_run import SortedRun
from riverrun.state.table import TableSpec

ABSORB = 1.5
"""An older run of at most this many times the rows gathered so far is rewritten together with them."""


FEW = 8
"""So many runs may be side by side that follow each other."""


def absorbed(rows: int, older: Sequence[int], follows: bool = False) -> int:
    """How many of the older runs (row counts, newest first) a new run of `rows` rows takes in.

    `follows`: its rows belong after those of the newest older run.
    """
    if follows and len(older) < FEW:
        return 0
    for count, size in enumerate(older):
        if size > ABSORB * rows:
            return count
        rows += size
    return len(older)


def newest(rows: pl.DataFrame, hashes: Hashes, spec: TableSpec) -> Indexes:
    """The first row of each key, in the order of `hashes`, those of the probe columns."""
    more = [name for name in spec.key if name not in spec.probe]
    if spec.bucket in more:
        hashes = combine(hashes, numbers(rows.get_column(spec.bucket)))
        more.remove(spec.bucket)
    more = [name for name in more if can_hash(spec.schema[name])]  # all columns are compared, whatever their hashes
    return group_rows(rows, spec.key, hash_columns(rows, more, hashes) if more else hashes).first


def merge(runs: Sequence[SortedRun], spec: TableSpec, low: int | None, whole: bool) -> SortedRun:
    """One run from several, newest first. `whole`: nothing older is left, so tombstones have done their work."""
    if len(runs) == 1 and not (low is not None and runs[0].lo < low) and not (whole and runs[0].gone is not None):
        return runs[0]
    rows, hashes, gone = stack([run.frame for run in runs]), np.concatenate([run.hashes for run in runs]), marks(runs)
    chosen = newest(rows, hashes, spec) if len(runs) > 1 else np.arange(rows.height)
    if spec.bucket and low is not None:
        chosen = chosen[numbers(rows.get_column(spec.bucket))[chosen] >= low]
    if gone is not None and whole:
        chosen = chosen[~gone[chosen]]
        gone = None
    return SortedRun.build(take(rows, chosen), spec, hashes[chosen], None if gone is None else gone[chosen])


def marks(runs: Sequence[SortedRun]) -> Mask | None:
    """The tombstones of several runs, one after the other."""
    if all(run.gone is None for run in runs):
        return None
    return np.concatenate([np.zeros(run.rows, np.bool_) if run.gone is None else run.gone for run in runs])
