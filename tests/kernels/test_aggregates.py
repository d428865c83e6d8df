import math
from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.aggregates import aggregate
from oracles.inputs import AGGS, APPROXIMATE, SCHEMA, VALUES
from oracles.playing import frame, shown
from riverrun.errors import Invalid
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.aggregates.exact import compensated, slices
from riverrun.kernels.aggregates.parts import Total, combine, reduce

MANY = 60_000


def numbered(rows):
    return [dict(row, _weight=1, _partition=0, _offset=n) for n, row in enumerate(rows)]


@settings(max_examples=40, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=25))
def test_over_rows_at_once(drawn):
    rows = numbered(sorted(drawn, key=lambda row: row["_time"]))
    found = Aggregates(AGGS, SCHEMA).over(frame(rows, SCHEMA), ["key"])
    assert found.drop("key").schema == pl.Schema(Aggregates(AGGS, SCHEMA).schema)
    groups = {row["key"]: [other for other in rows if other["key"] == row["key"]] for row in rows}
    expected = [{"key": key} | {agg.name: aggregate(agg, held) for agg in AGGS} for key, held in groups.items()]
    assert sorted(map(shown, found.to_dicts())) == sorted(map(shown, expected))


def test_same_as_sql_over_many_rows():
    """Enough rows for the other engine, against DuckDB."""
    generator = np.random.default_rng(3)
    rows = pl.DataFrame(
        {
            "key": generator.integers(0, 700, MANY).astype(str),
            "real": generator.normal(1e6, 3.0, MANY),
            "whole": generator.integers(-(10**12), 10**12, MANY),
        }
    )
    aggs = (
        Agg("n", "count"),
        Agg("total", "sum", "whole"),
        Agg("sum_real", "sum", "real"),
        Agg("mean", "avg", "real"),
        Agg("spread", "stddev", "real"),
        Agg("least", "min", "real"),
        Agg("most", "max", "whole"),
        Agg("third", "quantile", "real", q=0.3),
        Agg("different", "distinct", "whole"),
    )
    found = Aggregates(aggs, rows.schema).over(rows, ["key"]).sort("key")
    expected = duckdb.sql(
        "select key, count(*) n, sum(whole)::bigint total, fsum(real) sum_real, favg(real) mean,"
        " stddev_samp(real) spread, min(real) least, max(whole) most, quantile_cont(real, 0.3) third,"
        " count(distinct whole) different from rows group by key order by key"
    ).pl()
    for name in found.columns:
        if found.schema[name].is_float():
            assert np.allclose(found[name], expected[name], rtol=1e-9, atol=0), name
        else:
            assert found[name].to_list() == expected[name].to_list(), name


FINITE = st.integers(-(10**14), 10**14).map(lambda n: n / 1000)


@settings(max_examples=150, deadline=None)
@given(st.lists(FINITE, max_size=40), st.randoms(use_true_random=False))
def test_float_sums_are_exact_in_any_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    sums = []
    for column in (values, shuffled):
        pieces = [np.array([piece.sum()]) for piece in slices(np.array(column, dtype=np.float64))]
        sums.append(compensated(pieces, 1)[0][0])
    assert sums[0] == sums[1] == math.fsum(values)


@settings(max_examples=60, deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=30), st.data())
def test_retracting_floats_leaves_the_sum_of_the_rest(values, data):
    """Whatever was added and taken back, in whatever batches: the sum of what is left, to the last bit."""
    aggregates = Aggregates((Agg("total", "sum", "real"),), {"real": pl.Float64(), "key": pl.String()})
    taken = data.draw(st.lists(st.sampled_from(range(len(values))), unique=True, max_size=len(values) - 1))
    changes = [(value, 1) for value in values] + [(values[n], -1) for n in taken]
    cut = data.draw(st.integers(0, len(changes)))
    cells = None
    for part in (changes[:cut], changes[cut:]):
        rows = pl.DataFrame(part, schema={"real": pl.Float64(), "_weight": pl.Int8()}, orient="row")
        new = aggregates.partial(rows.with_columns(key=pl.lit("a")), ["key"])
        if new.is_empty():
            continue
        cells = new if cells is None else combine(cells, new, aggregates.parts)
    rest = [value for n, value in enumerate(values) if n not in taken]
    assert aggregates.results(cells, {})["total"].to_list() == [math.fsum(rest)]


