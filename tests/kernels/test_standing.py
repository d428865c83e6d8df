"""Where rows that a function made stand among those it was given."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from riverrun.kernels.standing import standing

GIVEN = [("a", 5), ("b", 5), ("a", 7), ("a", 5), (None, 5)]


def frame(rows: list[tuple[str | None, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"k": pl.String, "_time": pl.Int64}, orient="row")


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ([("a", 5), ("a", 7), ("a", 5), ("b", 5), (None, 5)], [0, 2, 3, 1, 4]),  # the second of a time with the second
        ([("a", 5), ("a", 5), ("a", 5)], [0, 3, 3]),  # and what is beyond, with the last of that time
        ([("a", 6), ("a", 7), ("a", 8)], [2, 2, 3]),  # no row has that time: with what follows, or with the key's last
        ([("c", 5)], [-1]),
        ([], []),
    ],
)
def test_a_row_stands_with_the_one_of_its_key_and_time(made: list[tuple[str | None, int]], wanted: list[int]) -> None:
    said = np.ones(len(made), np.bool_)
    assert standing(frame(made), said, frame(GIVEN), ["k"]).tolist() == wanted


def test_a_time_that_was_not_said_does_not_count() -> None:
    said = np.array([False, True, False])
    assert standing(frame([("a", 5), ("a", 7), ("a", 5)]), said, frame(GIVEN), ["k"]).tolist() == [2, 2, 3]


def test_keys_that_were_given_no_rows_stand_nowhere() -> None:
    assert standing(frame([("a", 5)]), np.array([True]), frame([]), ["k"]).tolist() == [-1]
