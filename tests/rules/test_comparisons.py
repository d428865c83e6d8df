"""Comparisons with constants by NumPy, against the same conditions computed as flows compute them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from riverrun.flow.parser import parse
from riverrun.flow.schema import Schema
from riverrun.rules.comparisons import ComparedColumn, comparisons
from riverrun.testing.projection import compute

SCHEMA = pa.schema([("n", pa.int64()), ("i", pa.int32()), ("d", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])
WHOLE = st.sampled_from([-(1 << 63), -5, 0, 1, 5, (1 << 31) - 1, (1 << 53) + 1])
REAL = st.sampled_from([math.nan, -math.inf, -0.0, 0.0, 0.1, 1.0, 5.0, math.inf])
TEXT = st.sampled_from(["", "a", "A", "a'b", "é"])
ROW = st.fixed_dictionaries(
    {
        "n": st.none() | WHOLE,
        "i": st.none() | st.sampled_from([-(1 << 31), 0, 1, 5]),
        "d": st.none() | REAL,
        "s": st.none() | TEXT,
        "b": st.none() | st.booleans(),
    }
)
NUMBER = st.sampled_from(["0", "1", "5", "-5", "3000000000", "9007199254740993"])


@st.composite
def conditions(draw: Any) -> str:
    column = draw(st.sampled_from(["n", "i", "d", "s", "b"]))
    if column == "b":
        return str(draw(st.sampled_from(["b", "not b", "b is null", "b is not null"])))
    numbers = NUMBER if column != "d" else NUMBER | st.sampled_from(["0.1", "1e0", "-0.0"])
    value = (lambda: "'" + draw(TEXT).replace("'", "\\'") + "'") if column == "s" else lambda: draw(numbers)
    match draw(st.sampled_from(["compare", "turned", "in", "not in", "between", "null"])):
        case "compare":
            how = draw(st.sampled_from(["=", "<>"] if column == "s" else ["=", "<>", "<", "<=", ">", ">="]))
            return f"{column} {how} {value()}"
        case "turned":
            return f"{value()} {'=' if column == 's' else draw(st.sampled_from(['=', '<', '>=']))} {column}"
        case "between" if column != "s":
            return f"{column} between {value()} and {value()}"
        case "null":
            return f"{column} is null"
        case "not in":
            return f"{column} not in ({value()}, {value()})"
    return f"{column} in ({value()}, {value()})"


@given(st.lists(ROW, min_size=1, max_size=6), conditions())
def test_a_comparison_is_what_the_flow_computes(rows: list[dict[str, Any]], sql: str) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    schema = Schema.parse("n bigint, i int, d double, s string, b boolean")
    found = comparisons(parse(sql), schema)
    assert found is not None, sql
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    truth, places = np.ones(len(rows), np.bool_), np.arange(len(rows))[::-1].copy()
    for one in found:
        texts = [value for value in one.values if isinstance(value, str)]
        column = ComparedColumn(frame.get_column(one.column), list(dict.fromkeys(texts)))
        truth &= column.where(one)
        assert (column.where(one, places) == column.where(one)[places]).all()
    assert truth.tolist() == [value is True for value in compute([sql], table).column(0).to_pylist()]


def test_what_is_left_to_the_flow() -> None:
    schema = Schema.parse("n bigint, d double, s string, t timestamp, v decimal(8,2)")
    for sql in ("n > 1.5", "s < 'a'", "n = d", "upper(s) = 'A'", "v > 1", "t > '2026-01-01'", "n = 1 or d = 2"):
        assert comparisons(parse(sql), schema) is None, sql
