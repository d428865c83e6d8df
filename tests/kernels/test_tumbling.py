import tempfile
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.inputs import CHOSEN, RATE, SCHEMA, epochs
from oracles.playing import Player, frame
from oracles.windows import Windows
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock
from riverrun.kernels.tumbling import TumblingKernel

SECOND = 1_000_000


def tumbling(aggs, retracts=False, size=10, by=("key",), **options):
    return TumblingKernel(by, size, Aggregates(aggs, SCHEMA, span=size, retracts=retracts), SCHEMA, **options)


def check(kernel, script, retracts=False, directory=None):
    player = Player(kernel, directory)
    oracle = Windows(kernel.size, kernel.size, kernel.offset, kernel.horizon)
    aggs = kernel.aggregates.aggs
    for rows, clock in script:
        player.step(frame(rows, SCHEMA), clock)
        oracle.take(rows, clock.start)
        assert player.view.rows == oracle.view(aggs, None if kernel.update else clock.end, retracts)
    counts = player.view.counts
    assert counts["read"] == oracle.read
    assert counts["late_aside" if kernel.aside else "late_dropped"] == len(oracle.late)
    assert counts["corrected"] == oracle.corrected
    assert [row["_offset"] for row in player.view.late] == [row["_offset"] for row in oracle.late if kernel.aside]


POLICIES = st.fixed_dictionaries(
    {
        "update": st.booleans(),
        "aside": st.booleans(),
        "horizon": st.sampled_from([0, 0, 7, 30]),
        "offset": st.sampled_from([0, 3]),
    }
)


@settings(max_examples=70, deadline=None)
@given(epochs(), CHOSEN, POLICIES)
def test_equals_the_oracle_after_every_epoch(script, aggs, policy):
    check(tumbling((*aggs, RATE), **policy), script)


@settings(max_examples=40, deadline=None)
@given(epochs(retracts=True), CHOSEN, POLICIES)
def test_retractions(script, aggs, policy):
    check(tumbling(aggs, retracts=True, **policy), script, retracts=True)


@settings(max_examples=20, deadline=None)
@given(epochs(), CHOSEN, POLICIES)
def test_the_same_on_files(script, aggs, policy):
    with tempfile.TemporaryDirectory() as directory:
        check(tumbling(aggs, **policy), script, directory=directory)


@settings(max_examples=30, deadline=None)
@given(epochs(), CHOSEN, st.booleans())
def test_batching_does_not_matter(script, aggs, update):
    """All in one epoch gives the view that many epochs give, when nothing is late."""
    kernel = tumbling(aggs, update=update)
    rows = [row for batch, _ in script for row in batch]
    one, many = Player(kernel), Player(kernel)
    one.step(frame(rows, SCHEMA), EpochClock(0, MIN_TIME, MAX_TIME))
    for number, (batch, _) in enumerate(script):
        many.step(frame(batch, SCHEMA), EpochClock(number, MIN_TIME, MIN_TIME))
    many.step(frame([], SCHEMA), EpochClock(len(script), MIN_TIME, MAX_TIME))
    assert one.view.rows == many.view.rows


def rows(*timed):
    base = dict.fromkeys(SCHEMA)
    return frame(
        [{**base, "key": k, "_time": t, "_weight": 1, "_partition": 0, "_offset": n} for n, (k, t) in enumerate(timed)],
        SCHEMA,
    )


def test_result_columns_and_time():
    player = Player(tumbling((Agg("n", "count"),), size=10 * SECOND))
    step = player.step(rows(("b", 12 * SECOND), ("a", 19 * SECOND), ("a", 20 * SECOND)), EpochClock(0, 0, 20 * SECOND))
    start, end = datetime.fromtimestamp(10, UTC), datetime.fromtimestamp(20, UTC)
    assert step.changes.columns == ["key", "window_start", "window_end", "n", "_time", "_weight"]
    assert step.changes.rows() == [("a", start, end, 1, 20 * SECOND, 1), ("b", start, end, 1, 20 * SECOND, 1)]


def test_a_window_closes_when_the_watermark_reaches_its_end():
    player = Player(tumbling((Agg("n", "count"),)))
    assert player.step(rows(("a", 5)), EpochClock(0, MIN_TIME, 9)).changes.is_empty()
    assert len(player.step(rows(), EpochClock(1, 9, 10)).changes) == 1


def test_lateness_is_judged_at_the_start_of_the_epoch():
    player = Player(tumbling((Agg("n", "count"),)))
    assert player.step(rows(("a", 5)), EpochClock(0, 9, 30)).changes["n"].to_list() == [1]
    step = player.step(rows(("a", 6), ("a", 29), ("a", 30)), EpochClock(1, 30, 40))
    assert step.counts["in"].late_dropped == 2
    assert step.changes["n"].to_list() == [1]


def test_a_correction_retracts_the_old_result_once():
    player = Player(tumbling((Agg("n", "count"),), horizon=10))
    player.step(rows(("a", 5)), EpochClock(0, MIN_TIME, 10))
    step = player.step(rows(("a", 6), ("b", 7)), EpochClock(1, 10, 19))
    assert step.changes.select("key", "n", "_weight").rows() == [("a", 1, -1), ("a", 2, 1), ("b", 1, 1)]
    step = player.step(rows(("a", 8)), EpochClock(2, 20, 20))
    assert step.counts["in"].late_dropped == 1
    assert step.changes.is_empty()


def test_a_rate_is_rounded_once():
    pace = Aggregates((Agg("pace", "rate", per=1_000_000),), SCHEMA, span=10_000_000)
    for count in range(1, 40):
        step = Player(TumblingKernel(("key",), 10_000_000, pace, SCHEMA)).step(
            rows(*[("a", 1)] * count), EpochClock(0, 0, MAX_TIME)
        )
        assert step.changes["pace"].to_list() == [count / 10]


def test_state_of_closed_windows_is_gone():
    kernel = tumbling((Agg("n", "count"), Agg("kinds", "distinct", "text"), Agg("all", "collect", "text")))
    player = Player(kernel)
    player.step(rows(("a", 5), ("a", 15)), EpochClock(0, MIN_TIME, 10))
    assert player.memory["cells"].scan()["_start"].to_list() == [10]
    player.step(rows(), EpochClock(1, 10, MAX_TIME))
    for table in kernel.tables:
        assert player.memory[table].scan().is_empty()


def test_overflow_is_an_error():
    player = Player(tumbling((Agg("total", "sum", "whole"),)))
    base = {**dict.fromkeys(SCHEMA), "key": "a", "_time": 1, "_weight": 1, "_partition": 0}
    big = [{**base, "whole": 2**62, "_offset": n} for n in range(2)]
    player.step(frame(big[:1], SCHEMA), EpochClock(0, 0, 0))
    with pytest.raises(ValueError, match="total: the sum does not fit long"):
        player.step(frame(big[1:], SCHEMA), EpochClock(1, 0, 0))
    with pytest.raises(ValueError, match="total"):
        Player(tumbling((Agg("total", "sum", "whole"),))).step(frame(big, SCHEMA), EpochClock(0, 0, 0))
