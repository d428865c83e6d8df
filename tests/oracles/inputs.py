"""Random input for kernels: rows with null keys and odd numbers, cut into epochs, under a watermark that rises."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import strategies as st

from riverrun.kernels.aggregates import Agg
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock

SCHEMA = {
    "key": pl.String(),
    "whole": pl.Int64(),
    "real": pl.Float64(),
    "money": pl.Decimal(12, 2),
    "text": pl.String(),
    "ok": pl.Boolean(),
}
REALS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1e9, -1e9, 2.5, math.nan, math.inf, -math.inf, None, -7.25])
VALUES = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", "", None]),
        "whole": st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([10**15, -(10**15)])),
        "real": REALS,
        "money": st.one_of(st.none(), st.integers(-500, 500).map(lambda cents: Decimal(cents).scaleb(-2))),
        "text": st.sampled_from(["x", "y", "zz", None]),
        "ok": st.sampled_from([True, False, None]),
        "_time": st.integers(-20, 60),
    }
)
AGGS = (
    Agg("n", "count"),
    Agg("some", "count", "real", "ok"),
    Agg("total", "sum", "whole"),
    Agg("sum_real", "sum", "real"),
    Agg("sum_money", "sum", "money", "ok"),
    Agg("avg_whole", "avg", "whole"),
    Agg("avg_real", "avg", "real", "ok"),
    Agg("avg_money", "avg", "money"),
    Agg("spread", "stddev", "whole"),
    Agg("spread_real", "stddev", "real"),
    Agg("least", "min", "real"),
    Agg("most", "max", "real"),
    Agg("greatest", "max", "text", "ok"),
    Agg("opened", "first", "text"),
    Agg("closed", "last", "text", "ok"),
    Agg("different", "distinct", "text"),
    Agg("kinds", "distinct", "real", "ok"),
    Agg("median", "quantile", "whole", q=0.5),
    Agg("high", "quantile", "whole", "ok", q=0.9),
    Agg("all", "collect", "text"),
    Agg("often", "top", "text", n=2),
)
RATE = Agg("pace", "rate", per=7)
APPROXIMATE = (Agg("about", "approx_distinct", "text"), Agg("middle", "approx_quantile", "whole", q=0.5))

CHOSEN = st.lists(st.sampled_from(AGGS), min_size=1, max_size=5, unique=True).map(tuple)


@st.composite
def epochs(draw: st.DrawFn, retracts: bool = False, pace: int = 25) -> list[tuple[list[dict[str, Any]], EpochClock]]:
    """Rows in log order, cut into epochs; the watermark rises on its own account, and to the end at the end."""
    inserted = [dict(row, _weight=1) for row in draw(st.lists(VALUES, max_size=30))]
    rows: list[dict[str, Any]] = []
    for row in inserted:
        rows.append(row)
        if retracts and draw(st.integers(0, 3)) == 0:
            held = list(rows)
            for gone in (r for r in rows if r["_weight"] < 0):
                held.remove(dict(gone, _weight=1))
            held = [r for r in held if r["_weight"] > 0]
            if held:
                rows.append(dict(draw(st.sampled_from(held)), _weight=-1))
    for offset, row in enumerate(rows):
        row["_partition"], row["_offset"] = 0, offset
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    made, watermark = [], MIN_TIME
    for number, (lo, hi) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        end = max(watermark, -25) + draw(st.integers(0, pace)) if number or draw(st.booleans()) else watermark
        made.append((rows[lo:hi], EpochClock(number, watermark, end)))
        watermark = end
    made.append(([], EpochClock(len(made), watermark, MAX_TIME)))
    return made
