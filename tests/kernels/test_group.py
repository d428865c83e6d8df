import itertools
import tempfile

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.inputs import AGGS, APPROXIMATE, CHOSEN, RATE, SCHEMA, epochs
from oracles.playing import Player, frame, shown
from oracles.windows import results, same
from riverrun.errors import Invalid
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.group import GroupKernel
from riverrun.kernels.kernel import EpochClock


def group(aggs, by=("key",), retracts=False):
    return GroupKernel(by, Aggregates(aggs, SCHEMA, retracts=retracts), SCHEMA)


def expected(aggs, rows, by, retracts):
    groups = {}
    for row in rows:
        held = groups.setdefault(tuple(row[name] for name in by), [])
        if row["_weight"] > 0:
            held.append(row)
        else:
            held.remove(next(other for other in held if same(other, row)))
    return sorted(
        shown(dict(zip(by, key, strict=True)) | results(aggs, held, None, retracts))
        for key, held in groups.items()
        if held
    )


def check(kernel, script, aggs, retracts, directory=None):
    player, seen = Player(kernel, directory), []
    for rows, clock in script:
        player.step(frame(rows, SCHEMA), clock)
        seen += rows
        assert player.view.rows == expected(aggs, seen, kernel.by, retracts)


@settings(max_examples=60, deadline=None)
@given(epochs(), CHOSEN, st.sampled_from([("key",), (), ("key", "text")]))
def test_equals_the_batch_result_after_every_epoch(script, aggs, by):
    check(group(aggs, by), script, aggs, retracts=False)


@settings(max_examples=60, deadline=None)
@given(epochs(retracts=True), CHOSEN)
def test_retractions_leave_no_trace(script, aggs):
    check(group(aggs, retracts=True), script, aggs, retracts=True)


@settings(max_examples=15, deadline=None)
@given(epochs(retracts=True), CHOSEN)
def test_the_same_on_files(script, aggs):
    with tempfile.TemporaryDirectory() as directory:
        check(group(aggs, retracts=True), script, aggs, retracts=True, directory=directory)


def row(key, time, weight=1, **values):
    return {
        **dict.fromkeys(SCHEMA),
        "key": key,
        **values,
        "_time": time,
        "_weight": weight,
        "_partition": 0,
        "_offset": 0,
    }


def test_a_group_without_rows_disappears():
    player = Player(group((Agg("n", "count"), Agg("total", "sum", "real")), retracts=True))
    player.step(frame([row("a", 1, real=0.1), row("a", 2, real=0.2)], SCHEMA), EpochClock(0, 0, 0))
    player.step(frame([row("a", 1, -1, real=0.1)], SCHEMA), EpochClock(1, 0, 0))
    assert player.view.rows == [shown({"key": "a", "n": 1, "total": 0.2})]
    step = player.step(frame([row("a", 2, -1, real=0.2)], SCHEMA), EpochClock(2, 0, 0))
    assert not player.view.rows
    assert step.changes.to_dicts() == [{"key": "a", "n": 1, "total": 0.2, "_time": 2, "_weight": -1}]


def test_an_update_is_the_old_row_and_the_new_one():
    player = Player(group((Agg("n", "count"),)))
    player.step(frame([row("a", 5), row("b", 6)], SCHEMA), EpochClock(0, 0, 0))
    step = player.step(frame([row("b", 9), row("c", 1)], SCHEMA), EpochClock(1, 0, 0))
    assert step.changes.rows() == [("b", 1, 6, -1), ("b", 2, 9, 1), ("c", 1, 1, 1)]


def test_what_changes_no_result_is_no_change():
    player = Player(group((Agg("top", "max", "whole"),)))
    player.step(frame([row("a", 5, whole=9)], SCHEMA), EpochClock(0, 0, 0))
    assert player.step(frame([row("a", 6, whole=3)], SCHEMA), EpochClock(1, 0, 0)).changes.is_empty()


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_sums_beyond_the_largest_double_do_not_depend_on_batches(cuts):
    aggs = (Agg("total", "sum", "real"), Agg("mean", "avg", "real"), Agg("spread", "stddev", "real"))
    rows = [row("a", n, real=real) for n, real in enumerate([1.7e308, 1.7e308, -1.7e308, -1.7e308, 3.0])]
    player = Player(group(aggs))
    for number, (first, behind) in enumerate(itertools.pairwise([0, *cuts, len(rows)])):
        player.step(frame(rows[first:behind], SCHEMA), EpochClock(number, 0, 0))
    (seen,) = map(eval, player.view.rows)
    assert (seen["total"], seen["mean"]) == (3.0, 0.6)
    assert seen["spread"] == pytest.approx(1.7e308)


def test_approximate_aggregates_are_near_and_refuse_retractions():
    player = Player(group(APPROXIMATE))
    rows = [row("a", n, text=f"t{n % 40}", whole=n) for n in range(200)]
    for lo in range(0, 200, 50):
        player.step(frame(rows[lo : lo + 50], SCHEMA), EpochClock(lo, 0, 0))
    (text,) = player.view.rows
    seen = eval(text)
    assert abs(seen["about"] - 40) <= 1
    assert abs(seen["middle"] - 99.5) <= 3
    with pytest.raises(Invalid, match="cannot take rows back"):
        group(APPROXIMATE, retracts=True)


def test_a_rate_needs_a_window():
    with pytest.raises(Invalid, match="window"):
        group((RATE,))


def test_every_aggregate_at_once():
    script = [
        ([row("a", n, whole=n, real=n / 10, text="xyz"[n % 3], ok=n % 2 == 0) for n in range(9)], EpochClock(0, 0, 0))
    ]
    check(group(AGGS), script, AGGS, retracts=False)
    assert pl.Schema(group(AGGS).aggregates.schema).names() == [agg.name for agg in AGGS]
