import datetime as dt
import math
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.errors import Invalid
from riverrun.state.hashing import hash_columns


def test_values_that_are_on_disk_never_change():
    frame = pl.DataFrame(
        {
            "text": ["", "a", "user42", "x" * 300, None],
            "number": [0, 1, -1, 2**62, None],
            "real": [0.0, 1.5, math.inf, math.nan, None],
            "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 4 + [None],
            "money": [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("9999999999999.99"), None],
        }
    )
    assert {name: hash_columns(frame, [name]).tolist() for name in frame.columns} == PINNED
    assert hash_columns(frame, ["text", "number"]).tolist() == PINNED_PAIR


PINNED = {
    "text": [
        14472473429120693937,
        10225227638489054988,
        17750033512317432439,
        13521899729327306957,
        1522443745234511180,
    ],
    "number": [
        14472473429120693937,
        752353386414576155,
        7304806172142702462,
        13668802077200304606,
        1522443745234511180,
    ],
    "real": [14472473429120693937, 6953135751123770065, 10384610219992928746, 2320383199612252914, 1522443745234511180],
    "at": [16206182487978767945, 16206182487978767945, 16206182487978767945, 16206182487978767945, 1522443745234511180],
    "money": [
        14472473429120693937,
        4936367773730193617,
        11801187127088634361,
        13239923103664599621,
        1522443745234511180,
    ],
}
PINNED_PAIR = [
    7027387305856850600,
    7094182478918500969,
    18305908131427788843,
    7178693734656310539,
    10494905998972629216,
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=40), st.text("ab", min_size=100, max_size=400)), max_size=30))
def test_hash_of_text_depends_on_nothing_but_the_text(texts):
    whole = hash_columns(pl.DataFrame({"t": texts}, schema={"t": pl.String()}), ["t"])
    alone = [hash_columns(pl.DataFrame({"t": [t]}, schema={"t": pl.String()}), ["t"])[0] for t in texts]
    assert whole.tolist() == alone
    sliced = pl.DataFrame({"t": ["pad", *texts]}, schema={"t": pl.String()})[1:]
    assert hash_columns(sliced, ["t"]).tolist() == alone


def test_different_keys_have_different_hashes():
    texts = pl.DataFrame({"t": [f"user{n}" for n in range(100_000)]})
    assert len(np.unique(hash_columns(texts, ["t"]))) == 100_000
    swapped = pl.DataFrame({"a": ["x", "y"], "b": ["y", "x"]})
    assert len(set(hash_columns(swapped, ["a", "b"]).tolist())) == 2


def test_equal_keys_have_equal_hashes():
    frame = pl.DataFrame({"a": [0.0, math.nan], "b": [-0.0, -math.nan]})
    assert hash_columns(frame, ["a"]).tolist() == hash_columns(frame, ["b"]).tolist()


def test_structs_are_keys_and_lists_are_not():
    frame = pl.DataFrame({"s": [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, None], "l": [[1], [2], None]})
    assert len(set(hash_columns(frame, ["s"]).tolist())) == 3
    with pytest.raises(Invalid, match="'l'"):
        hash_columns(frame, ["l"])
