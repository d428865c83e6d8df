"""Rows by their key, as Polars sorts them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.state.key_order import sort_by_key
from riverrun.state.order import lexicographic

_KINDS = {
    pl.String: st.one_of(st.text(max_size=3), st.text("a\0é\U0001f600", max_size=20), st.text("ab", max_size=40)),
    pl.Binary: st.binary(max_size=20),
    pl.Int64: st.integers(-(1 << 63), (1 << 63) - 1),
    pl.Int8: st.integers(-128, 127),
    pl.UInt64: st.integers(0, (1 << 64) - 1),
    pl.Int128: st.integers(-(1 << 126), 1 << 126),
    pl.Boolean: st.booleans(),
    pl.Float64: st.floats(),
    pl.Datetime("us", "UTC"): st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    pl.Date: st.dates(),
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    height = draw(st.integers(0, 12))
    columns = {}
    for number, kind in enumerate(draw(st.lists(st.sampled_from(list(_KINDS)), min_size=1, max_size=3))):
        few = draw(st.lists(_KINDS[kind], min_size=1, max_size=4))
        value = st.sampled_from([None, *few]) if draw(st.booleans()) else st.sampled_from(few)
        columns[f"k{number}"] = pl.Series(draw(st.lists(value, min_size=height, max_size=height)), dtype=kind)
    return pl.DataFrame({**columns, "at": np.arange(height)})


@settings(max_examples=300, deadline=None)
@given(frames())
def test_as_polars_sorts(rows: pl.DataFrame) -> None:
    key = rows.columns[:-1]
    assert sort_by_key(rows, key).equals(rows.sort(key, maintain_order=True))


@pytest.mark.parametrize("nulls", [False, True])
def test_many_rows(nulls: bool) -> None:
    dice = np.random.default_rng(3)
    user = pl.Series("user", dice.integers(0, 5000, 20_000)).cast(pl.String)
    if nulls:
        user = user.set(pl.Series(dice.integers(0, 10, len(user)) == 0), None)
    rows = pl.DataFrame({"user": user, "n": dice.integers(-5, 5, len(user)), "at": np.arange(len(user))})
    assert sort_by_key(rows, ["user", "n"]).equals(rows.sort("user", "n", maintain_order=True))


def test_a_slice_of_a_column_with_nulls() -> None:
    column = pl.Series("k", ["zz", None, "b", "a", None, "c"])
    rows = pl.DataFrame({"k": pl.concat([column, column])[1:9]})
    assert sort_by_key(rows, ["k"]).equals(rows.sort("k", maintain_order=True))


def test_rows_of_partitions_that_come_in_their_order() -> None:
    dice = np.random.default_rng(4)
    partition = dice.integers(0, 4, 5000).astype(np.int32)
    offset = np.zeros(5000, np.int64)
    for one in range(4):
        offset[partition == one] = np.arange(np.count_nonzero(partition == one))
    for columns in ((partition, offset), (partition, offset[::-1].copy()), (offset, partition)):
        assert lexicographic(*columns).tolist() == np.lexsort(columns[::-1]).tolist()
