"""`s.sample(fraction, by)`: a share of the keys, chosen by their hash; it keeps nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from riverrun.kernels.kernel import Counts, EpochClock, Step
from riverrun.state.hashing import hash_columns
from riverrun.state.table import State, TableSpec


@dataclass(frozen=True)
class SampleKernel:
    """Rows whose key hashes into the first `fraction` of all hashes. The ledger counts the others as accepted, too: they
    were read and lead to nothing, as rows that a `where` leaves out."""

    fraction: float
    by: tuple[str, ...]

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {}

    def step(self, state: State, inputs: Mapping[str, pl.DataFrame], clock: EpochClock) -> Step:
        rows = inputs["in"]
        # The upper half of a hash decides the shard: a share of those would be no share of all keys.
        place = (hash_columns(rows, self.by) & np.uint64(0xFFFFFFFF)).astype(np.float64) / 2**32
        return Step(rows.filter(place < self.fraction), {"in": Counts(read=len(rows), accepted=len(rows))})