def test_infinities_and_nan_can_be_taken_back():
    aggregates = Aggregates((Agg("total", "sum", "real"), Agg("mean", "avg", "real")), {"real": pl.Float64()})

    def after(*changes):
        rows = pl.DataFrame(changes, schema={"real": pl.Float64(), "_weight": pl.Int8()}, orient="row")
        cells = aggregates.partial(rows.with_columns(key=1), ["key"])
        return aggregates.results(cells, {})["total"].item()

    assert after((1.0, 1), (math.inf, 1)) == math.inf
    assert math.isnan(after((math.inf, 1), (-math.inf, 1)))
    assert math.isnan(after((math.nan, 1), (1.0, 1)))
    assert after((math.nan, 1), (math.inf, 1), (2.5, 1), (math.nan, -1), (math.inf, -1)) == 2.5


def test_a_sum_that_does_not_fit_is_an_error():
    whole = Total("s", pl.Int64(), "revenue")
    rows = pl.DataFrame({"key": [1, 1, 2], "s": [2**62, 2**62, 5]})
    with pytest.raises(Invalid, match="revenue: the sum does not fit"):
        reduce(rows, ["key"], [whole])
    close = pl.DataFrame({"key": [1, 1, 2], "s": [2**62, 2**62 - 1, -(2**63)]})
    assert reduce(close, ["key"], [whole])["s"].to_list() == [2**63 - 1, -(2**63)]
    old = pl.DataFrame({"s": [2**63 - 1]})
    assert combine(old, pl.DataFrame({"s": [-1]}), [whole])["s"].to_list() == [2**63 - 2]
    with pytest.raises(Invalid, match="revenue"):
        combine(old, pl.DataFrame({"s": [1]}), [whole])


def test_a_sum_of_decimals_that_does_not_fit_is_an_error():
    kind = pl.Decimal(38, 2)
    money = Total("s", kind, "revenue")
    rows = pl.DataFrame({"key": [1, 1], "s": [Decimal("8" * 36)] * 2}, schema={"key": pl.Int64(), "s": kind})
    assert reduce(rows[:1], ["key"], [money])["s"].to_list() == [Decimal("8" * 36)]
    with pytest.raises(Invalid, match="revenue"):
        reduce(rows, ["key"], [money])
    with pytest.raises(Invalid, match="revenue"):
        combine(rows[:1], rows[1:], [money])


def test_sketches_are_added_up():
    aggregates = Aggregates(APPROXIMATE, SCHEMA)
    rows = pl.DataFrame({"text": [f"t{n}" for n in range(3000)], "whole": range(3000), "key": "a", "_weight": 1})
    halves = [aggregates.partial(half, ["key"]) for half in (rows[:2000], rows[1000:])]
    both = aggregates.results(combine(halves[0], halves[1], aggregates.parts), {}).row(0, named=True)
    assert both["about"] == pytest.approx(3000, rel=0.05)
    assert both["middle"] == pytest.approx(1500, rel=0.05)


def test_nothing_counted_is_null_or_zero():
    rows = pl.DataFrame({"key": ["a"], "real": [None], "text": [None], "whole": [None], "ok": [False]}).cast(
        {"real": pl.Float64(), "text": pl.String(), "whole": pl.Int64()}
    )
    aggs = tuple(agg for agg in (*AGGS, *APPROXIMATE) if agg.column != "money")
    found = Aggregates(aggs, rows.schema).over(rows, ["key"]).row(0, named=True)
    zeros = {"n": 1, "some": 0, "different": 0, "kinds": 0, "all": [], "often": [], "about": 0}
    assert found == {"key": "a", **{agg.name: zeros.get(agg.name) for agg in aggs}}


@pytest.mark.parametrize(
    ("agg", "message"), [(Agg("x", "sum", "text"), "needs numbers"), (Agg("x", "max", "list"), "compares values")]
)
def test_what_cannot_be_computed_is_refused(agg, message):
    """Whatever else can be wrong with an aggregate, flows have refused when they were declared."""
    with pytest.raises(Invalid, match=message):
        Aggregates((agg,), {**SCHEMA, "list": pl.List(pl.Int64())}, span=10)


def test_one_name_twice_is_refused():
    with pytest.raises(Invalid, match="one name"):
        Aggregates((Agg("n", "count"), Agg("n", "count", "real")), SCHEMA)
