"""Folding over many ranges at once equals folding each."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.kernels import ranges
from riverrun.kernels.ranges import Columns, expanded, fold


def plus(left: Columns, right: Columns) -> Columns:
    return (left[0] + right[0],)


def largest(left: Columns, right: Columns) -> Columns:
    return (np.maximum(left[0], right[0]),)


bounds = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=40, max_size=40), bounds)
def test_each_range_gets_its_own(values: list[int], pairs: list[list[int]]) -> None:
    lo, hi = np.array(pairs).T
    column = (np.array(values, np.int64),)
    assert fold(column, lo, hi, plus, [0])[0].tolist() == [sum(values[a:b]) for a, b in pairs]
    assert fold(column, lo, hi, largest, [-100])[0].tolist() == [max([-100, *values[a:b]]) for a, b in pairs]


def test_a_huge_value_harms_no_range_without_it() -> None:
    values = (np.array([1e300, math.inf, math.nan, 1.0, 2.0, 3.0]),)
    lo, hi = np.array([0, 0, 3, 4]), np.array([1, 4, 6, 5])
    assert fold(values, lo, hi, plus, [0.0])[0].tolist() == pytest.approx([1e300, math.nan, 6.0, 2.0], nan_ok=True)


def test_long_ranges_are_expanded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_CHUNK", 10)
    rows = pl.DataFrame({"n": range(20)})
    lo, hi = np.array([0, 2, 5, 0, 19]), np.array([7, 2, 9, 20, 20])
    pieces = list(expanded(rows, lo, hi))
    assert len(pieces) > 1
    both = [(window, n) for piece in pieces for n, window in piece.rows()]
    assert both == [(w, n) for w, (a, b) in enumerate(zip(lo, hi, strict=True)) for n in range(a, b)]
