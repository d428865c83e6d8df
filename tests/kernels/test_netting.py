"""Netting: what is left of weighted rows is their sum, and the versions of a table's rows."""

from __future__ import annotations

import math
from collections import Counter

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.tables import shown
from riverrun.columns import WEIGHT
from riverrun.kernels.netting import uncancelled, versions

SCHEMA = {"text": pl.String(), "real": pl.Float64(), "all": pl.List(pl.Int64()), WEIGHT: pl.Int8(), "at": pl.Int64()}
VALUES = ["text", "real", "all"]

rows_of = st.lists(
    st.tuples(
        st.sampled_from(["a", None]),
        st.sampled_from([0.0, -0.0, math.nan, None]),
        st.sampled_from([[1, None], [], None]),
        st.sampled_from([1, -1]),
    ),
    max_size=40,
)


def built(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame([(*row, at) for at, row in enumerate(rows)], schema=SCHEMA, orient="row")


@settings(max_examples=150, deadline=None)
@given(rows_of)
def test_the_sum_of_each_row_stays_and_nothing_cancels(rows: list[tuple[object, ...]]) -> None:
    totals: Counter[str] = Counter()
    for *values, weight in rows:
        totals[shown(values)] += weight
    left = uncancelled(built(rows), VALUES)
    kept: dict[str, list[int]] = {}
    for *values, weight in left.select(*VALUES, WEIGHT).rows():
        kept.setdefault(shown(values), []).append(weight)
    assert kept == {row: [total // abs(total)] * abs(total) for row, total in totals.items() if total}
    assert left["at"].is_sorted()


def test_the_first_retraction_and_the_last_insertion_stay() -> None:
    down, up = [("a", 1.0, [], weight) for weight in (-1, 1)]
    assert uncancelled(built([down, up, down]), VALUES)["at"].to_list() == [0]
    assert uncancelled(built([up, down, up]), VALUES)["at"].to_list() == [2]


def test_versions_have_each_key_once() -> None:
    changes = built([("a", 1.0, [], -1), ("a", 2.0, [], 1), ("a", 2.0, [], -1), ("a", 3.0, [], 1), ("a", 4.0, [], 1)])
    old, new = versions(changes, ["text"], VALUES)
    assert (old["real"].to_list(), new["real"].to_list()) == ([1.0], [4.0])
