"""Changes of a view as its store gets them, back as weighted rows; for benchmarks that look at results without a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from riverrun.columns import WEIGHT
from riverrun.views.layout import INSERT, NEW, OP, layout_of
from riverrun.views.settled import Settled
from riverrun.views.spec import ViewSpec

Changes = pa.Table | Sequence[Settled]


def weighted(spec: ViewSpec, changes: Changes) -> pa.Table:
    """The rows that are new, with weight 1, and those that are gone, with weight -1."""
    if isinstance(changes, pa.Table):
        return changes
    parts = [_rows(spec, part) for part in changes]
    return pa.concat_tables(parts) if parts else spec.arrow.append(pa.field(WEIGHT, pa.int64())).empty_table()


def _rows(spec: ViewSpec, part: Settled) -> pa.Table:
    operation = part.batch.column(OP).to_numpy(zero_copy_only=False)
    weights = np.where((operation == INSERT) | (operation == NEW), 1, -1)
    return layout_of(spec).give_back(pa.Table.from_batches([part.batch])).append_column(WEIGHT, pa.array(weights))
