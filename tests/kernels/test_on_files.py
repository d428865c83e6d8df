"""Kernels give the same changes, in the same order, whether their state is in memory or in files."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from oracles.epochs import frame, play
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.dedupe import DedupeKernel
from riverrun.kernels.kernel import Kernel
from riverrun.kernels.latest import LatestKernel
from riverrun.kernels.session import SessionKernel
from riverrun.kernels.sliding import SlidingKernel

SCHEMA: dict[str, pl.DataType] = {"user": pl.String(), "n": pl.Int64()}
TOTALS = Aggregates((Agg("rows", "count"), Agg("mean", "avg", "n"), Agg("numbers", "collect", "n")), SCHEMA)
MERGED = Aggregates((Agg("rows", "count"), Agg("last", "last", "n"), Agg("least", "min", "n")), SCHEMA)
KERNELS: dict[str, Kernel] = {
    "dedupe": DedupeKernel(("user",), 30, SCHEMA),
    "latest": LatestKernel(("user",), SCHEMA),
    "session": SessionKernel(("user",), 20, TOTALS, SCHEMA),
    "session, merged": SessionKernel(("user",), 20, MERGED, SCHEMA),
    "session, merged and corrected": SessionKernel(("user",), 20, MERGED, SCHEMA, horizon=60, update=True),
    "session, corrected": SessionKernel(("user",), 20, TOTALS, SCHEMA, horizon=60, update=True),
    "sliding": SlidingKernel(("user",), 50, TOTALS, SCHEMA),
    "sliding, corrected": SlidingKernel(("user",), 50, TOTALS, SCHEMA, horizon=60),
}


@pytest.mark.parametrize("name", KERNELS)
def test_state_in_files_gives_the_same_changes(name: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    users = [*(f"u{n}" for n in range(40)), None]
    epochs = []
    for epoch in range(12):
        rows = [
            (chance.choice(users), chance.randrange(9), chance.randrange(epoch * 50, epoch * 50 + 120))
            for _ in range(80)
        ]
        epochs.append((frame(rows, SCHEMA, epoch * 80), epoch * 50))
    in_memory = play(KERNELS[name], epochs, ["user"])
    in_files = play(KERNELS[name], epochs, ["user"], tmp_path)
    for one, other in zip(in_memory.changes, in_files.changes, strict=True):
        assert one.equals(other)
    assert in_memory.counts == in_files.counts
