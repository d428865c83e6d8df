"""Weighted changes of a table: what turns the rows it had into the rows it has."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from riverrun.columns import WEIGHT
from riverrun.errors import Invalid
from riverrun.kernels.windows import weighted
from riverrun.state.equality import equijoin
from riverrun.state.frames import numbers


def difference(old: pl.DataFrame, new: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The net changes from `old` to `new`, sorted by `key`, retractions (-1) before insertions (+1).

    Both have the same columns, and each row once. Rows in both do not appear; null equals null, NaN equals NaN.
    """
    columns = new.columns
    if old.is_empty() and new.is_empty():
        return weighted(new, 1)
    gone = equijoin(old.select(columns), new, columns, "anti")
    came = equijoin(new, old, columns, "anti")
    return pl.concat([weighted(gone, -1), weighted(came, 1)]).sort(*key, WEIGHT, maintain_order=True)


def refuse_retractions(rows: pl.DataFrame, operator: str) -> None:
    """An operator that must see each row once and for all says so when it gets anything else."""
    if (numbers(rows.get_column(WEIGHT)) < 0).any():
        raise Invalid(
            f"{operator} got a retraction, but works on rows that stay",
            hint=f"Put {operator} before the operator that corrects its results",
        )
