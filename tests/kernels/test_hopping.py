import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.inputs import CHOSEN, RATE, SCHEMA, epochs
from oracles.playing import Player, frame
from oracles.windows import Windows
from riverrun.kernels.aggregates import Agg, Aggregates
from riverrun.kernels.hopping import HoppingKernel
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME, EpochClock

SHAPES = st.sampled_from([(10, 5), (10, 10), (12, 8), (7, 2), (5, 15)])
POLICIES = st.fixed_dictionaries(
    {
        "update": st.booleans(),
        "aside": st.booleans(),
        "horizon": st.sampled_from([0, 0, 7, 30]),
    }
)


def hopping(aggs, shape=(10, 5), retracts=False, by=("key",), **options):
    size, every = shape
    return HoppingKernel(by, size, every, Aggregates(aggs, SCHEMA, span=size, retracts=retracts), SCHEMA, **options)


def check(kernel, script, retracts=False, directory=None):
    player = Player(kernel, directory)
    oracle = Windows(kernel.size, kernel.every, horizon=kernel.horizon)
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


@settings(max_examples=60, deadline=None)
@given(epochs(), CHOSEN, SHAPES, POLICIES)
def test_equals_the_oracle_after_every_epoch(script, aggs, shape, policy):
    check(hopping((*aggs, RATE), shape, **policy), script)


@settings(max_examples=30, deadline=None)
@given(epochs(retracts=True), CHOSEN, SHAPES, POLICIES)
def test_retractions(script, aggs, shape, policy):
    check(hopping(aggs, shape, retracts=True, **policy), script, retracts=True)


@settings(max_examples=15, deadline=None)
@given(epochs(), CHOSEN, SHAPES, POLICIES)
def test_the_same_on_files(script, aggs, shape, policy):
    with tempfile.TemporaryDirectory() as directory:
        check(hopping(aggs, shape, **policy), script, directory=directory)


def rows(*timed):
    base = dict.fromkeys(SCHEMA)
    return frame(
        [{**base, "key": k, "_time": t, "_weight": 1, "_partition": 0, "_offset": n} for n, (k, t) in enumerate(timed)],
        SCHEMA,
    )


def results(step):
    return step.changes.select("_time", "n", "_weight").rows()


def test_every_window_of_a_row_has_it():
    player = Player(hopping((Agg("n", "count"),)))
    step = player.step(rows(("a", 12), ("a", 16)), EpochClock(0, MIN_TIME, MAX_TIME))
    assert results(step) == [(15, 1, 1), (20, 2, 1), (25, 1, 1)]


def test_late_for_some_windows_only():
    player = Player(hopping((Agg("n", "count"),)))
    player.step(rows(("a", 12)), EpochClock(0, MIN_TIME, 15))
    step = player.step(rows(("a", 13)), EpochClock(1, 15, 20))
    assert step.counts["in"].accepted == 1
    assert results(step) == [(20, 2, 1)]
    step = player.step(rows(("a", 14)), EpochClock(2, 20, 30))
    assert step.counts["in"].late_dropped == 1


def test_windows_with_gaps_between_them():
    player = Player(hopping((Agg("n", "count"),), shape=(5, 15)))
    step = player.step(rows(("a", 4), ("a", 7)), EpochClock(0, MIN_TIME, MAX_TIME))
    assert step.counts["in"].accepted == 2
    assert results(step) == [(5, 1, 1)]


def test_panes_that_no_window_needs_are_gone():
    player = Player(hopping((Agg("n", "count"), Agg("all", "collect", "text")), shape=(10, 2)))
    player.step(rows(*[("a", t) for t in range(40)]), EpochClock(0, MIN_TIME, 30))
    assert sorted(player.memory["cells"].scan()["_pane"]) == [22, 24, 26, 28, 30, 32, 34, 36, 38]
