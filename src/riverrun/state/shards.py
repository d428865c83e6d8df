"""Which shard a row belongs to: by a hash of the columns that bring rows together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.state.hashing import hash_columns

Numbers = npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


def shard_numbers(rows: pl.DataFrame, route: Sequence[str], shards: int) -> Numbers:
    """The shard of each row; without columns to go by, all are in the first."""
    kind = np.min_scalar_type(shards)  # small numbers are sorted by counting them
    if not route or shards == 1:
        return np.zeros(rows.height, kind)
    return ((hash_columns(rows, route) >> np.uint64(32)) % np.uint64(shards)).astype(kind)
