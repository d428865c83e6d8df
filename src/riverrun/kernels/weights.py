"""Weights of rows: 1 for what comes, -1 for what is taken back."""

from __future__ import annotations

import polars as pl

from riverrun.columns import WEIGHT
from riverrun.errors import Invalid
from riverrun.state.frames import beside, constant, keep, numbers, stack


def weighted(rows: pl.DataFrame, weight: int) -> pl.DataFrame:
    """Rows with this weight."""
    return beside(rows, [constant(WEIGHT, weight, pl.Int8(), rows.height)])


def changes_of(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """What is taken back, and what comes instead, as weighted rows."""
    return stack([weighted(old, -1), weighted(new, 1)])


def signed(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Inserted and retracted rows."""
    inserted = numbers(rows.get_column(WEIGHT)) > 0
    return keep(rows, inserted), keep(rows, ~inserted)


def refuse_retractions(rows: pl.DataFrame, operator: str) -> None:
    """An operator that must see each row once and for all says so when it gets anything else."""
    if (numbers(rows.get_column(WEIGHT)) < 0).any():
        raise Invalid(
            f"{operator} got a retraction, but works on rows that stay",
            hint=f"Put {operator} before the operator that corrects its results",
        )
