"""Watermarks: the rule, and what one faulty or silent producer may not do to the others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import watermarks as oracle
from riverrun.errors import Invalid
from riverrun.kernels.kernel import MAX_TIME, MIN_TIME
from riverrun.kernels.watermark import HEARD, Holder, Watermarks, combined, delayed, thinned
from riverrun.runtime.quarantine import is_ahead

SECOND = 1_000_000
YEAR = 365 * 86_400 * SECOND

Heard = tuple[str | None, int, int]


def rows(*heard: Heard) -> pl.DataFrame:
    return pl.DataFrame(list(heard), schema=HEARD, orient="row")


heards = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 40), st.integers(0, 30)), max_size=25
)
cuts = st.lists(st.integers(0, 35), max_size=6)
idles = st.one_of(st.none(), st.integers(1, 12))


def run(heard: list[Heard], cuts: list[int], until: int, mark: Watermarks) -> Watermarks:
    """Reads `heard` in epochs that end at `cuts`, each through bytes as after a restart."""
    before = -1
    for cut in [*sorted(c for c in cuts if c < until), until]:
        epoch = [row for row in heard if before < row[2] <= cut]
        mark = mark.advance(rows(*epoch), cut)
        mark = Watermarks.from_bytes(mark.to_bytes(), mark.lateness, mark.idle)
        before = cut
    return mark


@settings(max_examples=80, deadline=None)
@given(heards, cuts, idles, st.integers(0, 5), st.integers(30, 45))
def test_any_split_into_epochs_ends_where_the_definition_says(
    heard: list[Heard], cuts: list[int], idle: int | None, lateness: int, until: int
) -> None:
    expected = oracle.watermark(heard, until, lateness, idle)
    assert run(heard, cuts, until, Watermarks(lateness, idle)).watermark == expected
    assert run(heard, [], until, Watermarks(lateness, idle)).watermark == expected


@settings(max_examples=50, deadline=None)
@given(st.lists(heards, max_size=5), idles, st.integers(0, 5))
def test_it_never_goes_back(epochs: list[list[Heard]], idle: int | None, lateness: int) -> None:
    mark = Watermarks(lateness, idle)
    for heard in epochs:
        after = mark.advance(rows(*heard), max((r for _, _, r in heard), default=0))
        assert after.watermark >= mark.watermark
        assert after.until >= mark.until
        mark = after
    assert mark.finished().watermark == MAX_TIME


@settings(max_examples=50, deadline=None)
@given(heards, st.integers(1, 12), st.integers(0, 5))
def test_the_deadline_is_the_first_tick_that_moves_it(heard: list[Heard], idle: int, lateness: int) -> None:
    mark = Watermarks(lateness, idle).advance(rows(*heard), 30)
    nothing = rows()
    moving = [tick for tick in range(31, 45) if mark.advance(nothing, tick).watermark > mark.watermark]
    assert mark.deadline == (moving[0] if moving else None)


@settings(max_examples=50, deadline=None)
@given(heards, st.integers(1, 12))
def test_a_producer_a_year_ahead_changes_nothing_for_the_others(heard: list[Heard], max_skew: int) -> None:
    usual = Watermarks().advance(rows(*heard), 30)
    astray = [*heard, *(("x", received + YEAR, received) for _, _, received in heard)]
    frame = rows(*astray)
    quarantined = is_ahead(frame["time"].to_numpy(), frame["received"].to_numpy(), max_skew + 40)
    assert quarantined.sum() == len(heard)
    kept = frame.filter(~pl.Series(quarantined, dtype=pl.Boolean))
    assert Watermarks().advance(kept, 30).watermark == usual.watermark


def test_a_silent_producer_holds_the_others_no_longer_than_idle() -> None:
    mark = Watermarks(idle=10).advance(rows(("dead", 5, 0), ("alive", 5, 0)), 0)
    for now in range(1, 30):
        mark = mark.advance(rows(("alive", 5 + now, now)), now)
        assert mark.watermark == (5 if now < 10 else 5 + now)
    assert mark.producers["producer"].to_list() == ["alive"]


def test_a_producer_that_speaks_again_counts_again() -> None:
    mark = Watermarks(idle=10).advance(rows(("a", 5, 0), ("b", 6, 0)), 0).advance(rows(("b", 40, 20)), 20)
    assert mark.watermark == 40
    mark = mark.advance(rows(("a", 41, 21), ("b", 60, 21)), 21)
    assert mark.watermark == 41


def test_without_idle_a_silent_producer_holds_for_ever_and_is_named() -> None:
    mark = Watermarks().advance(rows(("a", 5, 0), ("b", 6, 0)), 0).advance(rows(("b", 40, 20)), 10 * YEAR)
    assert mark.watermark == 5
    assert mark.deadline is None
    assert mark.holders(1) == [Holder("a", 5, 0)]


def test_with_nobody_live_it_stays() -> None:
    mark = Watermarks(idle=10).advance(rows(("a", 5, 0)), 0)
    assert mark.advance(rows(), 100).watermark == 5
    assert mark.deadline is None
    assert mark.advance(rows(), 100).holders() == []


def test_a_promise_is_a_largest_time() -> None:
    mark = Watermarks().advance(rows(("quiet", 5, 0), ("loud", 50, 0)), 0)
    assert mark.advance(rows(("quiet", 45, 1)), 1).watermark == 45


def test_the_size_follows_the_producers_that_speak() -> None:
    mark = Watermarks(lateness=SECOND, idle=10 * SECOND)
    sizes = []
    for epoch in range(50):
        now = epoch * 10 * SECOND
        names = [f"device-{epoch * 100 + n}" for n in range(100)]
        mark = mark.advance(rows(*((name, now, now) for name in names)), now)
        sizes.append(len(mark.to_bytes()))
    assert len(mark.producers) == 100
    assert max(sizes[10:]) < 1.5 * sizes[0]


def test_thousands_of_producers_in_one_epoch_are_quick_work() -> None:
    count = 50_000
    heard = pl.DataFrame(
        {
            "producer": [f"device-{n}" for n in range(count)] * 2,
            "time": np.arange(2 * count),
            "received": np.arange(2 * count),
        },
        schema=HEARD,
    )
    mark = Watermarks(idle=count // 2).advance(heard, 2 * count)
    assert mark.watermark == 2 * count - count // 2 + 1


def test_receive_times_outside_the_epoch_are_taken_as_its_ends() -> None:
    mark = Watermarks(idle=10).advance(rows(("a", 5, 0)), 100)
    assert mark.advance(rows(("a", 7, 50)), 101).live["received"].to_list() == [100]
    assert mark.advance(rows(("a", 7, 500)), 101).live["received"].to_list() == [101]


def test_smallest_input_wins_and_delays_are_subtracted() -> None:
    assert combined([7, 3, 9]) == 3
    assert combined([]) == MIN_TIME
    assert delayed(100, 30) == 70
    assert delayed(MAX_TIME, 30) == MAX_TIME
    assert delayed(MIN_TIME, 30) == MIN_TIME


def test_no_skew_limit_quarantines_nothing() -> None:
    assert not is_ahead(np.array([YEAR]), np.array([0]), None).any()
    assert is_ahead(np.array([5, 6, 7]), np.array([0, 0, 2]), 5).tolist() == [False, True, False]


def test_idle_of_no_length_is_refused() -> None:
    with pytest.raises(Invalid, match="idle"):
        Watermarks(idle=0)


SPOKEN = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-500, 500), st.integers(0, 2_000)), min_size=65, max_size=200
)


@given(SPOKEN, st.sampled_from([None, 1, 7, 50, 400]), st.integers(0, 300))
def test_few_lines_bring_no_watermark_further_than_all_of_them(
    spoken: list[Heard], idle: int | None, later: int
) -> None:
    heard = pl.DataFrame(spoken, schema=HEARD, orient="row")
    all_of_it, few = (Watermarks(0, idle).advance(lines, 2_000 + later) for lines in (heard, thinned(heard, idle)))
    assert few.watermark <= all_of_it.watermark
    assert few.live.sort("producer").equals(all_of_it.live.sort("producer"))
