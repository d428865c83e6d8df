"""Ranges of rows: blocks give what writing every row out gives, for every aggregate."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from riverrun.kernels import ranges
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.ranges import in_pieces, over_ranges, trailing

COLUMNS: dict[str, pl.DataType] = {"n": pl.Int64(), "x": pl.Float64(), "name": pl.String(), "good": pl.Boolean()}
AGGREGATES = Aggregates(
    (
        Agg("rows", "count"),
        Agg("good_rows", "count", "n", "good"),
        Agg("sum_n", "sum", "n"),
        Agg("sum_x", "sum", "x", "good"),
        Agg("mean", "avg", "x"),
        Agg("spread", "stddev", "x"),
        Agg("least", "min", "name"),
        Agg("most", "max", "x"),
        Agg("opening", "first", "name"),
        Agg("closing", "last", "n", "good"),
        Agg("names", "distinct", "name"),
        Agg("half", "quantile", "x", q=0.5),
        Agg("all", "collect", "n"),
    ),
    COLUMNS,
)

row = st.tuples(
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([math.inf, 1e300])),
    st.sampled_from(["p", "q", "r", None]),
    st.sampled_from([True, False, None]),
)
pairs = st.lists(
    st.tuples(st.integers(0, 39), st.integers(1, 40)).filter(lambda pair: pair[0] < pair[1]), min_size=1, max_size=12
)


def frame(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


@settings(max_examples=25, deadline=None)
@given(st.lists(row, min_size=40, max_size=40), pairs)
def test_blocks_give_what_each_range_gives_alone(rows: list[tuple[object, ...]], bounds: list[tuple[int, int]]) -> None:
    table = frame(rows)
    lo, hi = np.array(bounds).T
    alone = pl.concat(
        AGGREGATES.over(table[a:b].with_columns(pl.lit(0).alias("_range")), ["_range"]).drop("_range")
        for a, b in bounds
    )
    for short, chunk in ((0, 1 << 20), (0, 20), (1 << 30, 20)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranges, "_SHORT", short)
            patch.setattr(ranges, "_CHUNK", chunk)
            together = over_ranges(AGGREGATES, table, lo, hi)
        assert together.columns == list(AGGREGATES.schema)
        assert_frame_equal(together, alone, rel_tol=1e-12)


def test_a_huge_value_harms_no_range_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_SHORT", 0)
    table = pl.DataFrame({"x": [1e300, math.inf, math.nan, 1.0, 2.0, 3.0]})
    sums = Aggregates((Agg("sum", "sum", "x"),), {"x": pl.Float64()})
    found = over_ranges(sums, table, np.array([0, 0, 3, 4]), np.array([1, 4, 6, 5]))
    assert found["sum"].to_list() == pytest.approx([1e300, math.nan, 6.0, 2.0], nan_ok=True)


def test_long_ranges_are_written_out_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_CHUNK", 10)
    rows = pl.DataFrame({"n": range(20)})
    lo, hi = np.array([0, 2, 5, 0, 19]), np.array([7, 2, 9, 20, 20])
    pieces = list(in_pieces(rows, lo, hi))
    assert len(pieces) > 1
    both = [(window, n) for piece in pieces for n, window in piece.rows()]
    assert both == [(w, n) for w, (a, b) in enumerate(zip(lo, hi, strict=True)) for n in range(a, b)]


def test_a_trailing_range_excludes_its_start_and_other_keys() -> None:
    key, time = np.array([0, 0, 0, 1, 1]), np.array([0, 3, 8, 7, 8])
    lo, hi = trailing(key, time, np.array([0, 0, 1, 0]), np.array([8, 3, 8, 100]), 8)
    assert list(zip(lo.tolist(), hi.tolist(), strict=True)) == [(1, 3), (0, 2), (3, 5), (3, 3)]
